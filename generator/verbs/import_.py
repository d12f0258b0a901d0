"""Take over the entries of an engine profile document as sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.core.catalog import build_catalog
from generator.core.imported import source_name, take_entries, write_imported
from generator.repository import find_repository, read_bytes, sha256_of, write_files
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "file", nargs="+", type=Path, help="output of ninfer-calibrate --print, a profile file, or a built-in table"
    )
    parser.add_argument("--device", metavar="CLASS", help="take the entries of this hardware class alone")
    parser.add_argument("--root", type=Path, help="the checkout to write to (default: the one this code runs from)")
    parser.add_argument("--json", action="store_true", help="print what was taken as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Import every file, or nothing."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    files: dict[Path, bytes] = {}
    rows: list[dict[str, object]] = []
    for path in arguments.file:
        content = read_bytes(path, str(path))
        taken, notes = take_entries(content, str(path), sha256_of(content), catalog)
        for note in notes:
            output.note(f"note: {note}")
        for item in taken:
            profile = item.profile
            if arguments.device not in {None, profile.hardware_class}:
                continue
            target = repository.sources / "imported" / source_name(profile.hardware_class, profile.multiprocessors)
            files[target] = write_imported(item).encode()
            rows.append(
                {
                    "hardware_class": profile.hardware_class,
                    "multiprocessors": profile.multiprocessors,
                    "keys": len(profile.routes),
                    "source": repository.relative(target),
                }
            )
    written = {repository.relative(path) for path in write_files(files)}
    for row in rows:
        row["written"] = row["source"] in written
    if arguments.json:
        output.json(rows)
    else:
        for row in rows:
            state = "written" if row["written"] else "unchanged"
            device = f"{row['hardware_class']} ({row['multiprocessors']} SMs)"
            output.text(f"{row['source']}: {row['keys']} keys of {device}, {state}\n")
        if not rows:
            output.text(f"nothing taken: no entry of class {arguments.device!r}\n")
    return 0 if rows else 1
