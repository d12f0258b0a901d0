"""What a profile file hides of the built-in table, what it only repeats, and what nearly matches.

Source: field-lessons, 6.12; layering as in engine-profiles 1.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import COMPILED, Bands, layer_bands, schedule_at
from ninfer_device_profiles.finding import note_of
from ninfer_device_profiles.matching import find_entry, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ninfer_device_profiles.embedded import CatalogKey, EmbeddedCatalog
    from ninfer_device_profiles.model import Profile


class Shadow(StrEnum):
    """What a key of the file does to the built-in table's."""

    HIDES = "hides"
    REPEATS = "repeats"
    ADDS = "adds"


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Widths (both inclusive) at which two layers say different things; empty schedules are the compiled route."""

    first: int
    last: int
    file: str
    builtin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyShadow:
    """One key of the file's entry.

    Args:
        key: route key.
        shadow: hides what the built-in table says somewhere, repeats it everywhere (the key could go), or names a key
            that the built-in table does not.
        spans: where the answers differ.
        seam: the width past which the built-in bands answer again, if their answer there differs from the file's
            last one; None otherwise.
    """

    key: str
    shadow: Shadow
    spans: tuple[Span, ...] = ()
    seam: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NearMiss:
    """An entry that does not serve the device though it looks like it."""

    layer: str
    hardware_class: str
    multiprocessors: int
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryShadow:
    """One entry of the file against the built-in table.

    Args:
        entry: the file's entry.
        in_force: why it is not in force, or empty.
        base: the built-in entry that lies below it.
        keys: each key of the entry.
        near: entries of either layer that nearly match the device.
    """

    entry: Profile
    ignored: str
    base: Profile | None
    keys: tuple[KeyShadow, ...]
    near: tuple[NearMiss, ...]


def shadow_report(
    entries: Sequence[Profile], builtin: Sequence[Profile], *, source: str, catalog: EmbeddedCatalog
) -> tuple[EntryShadow, ...]:
    """Return each entry of the profile file ``source`` against the built-in table.

    A schedule counts as the compiled route where ``catalog`` has it as no candidate or as not legal at a width, since
    the engine ignores it there.
    """
    reports = []
    for place, entry in enumerate(entries):
        base = find_entry(builtin, entry.hardware_class, entry.multiprocessors)
        reports.append(
            EntryShadow(
                entry=entry,
                ignored=_ignored(entries, place, source, catalog.digest),
                base=base,
                keys=tuple(_key(key, bands, base, catalog.keys.get(key)) for key, bands in entry.routes.items()),
                near=(
                    *near_misses(entries, entry.hardware_class, entry.multiprocessors, layer="profile file"),
                    *near_misses(builtin, entry.hardware_class, entry.multiprocessors, layer="built-in table"),
                ),
            )
        )
    return tuple(reports)


def near_misses(
    entries: Iterable[Profile], hardware_class: str, multiprocessors: int, *, layer: str = "built-in table"
) -> tuple[NearMiss, ...]:
    """Return entries that differ from the device by SM count or by capability alone."""
    found: list[NearMiss] = []
    name = hardware_class.rpartition("-sm")[0]
    for item in entries:
        if matches(item, hardware_class, multiprocessors):
            continue
        if item.hardware_class == hardware_class:
            why = f"same class, {item.multiprocessors} SMs instead of {multiprocessors}"
        elif name and item.hardware_class.rpartition("-sm")[0] == name:
            why = f"same name, other capability than {hardware_class}"
        else:
            continue
        found.append(
            NearMiss(layer=layer, hardware_class=item.hardware_class, multiprocessors=item.multiprocessors, why=why)
        )
    return tuple(found)


def differences(joined: Bands, builtin: Bands, known: CatalogKey | None = None) -> tuple[Span, ...]:
    """Return the widths at which ``joined`` and ``builtin`` answer differently, ascending, equal neighbours joined.

    Where ``known`` is given, schedules that the engine ignores at a width count as the compiled route there.
    """
    spans: list[Span] = []
    first = 1
    ends = {band.last for band in (*joined, *builtin)}
    if known is not None and ends:
        limits = {limit for item in known.candidates for limit in (item.min_width - 1, item.max_width) if limit}
        ends |= {limit for limit in limits if limit < max(ends)}
    for last in sorted(ends):
        mine, theirs = (_acting(schedule_at(bands, last), last, known) for bands in (joined, builtin))
        if mine != theirs:
            if spans and spans[-1].last == first - 1 and (spans[-1].file, spans[-1].builtin) == (mine, theirs):
                spans[-1] = Span(first=spans[-1].first, last=last, file=mine, builtin=theirs)
            else:
                spans.append(Span(first=first, last=last, file=mine, builtin=theirs))
        first = last + 1
    return tuple(spans)


def _acting(schedule: str, width: int, known: CatalogKey | None) -> str:
    if known is None:
        return schedule
    candidate = known.candidate(schedule)
    return schedule if candidate is not None and candidate.legal(width) else COMPILED


def _key(key: str, bands: Bands, base: Profile | None, known: CatalogKey | None) -> KeyShadow:
    below = None if base is None else base.routes.get(key)
    if below is None:
        return KeyShadow(key=key, shadow=Shadow.ADDS, spans=differences(bands, (), known))
    spans = differences(layer_bands(bands, below), below, known)
    seam = None
    if (
        bands
        and below
        and bands[-1].last < below[-1].last
        and schedule_at(below, bands[-1].last + 1) != bands[-1].schedule
    ):
        seam = bands[-1].last
    return KeyShadow(key=key, shadow=Shadow.HIDES if spans else Shadow.REPEATS, spans=spans, seam=seam)


def _ignored(entries: Sequence[Profile], place: int, source: str, catalog_digest: str) -> str:
    entry = entries[place]
    for earlier in entries[:place]:
        if matches(earlier, entry.hardware_class, entry.multiprocessors):
            return (
                f"an earlier entry ({earlier.hardware_class}, {earlier.multiprocessors or 'any number of'} SMs) "
                "matches the device first"
            )
    note = note_of(entry, source, catalog_digest)
    return "" if note is None else note.text
