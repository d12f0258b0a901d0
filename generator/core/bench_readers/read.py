"""Read one benchmark output: find its program, turn its rows into times, and account for every line left out."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from generator.core.bench_readers.lines import Lines
from generator.core.bench_readers.program import LeftOut, Program, Row
from generator.core.rounds import Source, Table, Time
from generator.core.uncollected import uncollected
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.core.rounds import Case
    from generator.core.route import RouteKey
    from generator.core.sources import Device

_SKIP = "SKIP:"
_TIMES = ("median_us", "min_us", "p95_us")
_FIELD = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*([^\s,;]+)")
_UNIT = re.compile(r"(?<=[0-9])(us|µs)$")
_TEXT_NAMES = {"median": "median_us", "min": "min_us", "p95": "p95_us", "tokens": "t"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one output holds.

    Args:
        source: the output itself.
        times: in the output's order, no point twice.
        widths: per key every width that the program ran, with or without a time.
        notes: what was left out and how often, one sentence each.
        skipped: the program's own words where it ran nothing; empty otherwise.
    """

    source: Source
    times: tuple[Time, ...]
    widths: Mapping[RouteKey, tuple[int, ...]]
    notes: tuple[str, ...] = ()
    skipped: str = ""


class _Header(NamedTuple):
    program: Program
    columns: tuple[str, ...]
    places: Mapping[str, str]


def read_output(
    chunks: Iterable[bytes],
    name: str,
    *,
    programs: Mapping[str, Program],
    device: Device,
    table: Table,
    program: str = "",
    settings: Mapping[str, str] | None = None,
) -> Reading:
    """Return what one output of one program holds.

    Args:
        chunks: the file's bytes in pieces of any size; no more than one line is held at a time.
        name: the file's name; it leads every message and, where it holds a program's name, names the program of a text.
        programs: by name.
        device: rows that name another GPU are left out.
        table: the table that ran.
        program: the program's name where neither the header nor ``name`` tells it.
        settings: what the output does not say, such as ``k``.

    Raises:
        SourceError: a line is none of this program's, a point has two different times, or nothing is left.
    """
    reader = _Reader(name, programs, device=device, table=table, program=program, settings=settings or {})
    lines = Lines(chunks, name)
    with uncollected():
        for number, text in lines:
            reader.line(number, text)
        return reader.reading(lines)


class _Reader:
    """Collects the times of one output line by line."""

    def __init__(
        self,
        name: str,
        programs: Mapping[str, Program],
        *,
        device: Device,
        table: Table,
        program: str,
        settings: Mapping[str, str],
    ) -> None:
        self._name = name
        self._programs = programs
        self._device = device
        self._table = table
        self._settings = settings
        self._header: _Header | None = None
        self._program = _named(programs, program, name)
        self._skips: list[str] = []
        self._left: Counter[str] = Counter()
        self._unknown: tuple[str, ...] = ()
        self._found: dict[tuple[RouteKey, Table, Case, str, str, int], tuple[Time, int]] = {}
        self._widths: dict[RouteKey, set[int]] = {}
        if self._program is not None:
            self._accept(self._program)

    def line(self, number: int, text: str) -> None:
        """Take one line."""
        stripped = text.strip()
        if not stripped or stripped.startswith("#"):
            return
        if stripped.startswith(_SKIP):
            self._skips.append(stripped.removeprefix(_SKIP).strip())
            return
        where = f"{self._name} line {number}"
        cells = text.split(",") if '"' not in text else next(csv.reader([text]))
        names = tuple(cell.strip().lower() for cell in cells) if _TIMES[0] in text.lower() else ()
        if _TIMES[0] in names:
            self._set_header(names, where)
        elif self._header is not None:
            self._csv_row(self._header, cells, where, number)
        elif "median" in stripped:
            self._text_row(stripped, where, number)
        else:
            self._left["line of prose"] += 1

    def reading(self, lines: Lines) -> Reading:
        """Return the reading after the last line."""
        notes = [f"{self._name}: {_times(count)} left out: {reason}" for reason, count in sorted(self._left.items())]
        if self._unknown:
            notes.append(f"{self._name}: columns nobody knows, not read: {', '.join(self._unknown)}")
        if len(lines.ends) > 1:
            notes.append(f"{self._name}: line ends are mixed ({', '.join(sorted(lines.ends))})")
        notes.extend(f"{self._name}: the program skipped: {text}" for text in self._skips)
        if not self._found and not self._widths and not self._skips:
            why = f" ({'; '.join(sorted(self._left))})" if self._left else ""
            raise SourceError(
                f"{self._name}: holds no row of {self._device}{why}; expected rows of one benchmark program. "
                "Check the device and the file"
            )
        return Reading(
            source=Source(
                table=self._table,
                name=self._name,
                program=self._program.name if self._program is not None else "",
                sha256=lines.sha256,
            ),
            times=tuple(time for time, _ in self._found.values()),
            widths={key: tuple(sorted(widths)) for key, widths in sorted(self._widths.items())},
            notes=tuple(notes),
            skipped="; ".join(self._skips),
        )

    def _set_header(self, names: tuple[str, ...], where: str) -> None:
        fits = [item for item in self._programs.values() if item.columns and set(item.columns) <= set(names)]
        if not fits:
            near = max(self._programs.values(), key=lambda item: (len(set(item.columns) & set(names)), item.name))
            lacking = [column for column in near.columns if column not in names]
            raise SourceError(
                f"{where}: columns {list(names)!r} are of no known program; nearest is {near.name!r}, which has also "
                f"{lacking!r}. Check that the whole header line is there"
            )
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise SourceError(f"{where}: column {repeated[0]!r} stands twice; keep one")
        most = max(len(item.columns) for item in fits)
        best = [item for item in fits if len(item.columns) == most]
        found = next((item for item in best if item is self._program), best[0])
        if self._program is not None and found is not self._program:
            raise SourceError(
                f"{where}: the columns are those of {found.name!r} in an output of {self._program.name!r}; "
                "import one program a file"
            )
        if self._header is not None and self._header.columns != names:
            raise SourceError(f"{where}: a second header with other columns; import one run a file")
        self._program = found
        self._accept(found)
        self._header = _Header(found, names, {name: f"column {name!r}" for name in names})
        self._unknown = tuple(name for name in names if name not in {*found.columns, *found.settings})

    def _accept(self, program: Program) -> None:
        """Refuse an output that feeds no key, and settings that its program does not have."""
        if program.refusal:
            raise SourceError(f"{self._name}: output of {program.name!r}: {program.refusal}")
        for setting in self._settings:
            if setting not in program.settings:
                raise SourceError(
                    f"{self._name}: setting {setting!r} is none of {program.name!r}, which takes "
                    f"{list(program.settings)!r}; remove it"
                )

    def _csv_row(self, header: _Header, cells: Sequence[str], where: str, number: int) -> None:
        if len(cells) != len(header.columns):
            place = min(len(cells), len(header.columns))
            name = header.columns[place] if place < len(header.columns) else f"{place + 1}"
            raise SourceError(
                f"{where} column {name!r}: the row has {len(cells)} fields and the header {len(header.columns)}; "
                "the output was cut or two were mixed. Run the benchmark again"
            )
        fields = dict(zip(header.columns, map(str.strip, cells), strict=True))
        self._row(header.program, fields, header.places, where, number)

    def _text_row(self, text: str, where: str, number: int) -> None:
        fields: dict[str, str] = {}
        places: dict[str, str] = {}
        for match in _FIELD.finditer(text):
            name = match[1].lower()
            name = _TEXT_NAMES.get(name, name)
            fields[name] = _UNIT.sub("", match[2])
            places[name] = f"column {match.start(2) + 1}"
        if _TIMES[0] not in fields:
            self._left["line of prose"] += 1
            return
        if self._program is None:
            known = ", ".join(sorted(item.name for item in self._programs.values() if not item.refusal))
            raise SourceError(
                f"{where}: text of an unnamed program; name it with the file, or in the file's name. Known: {known}"
            )
        self._row(self._program, fields, places, where, number)

    def _row(
        self, program: Program, fields: Mapping[str, str], places: Mapping[str, str], where: str, number: int
    ) -> None:
        gpu = fields.get("gpu", "")
        if gpu and class_stem(gpu) != self._device.hardware_class.rpartition("-sm")[0]:
            self._left[f"row of another GPU, {gpu!r}"] += 1
            return
        row = Row(fields, places, where=where, given=self._settings, defaults=program.defaults, table=self._table)
        point = program.point(row)
        if isinstance(point, LeftOut):
            self._left[f"row: {point.reason}"] += 1
            return
        self._widths.setdefault(point.key, set()).add(point.width)
        median = row.time("median_us")
        least = row.time("min_us") if row.get("min_us") else None
        p95 = row.time("p95_us") if row.get("p95_us") else None
        if median is not None and not (least or median) <= median <= (p95 or median):
            raise SourceError(
                f"{row.at('median_us')}: median {median!r} us is not between min {least!r} and p95 {p95!r}; "
                "the columns are mixed up. Run the benchmark again"
            )
        time = Time(point.key, self._table, point.case, point.execution, point.cache, point.width, median, least, p95)
        known = self._found.setdefault(time.point, (time, number))
        if known[0] is time:
            return
        if known[0] != time:
            raise SourceError(
                f"{row.at('median_us')}: {point.key} {point.case} width {point.width} has median {median!r} us here "
                f"and {known[0].median_us!r} us in line {known[1]}; keep one run a file"
            )
        self._left["row: repeats an earlier row to the digit"] += 1


def _named(programs: Mapping[str, Program], program: str, name: str) -> Program | None:
    """Return the program asked for, else the one whose name the file's name holds, else None."""
    if program:
        found = programs.get(program)
        if found is None:
            raise SourceError(f"{name}: program {program!r} is none of {sorted(programs)!r}; name one of them")
        return found
    return max((item for item in programs.values() if item.name in name), key=lambda item: len(item.name), default=None)


def class_stem(gpu: str) -> str:
    """Return the hardware class of the GPU named ``gpu``, without its capability (engine-profiles 1.2)."""
    stem = re.sub(r"[^a-z0-9]+", "-", gpu.encode("ascii", "replace").decode().lower()).strip("-") or "gpu"
    return stem if stem == "nvidia" or stem.startswith("nvidia-") else f"nvidia-{stem}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
