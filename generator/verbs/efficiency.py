"""Report how near each route's fastest schedule comes to the memory floor, from an evidence file, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.core.evidence_file import load_evidence
from generator.core.evidence_report import efficiency_markdown
from generator.files import read_text, write_files

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("evidence", type=Path, metavar="EVIDENCE", help="an evidence file")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report to FILE instead of stdout")


def run(arguments: Namespace, output: Output) -> int:
    """Report."""
    name = str(arguments.evidence)
    text = efficiency_markdown(load_evidence(read_text(arguments.evidence, name), name))
    if arguments.output is None:
        output.text(text)
    else:
        write_files({arguments.output: text.encode()})
    return 0
