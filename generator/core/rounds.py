"""Round records: what the benchmarks of the ``unified/*`` switches measured in one round on one device.

A round is one pass over the benchmarks with each of the two tables, ``legacy`` and ``unified``. Its file holds one
fact a line, sorted, so that two rounds can be compared by eye and written again to the same bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from generator.core.route import HardwareClass, RouteKey
from generator.core.sources import Device
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ninfer_device_profiles.document import JsonValue

SCHEMA = "ninfer.unified-round"
SCHEMA_VERSION = 1
PROGRAM_DEFAULT = "program default"
"""Judge each case in the execution that its benchmark program has by default."""

_CLASS = re.compile(r"nvidia(-[a-z0-9]+)*-sm[0-9]{2,3}")
MOST_US = 1e300
"""Times are below it, so that ratios and sums of them stay numbers."""

_COUNT = re.compile(r"[1-9][0-9]{0,5}")


class Table(StrEnum):
    """Which launches an operation takes: this line's own, or those over the unified templates."""

    LEGACY = "legacy"
    UNIFIED = "unified"


class Case(NamedTuple):
    """One case of a key's benchmark: weights' ``rows x columns``, format, policy, form of the operation, batch."""

    shape: str
    format: str
    policy: str = ""
    form: str = ""
    batch: int = 1

    def __str__(self) -> str:
        """Return the case in words, for reasons."""
        batch = f"batch {self.batch}" if self.batch != 1 else ""
        return " ".join(part for part in (self.format, self.shape, self.policy, self.form, batch) if part)


class Time(NamedTuple):
    """One fact: times of one case of one key at one width, in microseconds.

    ``median_us`` is None where the benchmark ran the width and gave no time (``nan``). ``samples_us`` is empty where
    the source has statistics alone, ``min_us`` and ``p95_us`` are None where it has not.
    """

    key: RouteKey
    table: Table
    case: Case
    execution: str
    cache: str
    width: int
    median_us: float | None
    min_us: float | None = None
    p95_us: float | None = None
    samples_us: tuple[float, ...] = ()

    @property
    def point(self) -> tuple[RouteKey, Table, Case, str, str, int]:
        """Return everything but the times."""
        return self[:6]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What held while one table's benchmarks ran; empty or 0 is "not recorded".

    ``gpu`` is a digest of the GPU's UUID or another text that tells two cards of one model apart.
    """

    build: str = ""
    cuda_driver: int = 0
    power_limit_w: int = 0
    sm_clock_mhz: int = 0
    date: str = ""
    gpu: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Source:
    """One benchmark output that was read: SHA-256 of its bytes, file name without folder, program and table."""

    table: Table
    name: str
    program: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """All that one round measured on one device.

    Args:
        device: where.
        number: 1 or 2.
        order: the tables in the order in which they ran.
        execution: which execution the round sets out to judge: graph, eager, or `PROGRAM_DEFAULT`.
        conditions: one per table that has run.
        sources: the outputs read.
        widths: per key every width that a benchmark ran, whether or not it gave a time; a width that both tables of
            a round lack is unmeasured, one that is listed and lacks a time is missing.
        times: sorted, no point twice.
    """

    device: Device
    number: int
    order: tuple[Table, ...]
    execution: str = PROGRAM_DEFAULT
    conditions: Mapping[Table, Conditions] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    widths: Mapping[RouteKey, tuple[int, ...]] = field(default_factory=dict)
    times: tuple[Time, ...] = ()

    def where(self) -> str:
        """Return the round in words, for messages."""
        return f"{self.device} round {self.number}"


def parse_device(text: str) -> Device:
    """Return the device that ``CLASS/SMS`` names.

    Raises:
        EvidenceError: the text is not a hardware class, a slash and an SM count above 0.
    """
    name, _, count = text.partition("/")
    if not _CLASS.fullmatch(name) or not _COUNT.fullmatch(count):
        raise EvidenceError(
            f"device {text!r}: expected a hardware class and its SM count, such as 'nvidia-geforce-rtx-3090-sm86/82'"
        )
    return Device(HardwareClass(name), int(count))


def usual_order(number: int) -> tuple[Table, Table]:
    """Return the order of the tables in round ``number``: legacy first in odd rounds, unified first in even ones."""
    tables = (Table.LEGACY, Table.UNIFIED)
    return tables if number % 2 else (tables[1], tables[0])


def merge_times(times: Iterable[Time], where: str) -> tuple[Time, ...]:
    """Return ``times`` sorted, a repeat of the same times once.

    Raises:
        EvidenceError: one point has two different times.
    """
    found: dict[tuple[RouteKey, Table, Case, str, str, int], Time] = {}
    for time in times:
        known = found.setdefault(time[:6], time)
        if known is not time and known != time:
            raise EvidenceError(
                f"{where}: {time.key} {time.table} {time.case} {time.execution} {time.cache} width {time.width}: "
                f"median {known.median_us!r} us and again {time.median_us!r} us; a round holds one run of a point. "
                "Import one of the two outputs"
            )
    return tuple(found[point] for point in sorted(found))


def merge_rounds(old: Round, new: Round) -> Round:
    """Return ``old`` with what ``new`` adds; merging the same round again changes nothing.

    Raises:
        EvidenceError: they are not the same round of the same device under the same conditions, or a point has two
            different times.
    """
    for name in ("device", "number", "order", "execution"):
        left, right = getattr(old, name), getattr(new, name)
        if left != right:
            raise EvidenceError(
                f"{old.where()}: {name} {_words(left)} in the file and {_words(right)} in what is added; "
                "one round has one. Import into another round, or remove the file to begin again"
            )
    for table in old.conditions.keys() & new.conditions.keys():
        if old.conditions[table] != new.conditions[table]:
            raise EvidenceError(
                f"{old.where()}: table {table.value!r} was imported under {old.conditions[table]} and now under "
                f"{new.conditions[table]}; one table of a round runs under one set of conditions"
            )
    keys = sorted(old.widths.keys() | new.widths.keys())
    return replace(
        old,
        conditions={**old.conditions, **new.conditions},
        sources=tuple(sorted({*old.sources, *new.sources})),
        widths={key: tuple(sorted({*old.widths.get(key, ()), *new.widths.get(key, ())})) for key in keys},
        times=merge_times((*old.times, *new.times), old.where()),
    )


def _words(value: object) -> str:
    if isinstance(value, tuple) and not isinstance(value, Device):
        return repr("-".join(str(item) for item in value))
    return repr(str(value))


def serialise_round(item: Round) -> str:
    """Return the round file's text: sorted, one fact a line, LF, one final newline."""
    head: dict[str, JsonValue] = {
        "device": {
            "hardware_class": item.device.hardware_class,
            "multiprocessors": item.device.multiprocessors,
        },
        "execution": item.execution,
        "order": [str(table) for table in item.order],
        "round": item.number,
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
    }
    conditions = {
        table.value: {
            "build": block.build,
            "cuda_driver": block.cuda_driver,
            "date": block.date,
            "gpu": block.gpu,
            "power_limit_w": block.power_limit_w,
            "sm_clock_mhz": block.sm_clock_mhz,
        }
        for table, block in sorted(item.conditions.items())
    }
    sources = [
        {"name": source.name, "program": source.program, "sha256": source.sha256, "table": source.table.value}
        for source in sorted(item.sources)
    ]
    sections = {
        **{name: _text(value) for name, value in head.items()},
        "conditions": _object({name: _text(block) for name, block in conditions.items()}),
        "sources": _array([_text(source) for source in sources]),
        "times": _array([_text(_time_json(time)) for time in item.times]),
        "widths": _object({key: _text(list(item.widths[key])) for key in sorted(item.widths)}),
    }
    return "{\n" + ",\n".join(f'"{name}": {sections[name]}' for name in sorted(sections)) + "\n}\n"


def _time_json(time: Time) -> dict[str, object]:
    result: dict[str, object] = {
        "batch": time.case.batch,
        "cache": time.cache,
        "execution": time.execution,
        "form": time.case.form,
        "format": time.case.format,
        "key": time.key,
        "median_us": time.median_us,
        "policy": time.case.policy,
        "shape": time.case.shape,
        "table": time.table.value,
        "width": time.width,
    }
    if time.min_us is not None:
        result["min_us"] = time.min_us
    if time.p95_us is not None:
        result["p95_us"] = time.p95_us
    if time.samples_us:
        result["samples_us"] = list(time.samples_us)
    return result


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True)


def _text(value: object) -> str:
    return _ENCODER.encode(value)


def _array(lines: list[str]) -> str:
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def _object(lines: Mapping[str, str]) -> str:
    return "{\n" + ",\n".join(f"{_text(name)}: {line}" for name, line in lines.items()) + "\n}" if lines else "{}"


def is_time(value: object) -> bool:
    """Return whether ``value`` can be a time: a number above 0 and below `MOST_US`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MOST_US
