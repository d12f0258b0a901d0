"""A manifest names a whole set of benchmark outputs: which file is of which round and table, under which conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, NoReturn, TypeVar

from generator.core.cases import Grid
from generator.core.round_files import EXECUTIONS
from generator.core.rounds import PROGRAM_DEFAULT, Conditions, Table, parse_device, usual_order
from generator.core.route import RouteKey
from generator.core.texts import load_toml
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.sources import Device

_T = TypeVar("_T")
_NUMBERS = ("cuda_driver", "power_limit_w", "sm_clock_mhz")
_RUN = ("round", "table", "first", "conditions", "files")


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFile:
    """One benchmark output; ``program`` is empty where the file tells it, ``settings`` say what it does not."""

    path: str
    program: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """All outputs of one table of one round."""

    round: int
    table: Table
    order: tuple[Table, Table]
    conditions: Conditions
    files: tuple[OutputFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A set of outputs of one device."""

    device: Device
    runs: tuple[Run, ...]
    execution: str = PROGRAM_DEFAULT


def parse_manifest(text: str, source: str) -> Manifest:
    """Return the manifest in ``text``.

    Raises:
        SourceError: the text is no manifest; the message says where.
    """
    data = load_toml(text, source, "correct the file")
    _known(data, ("device", "execution", "conditions", "run"), source)
    common = _conditions(Conditions(), _get(data, "conditions", dict, source, {}), f"{source} [conditions]")
    runs: list[Run] = []
    for place, item in enumerate(_get(data, "run", list, source)):
        where = f"{source} [[run]] {place + 1}"
        if not isinstance(item, dict):
            _stop(where, item, "a table")
        _known(item, _RUN, where)
        number = _get(item, "round", int, where)
        order = order_of(number, _get(item, "first", str, where, ""), where)
        runs.append(
            Run(
                round=number,
                table=_table(_get(item, "table", str, where), where),
                order=order,
                conditions=_conditions(common, _get(item, "conditions", dict, where, {}), f"{where} conditions"),
                files=tuple(
                    _file(entry, f"{where} files {n + 1}") for n, entry in enumerate(_get(item, "files", list, where))
                ),
            )
        )
    execution = _get(data, "execution", str, source, PROGRAM_DEFAULT)
    if execution not in {*EXECUTIONS, PROGRAM_DEFAULT}:
        _stop(f"{source} execution", execution, f"one of {[*EXECUTIONS, PROGRAM_DEFAULT]!r}")
    return Manifest(device=parse_device(_get(data, "device", str, source)), runs=tuple(runs), execution=execution)


def order_of(number: int, first: str, where: str) -> tuple[Table, Table]:
    """Return the order of the tables in round ``number``; ``first`` is empty for the usual one.

    Raises:
        SourceError: the round is not above 0, or ``first`` is no table.
    """
    if number < 1:
        _stop(f"{where} round", number, "a number from 1")
    usual = usual_order(number)
    if not first:
        return usual
    return usual if _table(first, where) is usual[0] else (usual[1], usual[0])


def parse_grid(text: str, source: str) -> Grid:
    """Return the width grid in ``text``.

    Raises:
        SourceError: the text is no grid; the message says where.
    """
    data = load_toml(text, source, "correct the file")
    _known(data, ("widths", "keys", "leave_out"), source)
    keys = _get(data, "keys", dict, source, {})
    left = _get(data, "leave_out", dict, source, {})
    return Grid(
        widths=_widths(_get(data, "widths", list, source, []), f"{source} widths"),
        by_key={RouteKey(key): _widths(widths, f"{source} keys {key!r}") for key, widths in keys.items()},
        leave_out={key: _texts(texts, f"{source} leave_out {key!r}") for key, texts in left.items()},
    )


def _conditions(base: Conditions, data: Mapping[str, object], where: str) -> Conditions:
    _known(data, tuple(item.name for item in fields(Conditions)), where)
    for name, value in data.items():
        kind = int if name in _NUMBERS else str
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            _stop(f"{where} {name}", value, "a whole number" if kind is int else "a text")
    return replace(base, **data)  # type: ignore[arg-type]  # each field was checked above


def _file(entry: object, where: str) -> OutputFile:
    if isinstance(entry, str):
        return OutputFile(path=entry)
    if not isinstance(entry, dict):
        _stop(where, entry, "a path, or a table with 'path'")
    rest = {name: value for name, value in entry.items() if name not in {"path", "program"}}
    for name, value in rest.items():
        if type(value) not in {int, str}:
            _stop(f"{where} {name}", value, "a text or a whole number")
    return OutputFile(
        path=_get(entry, "path", str, where),
        program=_get(entry, "program", str, where, ""),
        settings={name: str(value) for name, value in rest.items()},
    )


def _table(name: str, where: str) -> Table:
    try:
        return Table(name)
    except ValueError:
        _stop(where, name, f"one of {[table.value for table in Table]!r}")


def _widths(value: object, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(width) is not int or width < 1 for width in value):
        _stop(where, value, "a list of widths above 0")
    return tuple(sorted(set(value)))


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        _stop(where, value, "a list of patterns of cases")
    return tuple(value)


def _known(data: Mapping[str, object], names: tuple[str, ...], where: str) -> None:
    for name in data:
        if name not in names:
            _stop(where, name, f"only {', '.join(names)}")


def _get(data: Mapping[str, object], name: str, kind: type[_T], where: str, default: _T | None = None) -> _T:
    value = data.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        _stop(f"{where} {name}", value, {str: "a text", int: "a whole number", list: "a list"}.get(kind, "a table"))
    return value


def _stop(where: str, found: object, expected: str) -> NoReturn:
    raise SourceError(f"{where}: found {found!r}; expected {expected}. Correct the file")
