"""Report how near each route's fastest schedule comes to the memory floor, from an evidence file, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.core.evidence_file import load_evidence
from generator.core.evidence_report import efficiencies, efficiency_json, efficiency_markdown
from generator.files import read_text, write_report

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("evidence", type=Path, metavar="EVIDENCE", help="an evidence file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--output", type=Path, metavar="FILE", help="write the report to FILE instead of stdout")
    form.add_argument("--json", action="store_true", help="print every point as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Report."""
    name = str(arguments.evidence)
    evidence = load_evidence(read_text(arguments.evidence, name), name)
    if arguments.json:
        output.json([efficiency_json(item) for item in efficiencies(evidence)])
    else:
        write_report(efficiency_markdown(evidence), arguments.output, output)
    return 0
