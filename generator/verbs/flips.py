"""Report which cells two calibrations of one board decide differently and why, from their evidence, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import share
from generator.core.catalog import build_catalog
from generator.core.evidence_report import flip_json, flips, flips_markdown, settled_changes
from generator.core.limits import LIMITS
from generator.core.verdict import Rule
from generator.errors import GateError
from generator.evidence_pair import load_pair
from generator.files import write_report
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("first", type=Path, metavar="FIRST", help="evidence of one run")
    parser.add_argument("second", type=Path, metavar="SECOND", help="evidence of another run on the same board")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--output", type=Path, metavar="FILE", help="write the report to FILE instead of stdout")
    form.add_argument("--json", action="store_true", help="print the cells under rule guarded as JSON")
    parser.add_argument("--most", type=share, metavar="SHARE", help="exit 3 if more cells differ under rule guarded")


def run(arguments: Namespace, output: Output) -> int:
    """Report, and let the gate say its word."""
    first, second = load_pair(arguments.first, arguments.second)
    catalog = build_catalog(find_families())
    found, cells = flips(first, second, catalog, LIMITS, Rule.GUARDED)
    if arguments.json:
        changed = settled_changes(first, second, catalog, LIMITS)
        output.json(
            {
                "cells": cells,
                "rule": Rule.GUARDED,
                "settled_changes": changed,
                "flips": [flip_json(item) for item in found],
            }
        )
    else:
        write_report(flips_markdown(first, second, catalog, LIMITS), arguments.output, output)
    if arguments.most is not None and len(found) > arguments.most * cells:
        raise GateError(
            f"{len(found)} of {cells} cells differ, allowed are {arguments.most:.2%}; measure an idle device"
        )
    return 0
