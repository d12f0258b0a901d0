"""Findings in a sound document: what the engine reads without a word and its author hardly meant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.matching import matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ninfer_device_profiles.bands import Bands
    from ninfer_device_profiles.embedded import CatalogKey, EmbeddedCatalog
    from ninfer_device_profiles.model import Document, JsonValue, Profile


class Severity(StrEnum):
    """How much a finding matters: a warning has an effect nobody asked for, a note has none."""

    WARNING = "warning"
    NOTE = "note"


class Rule(StrEnum):
    """What a finding is about."""

    SPELLING = "number is no integer"
    NEVER_USED = "entry is never used"
    ANY_COUNT = "SM count is no count"
    NO_ORIGIN = "origin is absent"
    NO_CALIBRATION = "calibration block is absent"
    OTHER_CATALOG = "catalog is another"
    PARTIAL = "entry names a part of the calibrated keys"
    UNKNOWN_KEY = "route key is unknown"
    UNKNOWN_SCHEDULE = "schedule is unknown"
    PAST_LEGAL_WIDTH = "schedule is not legal at a width"
    SAME_AS_BEFORE = "band says what the one before it says"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One finding, with the place it is about and the rule that found it."""

    severity: Severity
    rule: Rule
    where: str
    text: str


def lint_document(
    document: Document, catalog: EmbeddedCatalog, *, raw: JsonValue = None, builtin: bool = False
) -> tuple[Finding, ...]:
    """Return what deserves a look in ``document``.

    Args:
        document: a sound document.
        catalog: that of the build that would read it.
        raw: the JSON it was read from, for spellings that reading evens out.
        builtin: whether it is a built-in table, whose entries need no calibration block.
    """
    return tuple(
        finding
        for place, entry in enumerate(document.devices)
        for finding in (
            *_spelling(raw, place),
            *_entry(document.devices, place, catalog, builtin=builtin),
            *(item for key, bands in entry.routes.items() for item in _route(place, key, bands, catalog)),
        )
    )


def _at(place: int, *steps: object) -> str:
    return f"['devices'][{place}]" + "".join(f"[{step!r}]" for step in steps)


def _spelling(raw: JsonValue, place: int) -> Iterator[Finding]:
    devices = raw.get("devices") if isinstance(raw, dict) else None
    entry = devices[place] if isinstance(devices, list) and place < len(devices) else None
    if not isinstance(entry, dict):
        return
    block = entry.get("calibration")
    counts = [("multiprocessors", entry), ("cuda_driver", block), ("cuda_runtime", block)]
    for name, owner in counts:
        value = owner.get(name) if isinstance(owner, dict) else None
        if isinstance(value, bool | float):
            steps = (name,) if owner is entry else ("calibration", name)
            yield Finding(
                severity=Severity.WARNING,
                rule=Rule.SPELLING,
                where=_at(place, *steps),
                text=f"{value!r} is read as {int(value)}; write an integer",
            )


def _entry(entries: Sequence[Profile], place: int, catalog: EmbeddedCatalog, *, builtin: bool) -> Iterator[Finding]:
    entry = entries[place]
    for before, earlier in enumerate(entries[:place]):
        if matches(earlier, entry.hardware_class, entry.multiprocessors):
            text = f"never used: {_at(before)} matches {entry.hardware_class} with {entry.multiprocessors} SMs first"
            yield Finding(severity=Severity.WARNING, rule=Rule.NEVER_USED, where=_at(place), text=text)
            break
    if entry.multiprocessors <= 0:
        found = entry.multiprocessors
        text = "0 or absent stands for any SM count" if found == 0 else f"{found} SMs match no device"
        yield Finding(severity=Severity.WARNING, rule=Rule.ANY_COUNT, where=_at(place, "multiprocessors"), text=text)
    if entry.implied_origin is not None:
        text = "absent; the engine shows the file's path instead"
        yield Finding(severity=Severity.NOTE, rule=Rule.NO_ORIGIN, where=_at(place, "origin"), text=text)
    block = entry.calibration
    if block is None and not builtin:
        text = "absent; the engine ignores an entry of a profile file without it"
        yield Finding(severity=Severity.WARNING, rule=Rule.NO_CALIBRATION, where=_at(place, "calibration"), text=text)
    if block is not None and block.route_catalog != catalog.digest:
        text = (
            f"{block.route_catalog} was measured by build {block.ninfer_build or 'unknown'}; a build with catalog "
            f"{catalog.digest} ignores the entry"
        )
        yield Finding(
            severity=Severity.WARNING,
            rule=Rule.OTHER_CATALOG,
            where=_at(place, "calibration", "route_catalog"),
            text=text,
        )

    elif block is not None and not builtin:
        calibrated = {key for key, item in catalog.keys.items() if item.calibrated}
        measured = len(calibrated & entry.routes.keys())
        if measured < len(calibrated):
            text = (
                f"names {measured} of {len(calibrated)} calibrated keys; the engine counts the device as calibrated "
                "all the same"
            )
            yield Finding(severity=Severity.NOTE, rule=Rule.PARTIAL, where=_at(place, "routes"), text=text)


def _route(place: int, key: str, bands: Bands, catalog: EmbeddedCatalog) -> Iterator[Finding]:
    known = catalog.keys.get(key)
    if known is None:
        text = f"no key of catalog {catalog.digest}; the engine never asks for it"
        yield Finding(severity=Severity.WARNING, rule=Rule.UNKNOWN_KEY, where=_at(place, "routes", key), text=text)
    first = 1
    for band_place, (last, schedule) in enumerate(bands):
        where = _at(place, "routes", key, band_place)
        if known is not None and schedule:
            yield from _schedule(known, schedule, first, last, where)
        if band_place and schedule == bands[band_place - 1].schedule:
            text = f"says {schedule!r} as the band before it; the two are one"
            yield Finding(severity=Severity.NOTE, rule=Rule.SAME_AS_BEFORE, where=where, text=text)
        first = last + 1


def _schedule(known: CatalogKey, schedule: str, first: int, last: int, where: str) -> Iterator[Finding]:
    candidate = known.candidate(schedule)
    if candidate is None:
        text = f"{schedule!r} is no candidate of {known.key}; the engine ignores it"
        yield Finding(severity=Severity.WARNING, rule=Rule.UNKNOWN_SCHEDULE, where=where, text=text)
    elif candidate.max_width is not None and last > candidate.max_width:
        text = (
            f"{schedule!r} is legal up to width {candidate.max_width}; the engine ignores it "
            f"from {max(first, candidate.max_width + 1)} to {last}"
        )
        yield Finding(severity=Severity.WARNING, rule=Rule.PAST_LEGAL_WIDTH, where=where, text=text)
