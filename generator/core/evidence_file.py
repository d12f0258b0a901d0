"""Evidence files: canonical JSON, one fact or trial a line, sorted; a strict reader that says where it stopped."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ninfer_device_profiles.bands import MAX_LAST

from generator.core.evidence import BenchKind, DeviceRecord, Evidence, KeyFacts, Outcome, Scalar, Trial
from generator.core.route import CatalogDigest, HardwareClass, Point, RouteKey, Schedule
from generator.core.texts import load_json
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import UnionType

SCHEMA = "ninfer.calibration-evidence"
SCHEMA_VERSION = 1

_T = TypeVar("_T")
_MOST = 1e300
"""Numbers are below it, so that sums and squares of them stay finite."""

_MOST_COUNT = 1 << 63
_SHOWN = 200
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9:+-]{0,99}")
_BOARD = re.compile(r"[0-9a-f]{0,64}")
_BOARD_DIGITS = 8

FACT_TYPES: dict[str, type | UnionType] = {
    "cuda_driver": int,
    "cuda_runtime": int,
    "twins_judged": int,
    "twins_switched": int,
    "date": str,
    "ninfer_build": str,
    "seconds": int | float,
    "read_bytes_per_us": int | float,
    "empty_interval_us": int | float,
    "name": str,
}
"""Facts that something reads back; others may be any scalar."""

_REMEDY = "restore the file or measure again"


def dump_evidence(evidence: Evidence) -> str:
    """Return the canonical text of ``evidence``: the same evidence gives the same bytes."""
    keys = sorted(evidence.keys, key=lambda item: item.key.encode())
    trials = sorted(evidence.trials, key=lambda item: item.place)
    head = [
        f' "schema": {_text(SCHEMA)}',
        f' "schema_version": {SCHEMA_VERSION}',
        f' "bench": {_text(evidence.bench.value)}',
        f' "catalog": {_text(evidence.catalog)}',
        f' "device": {_text(device_to_json(evidence.device))}',
        f' "rule": {_text(dict(evidence.rule))}',
        f' "run": {_text(dict(evidence.run))}',
        f' "keys": {_lines(key_to_json(item) for item in keys)}',
        f' "trials": {_lines(trial_to_json(item) for item in trials)}',
    ]
    return "{\n" + ",\n".join(head) + "\n}\n"


def evidence_name(evidence: Evidence, suffix: str = "") -> str:
    """Return where evidence is kept below a folder: hardware class, then date and board; all name files safely.

    Boards of one class that end a run in the same second so keep their own files. Where the board is unknown, as in
    the engine's runs, the digest of the log tells the runs apart.

    Raises:
        EvidenceError: class, date or board are not of the form that the tools write.
    """
    name, date = evidence.device.hardware_class, str(evidence.run.get("date", "undated"))
    board = evidence.device.uuid_hash or str(evidence.run.get("log_sha256", ""))
    if not _SAFE.fullmatch(name) or not _SAFE.fullmatch(date) or not _BOARD.fullmatch(board):
        raise EvidenceError(
            f"evidence of {_shown(name)}, dated {_shown(date)}, board {_shown(board)}: expected a hardware class such "
            "as 'nvidia-h200-sm90', a date such as '2026-11-29T22:00:00Z' and hexadecimal digits, since they name its "
            f"file; {_REMEDY}"
        )
    day = "".join(letter for letter in date if letter not in "-:")
    return f"{name}/{day}{f'-{board[:_BOARD_DIGITS]}' if board else ''}{suffix}.json"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def _lines(items: Iterable[object]) -> str:
    body = ",\n".join(f"  {_text(item)}" for item in items)
    return f"[\n{body}\n ]" if body else "[]"


def device_to_json(device: DeviceRecord) -> dict[str, object]:
    """Return ``device`` as plain JSON values."""
    return {name: getattr(device, name) for name in _DEVICE_FIELDS}


def key_to_json(facts: KeyFacts) -> dict[str, object]:
    """Return ``facts`` as plain JSON values."""
    return {
        "key": facts.key,
        "digest": facts.digest,
        "kernels": facts.kernels,
        "conditions": dict(facts.conditions),
    }


def trial_to_json(trial: Trial) -> dict[str, object]:
    """Return ``trial`` as plain JSON values; what is empty is left out."""
    result: dict[str, object] = {
        "key": trial.key,
        "width": trial.width,
        "schedule": trial.schedule,
        "outcome": trial.outcome.value,
    }
    optional: dict[str, object] = {
        "twin": trial.twin,
        "reason": trial.reason,
        "first_us": list(trial.first_us),
        "second_us": [list(samples) for samples in trial.second_us],
        "differences": dict(trial.differences),
        "errors": dict(trial.errors),
        "chosen": trial.chosen,
        "earlier": trial.earlier,
    }
    result |= {name: value for name, value in optional.items() if value}
    if trial.floor_us is not None:
        result["floor_us"] = trial.floor_us
    return result


_DEVICE_FIELDS: dict[str, type] = {
    "hardware_class": str,
    "multiprocessors": int,
    "name": str,
    "capability": int,
    "uuid_hash": str,
    "pci": str,
    "memory_bytes": int,
    "l2_bytes": int,
    "power_limit_w": int,
}
_TRIAL_FIELDS = {
    "key",
    "width",
    "schedule",
    "outcome",
    "twin",
    "reason",
    "first_us",
    "second_us",
    "differences",
    "errors",
    "chosen",
    "floor_us",
    "earlier",
}


def load_evidence(text: str, source: str) -> Evidence:
    """Return the evidence in ``text``.

    Raises:
        EvidenceError: the text is not JSON, not such a document, of another version, or holds a value of another
            form; the message says where (``source['trials'][3]['first_us'][0]``) and shows the value.
    """
    data = load_json(text, source, _REMEDY, error=EvidenceError)
    at = Place(source)
    top = _dict(data, at)
    if top.get("schema") != SCHEMA:
        at["schema"].stop(top.get("schema"), f"expected {SCHEMA!r}")
    if top.get("schema_version") != SCHEMA_VERSION or isinstance(top.get("schema_version"), bool):
        at["schema_version"].stop(top.get("schema_version"), f"this version reads {SCHEMA_VERSION}")
    _known(top, {"schema", "schema_version", "bench", "catalog", "device", "rule", "run", "keys", "trials"}, at)
    keys = tuple(key_from_json(item, at["keys"][i]) for i, item in enumerate(_get(top, "keys", list, at)))
    trials = tuple(trial_from_json(item, at["trials"][i]) for i, item in enumerate(_get(top, "trials", list, at)))
    evidence = Evidence(
        bench=_choice(BenchKind, _get(top, "bench", str, at), at["bench"]),
        catalog=CatalogDigest(_get(top, "catalog", str, at)),
        device=device_from_json(_get(top, "device", dict, at), at["device"]),
        rule=scalars(_get(top, "rule", dict, at), at["rule"]),
        run=scalars(_get(top, "run", dict, at), at["run"]),
        keys=keys,
        trials=trials,
    )
    _whole(evidence, at)
    return evidence


def _whole(evidence: Evidence, at: Place) -> None:
    """Refuse what single lines cannot show: repeats, trials of keys without facts, lone medians of our own bench."""
    known: set[RouteKey] = set()
    for place, facts in enumerate(evidence.keys):
        if facts.key in known:
            at["keys"][place].stop(facts.key, "a key appears once")
        known.add(facts.key)
    seen: set[tuple[bytes, int, bool, bytes]] = set()
    named: set[Point] = set()
    for place, trial in enumerate(evidence.trials):
        here = at["trials"][place]
        if trial.place in seen:
            here.stop(f"{trial.key} w={trial.width} {trial.schedule}", "a trial appears once")
        seen.add(trial.place)
        if trial.earlier:
            if trial.twin or (trial.key, trial.width) in named:
                text = "a replaced entry names one schedule at a width, and no twin"
                here["earlier"].stop(f"{trial.key} w={trial.width} {trial.schedule or 'compiled'}", text)
            named.add((trial.key, trial.width))
        if trial.key not in known:
            here["key"].stop(trial.key, "expected one of the keys listed under 'keys'")
        if trial.outcome is Outcome.TIMED and not trial.first_us:
            here["first_us"].stop([], "a timed trial has samples")
        if evidence.bench is BenchKind.KERNELS and len(trial.first_us) in {1, 2}:
            here["first_us"].stop(list(trial.first_us), "bench 'kernels' stores every sample, at least 3")


def _shown(value: object) -> str:
    text = "a number of many digits" if isinstance(value, int) and abs(value) > _MOST_COUNT else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class Place:
    """Where in the document a value stands."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, step: str | int) -> Place:
        return Place(f"{self._text}[{step!r}]")

    def stop(self, found: object, expected: str) -> NoReturn:
        """Raise for the value found here."""
        raise EvidenceError(f"{self._text}: found {_shown(found)}; {expected}; {_REMEDY}")


def _dict(value: object, at: Place) -> dict[str, object]:
    if not isinstance(value, dict):
        at.stop(value, "expected an object")
    return value


def _known(data: Mapping[str, object], names: Iterable[str], at: Place) -> None:
    for name in data:
        if name not in names:
            at.stop(name, f"expected only {', '.join(sorted(names))}")


def _get(data: Mapping[str, object], name: str, kind: type[_T], at: Place) -> _T:
    if name not in data:
        at.stop(sorted(data), f"expected a field {name!r}")
    return _typed(data[name], kind, at[name])


def _typed(value: object, kind: type[_T], at: Place) -> _T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        at.stop(value, f"expected {kind.__name__}")
    return value


_E = TypeVar("_E", BenchKind, Outcome)


def _choice(kind: type[_E], value: str, at: Place) -> _E:
    try:
        return kind(value)
    except ValueError:
        at.stop(value, f"expected one of {', '.join(repr(item.value) for item in kind)}")


def scalars(data: Mapping[str, object], at: Place) -> dict[str, Scalar]:
    """Return ``data`` as facts: text, finite numbers and truth values."""
    result: dict[str, Scalar] = {}
    for name, value in data.items():
        if not isinstance(value, str | int | float | bool):
            at[name].stop(value, "expected text, a number or a truth value")
        if not isinstance(value, str | bool):
            _number(value, at[name])
        kind = FACT_TYPES.get(name)
        if kind is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            at[name].stop(value, f"expected {kind.__name__ if isinstance(kind, type) else 'a number'}")
        result[name] = value
    return result


def _number(value: object, at: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST < value < _MOST:
        at.stop(value, "expected a finite number")
    return float(value)


def _times(value: object, at: Place) -> tuple[float, ...]:
    times: list[float] = []
    for i, item in enumerate(_typed(value, list, at)):
        time = _number(item, at[i])
        if not time > 0:
            at[i].stop(item, "a time is above 0 microseconds")
        times.append(time)
    return tuple(times)


def _shares(value: object, at: Place) -> dict[str, float | None]:
    return {k: None if v is None else _number(v, at[k]) for k, v in _dict(value, at).items()}


def device_from_json(data: Mapping[str, object], at: Place) -> DeviceRecord:
    """Return the device record in ``data``."""
    _known(data, _DEVICE_FIELDS, at)

    def text(name: str) -> str:
        return _get(data, name, str, at)

    def count(name: str) -> int:
        value = _get(data, name, int, at)
        if not 0 <= value < _MOST_COUNT:
            at[name].stop(value, "expected a number from 0")
        return value

    return DeviceRecord(
        hardware_class=HardwareClass(text("hardware_class")),
        multiprocessors=count("multiprocessors"),
        name=text("name"),
        capability=count("capability"),
        uuid_hash=text("uuid_hash"),
        pci=text("pci"),
        memory_bytes=count("memory_bytes"),
        l2_bytes=count("l2_bytes"),
        power_limit_w=count("power_limit_w"),
    )


def key_from_json(value: object, at: Place) -> KeyFacts:
    """Return the facts of one key."""
    data = _dict(value, at)
    _known(data, {"key", "digest", "kernels", "conditions"}, at)
    return KeyFacts(
        key=RouteKey(_get(data, "key", str, at)),
        digest=CatalogDigest(_get(data, "digest", str, at)),
        kernels=_get(data, "kernels", str, at),
        conditions=scalars(_get(data, "conditions", dict, at), at["conditions"]),
    )


def trial_from_json(value: object, at: Place) -> Trial:
    """Return one trial."""
    data = _dict(value, at)
    _known(data, _TRIAL_FIELDS, at)
    width = _get(data, "width", int, at)
    if not 1 <= width <= MAX_LAST:
        at["width"].stop(width, f"a width is from 1 to {MAX_LAST}")
    second = _typed(data.get("second_us", []), list, at["second_us"])
    if [] in second:
        at["second_us"].stop(second, "a round of the second pass has samples")
    return Trial(
        key=RouteKey(_get(data, "key", str, at)),
        width=width,
        schedule=Schedule(_get(data, "schedule", str, at)),
        outcome=_choice(Outcome, _get(data, "outcome", str, at), at["outcome"]),
        twin=_typed(data.get("twin", False), bool, at["twin"]),
        reason=_typed(data.get("reason", ""), str, at["reason"]),
        first_us=_times(data.get("first_us", []), at["first_us"]),
        second_us=tuple(_times(item, at["second_us"][i]) for i, item in enumerate(second)),
        differences=_shares(data.get("differences", {}), at["differences"]),
        errors=_shares(data.get("errors", {}), at["errors"]),
        floor_us=None if data.get("floor_us") is None else _number(data["floor_us"], at["floor_us"]),
        chosen=_typed(data.get("chosen", False), bool, at["chosen"]),
        earlier=_typed(data.get("earlier", False), bool, at["earlier"]),
    )
