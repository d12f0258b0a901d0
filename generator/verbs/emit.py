"""Emit the table for its consumers: JSON, catalog, build info, C++ source and header."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import add_root
from generator.core.catalog import build_catalog
from generator.core.derive import derive
from generator.core.dropped import dropped_keys
from generator.emitted import emitted_files
from generator.files import write_files
from generator.repository import check_files, current_day, find_repository, load_sources, sha256_of
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail (exit 1) where a committed file differs")
    action.add_argument("--write", action="store_true", help="update the committed files")
    action.add_argument("--output", type=Path, metavar="DIR", help="write the files to DIR instead")
    parser.add_argument("--with-extras", action="store_true", help="emit a table that holds the extras too")
    add_root(parser)
    parser.add_argument("--json", action="store_true", help="print the files and their digests as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Emit, then check, write or only report."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    sources = load_sources(repository, catalog, current_day())
    derivation = derive(sources, catalog, with_extras=arguments.with_extras)
    for item in dropped_keys(sources, derivation):
        output.note(f"note: {item}")
    files = emitted_files(repository, sources, derivation, catalog)
    if arguments.output is not None:
        files = {arguments.output / path.name: content for path, content in files.items()}
    written: tuple[Path, ...] = ()
    if arguments.check:
        check_files(repository, files, "run `python -m generator emit --write` and review the difference")
    elif arguments.write or arguments.output is not None:
        written = write_files(files)
    rows = [
        {
            "file": repository.relative(path),
            "bytes": len(content),
            "sha256": sha256_of(content),
            "written": path in written,
        }
        for path, content in files.items()
    ]
    if arguments.json:
        output.json(rows)
    else:
        for row in rows:
            output.text(f"{row['sha256']}  {row['bytes']:>7}  {row['file']}{'  (written)' if row['written'] else ''}\n")
    return 0
