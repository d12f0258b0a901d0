"""Derive the built-in table from its sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import serialise_table
from rich.table import Table

from generator.arguments import add_root
from generator.core.catalog import build_catalog
from generator.core.derive import derive
from generator.core.dropped import dropped_keys
from generator.core.sources import Device
from generator.errors import DifferenceError
from generator.files import write_files
from generator.repository import check_files, current_day, find_repository, load_sources
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Collection, Mapping, Sequence

    from generator.core.derive import Derivation
    from generator.core.dropped import DroppedKey
    from generator.output import Output
    from generator.repository import Repository

_REMEDY = "run `python -m generator derive --write` and review the difference"


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail (exit 1) where the committed table differs")
    action.add_argument("--write", action="store_true", help="update the committed table")
    action.add_argument("--output", type=Path, metavar="FILE", help="write the table to FILE instead ('-' for stdout)")
    parser.add_argument("--with-extras", action="store_true", help="ship the extras of reference_gpus.toml too")
    parser.add_argument("--imported-only", action="store_true", help="derive from the imported entries alone")
    add_root(parser)
    parser.add_argument("--json", action="store_true", help="print which source answers for each key as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Derive, then check, write or report."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    sources = load_sources(repository, catalog, current_day())
    if arguments.imported_only:
        sources = type(sources)(reference=sources.reference, imported=sources.imported)
    derivation = derive(sources, catalog, with_extras=arguments.with_extras)
    table = {repository.table: serialise_table(derivation.document).encode()}
    dropped = dropped_keys(sources, derivation)
    for item in dropped:
        output.note(f"note: {item}")
    if str(arguments.output) == "-":
        output.text(table[repository.table].decode())
        return 0
    if arguments.check:
        check_files(repository, table, _REMEDY)
    elif arguments.write:
        name = repository.relative(repository.table)
        state = "written; now run `python -m generator emit --write`" if write_files(table) else "unchanged"
        output.note(f"{name}: {state}")
    elif arguments.output is not None:
        write_files({arguments.output: table[repository.table]})
        output.note(f"wrote {arguments.output}")
    elif not (arguments.with_extras or arguments.imported_only):
        output.note(_standing(repository, table))
    if arguments.json:
        output.json(_summary(derivation, dropped))
    else:
        _show(derivation, {Device(card.hardware_class, card.multiprocessors) for card in sources.reference}, output)
    return 0


def _standing(repository: Repository, table: Mapping[Path, bytes]) -> str:
    """Return whether the committed table is what the sources give."""
    try:
        check_files(repository, table, _REMEDY)
    except DifferenceError as error:
        return f"note: not the committed table: {error}"
    return f"{repository.relative(repository.table)}: what the sources give"


def _summary(derivation: Derivation, dropped: Sequence[DroppedKey]) -> dict[str, object]:
    return {
        "devices": [
            {
                "hardware_class": device.hardware_class,
                "multiprocessors": device.multiprocessors,
                "keys": {
                    key: {
                        "source": answer.kind.label,
                        "file": answer.file,
                        "bands": [list(band) for band in answer.bands],
                    }
                    for key, answer in answers.items()
                },
            }
            for device, answers in derivation.answers.items()
        ],
        "missing": [card.name for card in derivation.missing],
        "left_out": [list(device) for device in derivation.left_out],
        "dropped": [
            {"file": item.file, "key": item.key, "reason": item.reason, "remedy": item.remedy} for item in dropped
        ],
    }


def _show(derivation: Derivation, reference: Collection[Device], output: Output) -> None:
    table = Table("hardware class", "SMs", "keys", "from", title="built-in table")
    shipped = {(profile.hardware_class, profile.multiprocessors): profile for profile in derivation.document.devices}
    for device, answers in derivation.answers.items():
        kinds = [answer.kind for answer in answers.values()]
        origin = ", ".join(f"{kinds.count(kind)} {kind.label}" for kind in sorted(set(kinds), reverse=True))
        keys = len(shipped[device.hardware_class, device.multiprocessors].routes)
        silent = len(answers) - keys
        origin += f"; {silent} of them compiled at every width, so not in the table" if silent else ""
        table.add_row(device.hardware_class, str(device.multiprocessors), str(keys), origin)
    for card in derivation.missing:
        table.add_row(card.hardware_class, str(card.multiprocessors), "0", "MISSING: nobody has measured it yet")
    output.show(table)
    for device in derivation.left_out:
        why = (
            "an extra, which ships only with --with-extras"
            if device in reference
            else "not in reference_gpus.toml; add a [[gpu]] or [[extra]] table there to ship it"
        )
        output.note(f"left out: {device.hardware_class} ({device.multiprocessors} SMs): {why}")
