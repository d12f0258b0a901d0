"""Take over the entries of an engine profile document as sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import add_root
from generator.core.catalog import build_catalog
from generator.core.evidence_file import dump_evidence, evidence_name
from generator.core.imported import source_name, take_entries, write_imported
from generator.engine import read_run
from generator.errors import UsageError
from generator.files import read_bytes, read_text, write_files
from generator.repository import find_repository, sha256_of
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.core.catalog import Catalog
    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "file", nargs="+", type=Path, help="output of ninfer-calibrate --print, a profile file, or a built-in table"
    )
    parser.add_argument(
        "--log", type=Path, help="stderr of the run that printed the file (ninfer-calibrate --print --detail)"
    )
    parser.add_argument("--device", metavar="CLASS", help="take the entries of this hardware class alone")
    add_root(parser)
    parser.add_argument("--json", action="store_true", help="print what was taken as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Import every file, or nothing."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    files: dict[Path, bytes] = {}
    rows: list[dict[str, object]] = []
    classes: dict[str, None] = {}
    for path in arguments.file:
        content = read_bytes(path, str(path))
        taken, notes = take_entries(content, str(path), sha256_of(content), catalog)
        for note in notes:
            output.note(f"note: {note}")
        for item in taken:
            profile = item.profile
            classes[profile.hardware_class] = None
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
    if arguments.log is not None:
        path, evidence = _log_evidence(arguments, catalog, repository.sources / "measured")
        files[path] = evidence
        output.note(f"evidence of the engine's medians: {repository.relative(path)}")
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
            output.text(f"nothing taken: no entry of class {arguments.device!r}; found {', '.join(classes)}\n")
    return 0 if rows else 1


def _log_evidence(arguments: Namespace, catalog: Catalog, folder: Path) -> tuple[Path, bytes]:
    """Return where the evidence in ``--log`` goes, and its text."""
    if len(arguments.file) != 1:
        raise UsageError(f"--log with {len(arguments.file)} files; a log is of one entry. Import that one alone")
    document = read_bytes(arguments.file[0], str(arguments.file[0]))
    text = read_text(arguments.log, str(arguments.log))
    evidence = read_run(document, text.splitlines(), str(arguments.log), catalog).evidence
    return folder / evidence_name(evidence, "-engine"), dump_evidence(evidence).encode()
