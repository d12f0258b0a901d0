"""Read round files: check every fact, and say where the first one that is none stands."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from generator.core.rounds import (
    MOST_US,
    PROGRAM_DEFAULT,
    SCHEMA,
    SCHEMA_VERSION,
    Case,
    Conditions,
    Round,
    Source,
    Table,
    Time,
    is_time,
    merge_times,
    parse_device,
)
from generator.core.route import RouteKey
from generator.core.texts import load_json
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.sources import Device

EXECUTIONS = ("eager", "graph")
CACHES = ("cold", "warm")
_TABLES = {table.value: table for table in Table}


def round_name(device: Device, number: int) -> str:
    """Return where a round file stands below the folder that holds one folder a hardware class, with slashes."""
    return f"{device.hardware_class}/rounds/{device.multiprocessors}sm-round-{number}.json"


def parse_round(text: str | bytes, source: str) -> Round:
    """Return the round in ``text``.

    Args:
        text: the file's text, or its bytes in UTF-8.
        source: the file's path; it leads every message.

    Raises:
        EvidenceError: the text is not a whole round file of this version.
    """
    data = load_json(text, source, "import the benchmark outputs again", error=EvidenceError)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or data.get("schema_version") != SCHEMA_VERSION:
        raise EvidenceError(f"{source}: not a {SCHEMA!r} file of version {SCHEMA_VERSION}; import the outputs again")
    try:
        return _round(data, source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise EvidenceError(
            f"{source}: not as rounds.schema.json describes it ({detail}); import the outputs again"
        ) from error


def _round(data: Mapping[str, object], source: str) -> Round:
    device = _object(data["device"])
    times = tuple(_times(_array(data["times"]), source))
    item = Round(
        device=parse_device(f"{device['hardware_class']}/{device['multiprocessors']}"),
        number=_whole(data["round"]),
        order=tuple(Table(str(name)) for name in _array(data["order"])),
        execution=_one_of(data["execution"], (*EXECUTIONS, PROGRAM_DEFAULT)),
        conditions={Table(name): _conditions(_object(block)) for name, block in _object(data["conditions"]).items()},
        sources=tuple(
            sorted(
                Source(
                    table=Table(str(block["table"])),
                    name=str(block["name"]),
                    program=str(block["program"]),
                    sha256=str(block["sha256"]),
                )
                for block in map(_object, _array(data["sources"]))
            )
        ),
        widths={
            RouteKey(key): tuple(sorted({_whole(width) for width in _array(widths)}))
            for key, widths in sorted(_object(data["widths"]).items())
        },
        times=merge_times(times, source),
    )
    if sorted(item.order) != sorted(Table):
        raise ValueError(f"order {[str(table) for table in item.order]!r} does not name both tables once")
    known = {key: frozenset(widths) for key, widths in item.widths.items()}
    for place, time in enumerate(times):
        if time.width not in known.get(time.key, frozenset()):
            raise EvidenceError(
                f"{source} ['times'][{place}]: width {time.width} of {time.key!r} is not among the widths listed under "
                "['widths']; add it there, or import the outputs again"
            )
    return item


def _times(facts: list[object], source: str) -> list[Time]:
    result: list[Time] = []
    cases: dict[tuple[object, ...], Case] = {}
    for place, fact in enumerate(facts):
        try:
            result.append(_time(fact, cases))
        except (KeyError, TypeError, ValueError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise EvidenceError(
                f"{source} ['times'][{place}]: {detail}; a fact is as rounds.schema.json describes it. "
                "Import the outputs again"
            ) from error
    return result


def _time(fact: object, cases: dict[tuple[object, ...], Case]) -> Time:
    """Return one fact; equal cases share one object through ``cases``."""
    if not isinstance(fact, dict):
        raise TypeError(f"{fact!r} is not an object")
    parts = (fact["shape"], fact["format"], fact["policy"], fact["form"], fact["batch"])
    case = cases.get(parts)
    if case is None:
        texts = [part for part in parts[:4] if isinstance(part, str)]
        if len(texts) != 4:
            raise ValueError(f"case {parts!r} is not four texts and a batch")
        case = cases[parts] = Case(texts[0], texts[1], texts[2], texts[3], _whole(parts[4]))
    execution, cache, width = fact["execution"], fact["cache"], fact["width"]
    if execution not in EXECUTIONS or cache not in CACHES:
        raise ValueError(f"execution {execution!r} and cache {cache!r} are not of {EXECUTIONS} and {CACHES}")
    if type(width) is not int or width < 1:
        raise ValueError(f"width {width!r} is not a whole number above 0")
    median, least, p95 = fact["median_us"], fact.get("min_us"), fact.get("p95_us")
    samples = tuple(fact.get("samples_us", ()))
    for value in (median, least, p95, *samples):
        if value is not None and not (type(value) is float and 0 < value < MOST_US) and not is_time(value):
            raise ValueError(f"time {value!r} is not a number above 0")
    return Time(
        RouteKey(str(fact["key"])), _TABLES[fact["table"]], case, execution, cache, width, median, least, p95, samples
    )


def _conditions(block: Mapping[str, object]) -> Conditions:
    known = {item.name for item in fields(Conditions)}
    if set(block) != known:
        raise ValueError(f"conditions {sorted(block)!r} are not exactly {sorted(known)!r}")
    return Conditions(
        build=str(block["build"]),
        cuda_driver=_whole(block["cuda_driver"], least=0),
        power_limit_w=_whole(block["power_limit_w"], least=0),
        sm_clock_mhz=_whole(block["sm_clock_mhz"], least=0),
        date=str(block["date"]),
        gpu=str(block["gpu"]),
    )


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    return value


def _array(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not an array")
    return value


def _whole(value: object, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is not a whole number from {least}")
    return value


def _one_of(value: object, choices: tuple[str, ...]) -> str:
    if value not in choices or not isinstance(value, str):
        raise ValueError(f"{value!r} is not one of {choices!r}")
    return value
