"""Build the wheel that embeds the table, check it, and verify it in a clean environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from generator.core.catalog import build_catalog
from generator.core.derive import derive
from generator.emitted import embedded_files
from generator.repository import current_day, find_repository, load_sources
from generator.revision import commit_epoch
from generator.wheel import EARLIEST_EPOCH, build_wheel, verify_installed
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="folder of the results (dist)")
    parser.add_argument("--with-extras", action="store_true", help="embed a table that holds the extras too")
    parser.add_argument("--no-verify", action="store_true", help="skip the installation into an empty environment")
    parser.add_argument("--root", type=Path, help="the checkout (default: the one this code runs from)")


def run(arguments: Namespace, output: Output) -> int:
    """Build, check and verify."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    sources = load_sources(repository, catalog, current_day())
    derivation = derive(sources, catalog, with_extras=arguments.with_extras)
    files = embedded_files(repository, sources, derivation, catalog)
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    epoch = int(given) if given.isdecimal() else commit_epoch(repository.root) or EARLIEST_EPOCH
    built = build_wheel(repository, files, arguments.output, epoch, output.note)
    if not arguments.no_verify:
        output.text(verify_installed(built.wheel.resolve(), output.note))
    output.text(f"{built.wheel}\n{built.sdist}\nwheel SHA-256 {built.sha256}\n")
    return 0
