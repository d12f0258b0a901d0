"""Select the bands of the unified/* keys from two benchmark rounds; every decision comes with its reason."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import add_root
from generator.core.bench_readers import judged_cases
from generator.core.cases import EVERY_WIDTH
from generator.core.gain_picture import draw_gains
from generator.core.limits import UNIFIED_LIMITS, UnifiedLimits
from generator.core.unified import describe_rule, moved, select
from generator.errors import UsageError
from generator.files import write_files
from generator.repository import find_repository
from generator.round_store import load_grid, load_grids, load_round_files
from kernels.widths import UNIFIED_GRID

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from ninfer_device_profiles.bands import Bands

    from generator.core.cases import Grid
    from generator.core.rounds import Round
    from generator.core.route import HardwareClass
    from generator.core.sources import Device
    from generator.core.unified import Decision, KeySelection, Moved, Selection
    from generator.output import Output


_MOST = 1000
"""Largest whole number that ``--what-if`` takes: rounds, and widths of a band, are a handful."""


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    names = ", ".join(item.name for item in fields(UnifiedLimits))
    parser.add_argument("--device", default="", metavar="CLASS", help="only hardware classes that begin with this")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only keys that begin with this")
    parser.add_argument("--bands", action="store_true", help="print the bands without the decisions")
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"list the cells that would take another route under another number: {names}",
    )
    parser.add_argument("--grid", type=Path, help="judge with this width grid (TOML) instead of the committed one")
    parser.add_argument("--picture", type=Path, metavar="DIR", help="write one SVG a device and key")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_root(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Select, and print what was decided or what would move."""
    folder = find_repository(arguments.root).sources / "measured"
    files = load_round_files(folder)
    rounds = [file.round for file in files if file.round.device.hardware_class.startswith(arguments.device)]
    grids = load_grids(folder)
    if arguments.grid is not None:
        grids = dict.fromkeys((item.device.hardware_class for item in rounds), load_grid(arguments.grid))
    limits = what_if_limits(arguments.what_if)
    selections = _select(rounds, grids, limits, arguments.only)
    cells: tuple[Moved, ...] = ()
    if arguments.what_if:
        cells = moved(_select(rounds, grids, UNIFIED_LIMITS, arguments.only), selections)
    _note(selections, output)
    if not rounds:
        output.note(f"no round files below {folder}; bring some in with `bench-unified import`")
    if arguments.picture is not None:
        for path in write_files(_pictures(arguments.picture, selections, limits)):
            output.note(f"wrote {path}")
    if arguments.json:
        output.json(_json(selections, cells, limits))
    elif arguments.what_if:
        _show_moved(cells, limits, output)
    else:
        for device, selection in selections.items():
            for item in selection.keys.values():
                _show(device, item, output, decisions=not arguments.bands)
    return 0


def _note(selections: dict[Device, Selection], output: Output) -> None:
    for selection in selections.values():
        for text in selection.remarks.warnings:
            output.note(f"{selection.device}: {text}")
        for text in selection.remarks.refusals:
            output.note(f"{selection.device}: refused: {text}")


def _pictures(folder: Path, selections: dict[Device, Selection], limits: UnifiedLimits) -> dict[Path, bytes]:
    pictures: dict[Path, bytes] = {}
    for device, selection in selections.items():
        for key, item in selection.keys.items():
            name = f"{device.hardware_class}-{device.multiprocessors}sm-{key.replace('/', '-')}.svg"
            pictures[folder / name] = draw_gains(device, item, limits).encode()
    return pictures


def what_if_limits(texts: Sequence[str]) -> UnifiedLimits:
    """Return the rule's numbers with those in ``texts`` (``NAME=VALUE``) instead.

    Raises:
        UsageError: a text names no number of the rule, or its value is none.
    """
    limits = UNIFIED_LIMITS
    for text in texts:
        name, _, value = text.partition("=")
        known = {item.name: getattr(limits, item.name) for item in fields(UnifiedLimits)}
        if name not in known:
            raise UsageError(f"--what-if {text!r}: expected NAME=VALUE with one of {', '.join(known)}")
        kind = type(known[name])
        try:
            number = kind(value)
        except ValueError:
            raise UsageError(f"--what-if {text!r}: {value!r} is not a {kind.__name__}") from None
        if not (1 <= number <= _MOST if kind is int else 0 <= number < float("inf")):
            reach = f"from 1 to {_MOST}" if kind is int else "from 0"
            raise UsageError(f"--what-if {text!r}: expected a number {reach}")
        limits = replace(limits, **{name: number})
    return limits


def _select(
    rounds: Sequence[Round], grids: dict[HardwareClass, Grid], limits: UnifiedLimits, prefix: str
) -> dict[Device, Selection]:
    result: dict[Device, Selection] = {}
    for name in sorted({item.device.hardware_class for item in rounds}):
        ours = [item for item in rounds if item.device.hardware_class == name]
        result |= select(ours, judged_cases(), limits, grids.get(name, EVERY_WIDTH))
    return {
        device: replace(item, keys={key: found for key, found in item.keys.items() if key.startswith(prefix)})
        for device, item in result.items()
    }


def _words(bands: Bands | None) -> str:
    if bands is None:
        return "not decided"
    text = " ".join(f"{'u' if band.schedule else '-'}{band.last}" for band in bands)
    return text or "compiled at every width"


def _show(device: Device, item: KeySelection, output: Output, *, decisions: bool) -> None:
    output.text(f"{device} {item.key}: {_words(item.bands)}\n")
    if not decisions:
        return
    for decision in item.decisions:
        output.text(f"  {decision.width:5} {decision.verdict.value}: {decision.reason}\n")
    unmeasured = [width for width in UNIFIED_GRID if width not in {decision.width for decision in item.decisions}]
    if unmeasured:
        output.text(f"  widths of the common grid that no round ran: {', '.join(map(str, unmeasured))}\n")
    for note in item.notes:
        output.text(f"  {note}\n")


def _show_moved(cells: Sequence[Moved], limits: UnifiedLimits, output: Output) -> None:
    output.text(f"under the {describe_rule(limits)}\n")
    for cell in cells:
        output.text(
            f"{cell.device} {cell.before.key} width {cell.before.width}:\n"
            f"  now     {cell.before.verdict.value}: {cell.before.reason}\n"
            f"  what if {cell.after.verdict.value}: {cell.after.reason}\n"
        )
    output.text(f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'} would take another route\n")


def _json(selections: dict[Device, Selection], cells: Sequence[Moved], limits: UnifiedLimits) -> dict[str, object]:
    return {
        "rule": describe_rule(limits),
        "devices": [
            {
                "device": str(device),
                "rounds": list(selection.rounds),
                "warnings": list(selection.remarks.warnings),
                "refusals": list(selection.remarks.refusals),
                "keys": {
                    key: {
                        "bands": None if item.bands is None else [list(band) for band in item.bands],
                        "decisions": [_decision(decision) for decision in item.decisions],
                        "notes": list(item.notes),
                    }
                    for key, item in selection.keys.items()
                },
            }
            for device, selection in selections.items()
        ],
        "moved": [
            {
                "device": str(cell.device),
                "key": cell.before.key,
                "width": cell.before.width,
                "now": _decision(cell.before),
                "what_if": _decision(cell.after),
            }
            for cell in cells
        ],
    }


def _decision(decision: Decision) -> dict[str, object]:
    return {
        "width": decision.width,
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "gain": decision.gain,
        "worst_case": decision.worst_case,
        "worst_loss": decision.worst_loss,
    }
