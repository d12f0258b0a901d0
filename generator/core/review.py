"""Everything a report says about two tables, put together once for all formats; and what the gate refuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from generator.core.diff import Kind, RoutingDiff, diff_routings
from generator.core.lint import Finding, lint
from generator.core.route import RouteKey
from generator.core.routing import Cells, DeviceId, Routing, effective_routing, first_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog
    from generator.core.diff import Change, Support
    from generator.core.reference import ReferenceGpu

_LONG = 20
"""Common beginning of two origins, in characters, that a report leaves out."""


class Side(NamedTuple):
    """One side of a comparison: its name in the report, its table, and the profile file over it, if any."""

    label: str
    table: Document
    file: Document | None = None


class Refusal(StrEnum):
    """Why the gate says no."""

    COVERAGE_LOST = "coverage lost"
    UNKNOWN_SCHEDULE = "unknown schedule"
    DEVICE_DROPPED = "device dropped"


class Refused(NamedTuple):
    """One reason and where it holds; an empty key, without ranges, is about the whole device."""

    refusal: Refusal
    device: DeviceId
    key: str
    ranges: tuple[tuple[int, int], ...]
    text: str


class Unknown(NamedTuple):
    """A schedule or key of the new side that the catalog lacks; the engine ignores it."""

    device: DeviceId
    key: str
    schedule: str
    first: int
    last: int


class Strip(NamedTuple):
    """Old and new cells of one changed key, and the measured widths that scale its picture."""

    device: DeviceId
    key: str
    old: Cells
    new: Cells
    widths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What one report says.

    Args:
        catalog_digest: of the catalog that both sides were resolved against.
        devices, keys, cells: how many were compared, over both sides.
        missing: reference GPUs for which the new side has no entry.
        text_only: differences of the documents that change no routing, one sentence each.
        notes: entries of a profile file that the engine would ignore.
    """

    old: str
    new: str
    catalog_digest: str
    devices: int
    keys: int
    cells: int
    diff: RoutingDiff
    unknown: tuple[Unknown, ...]
    missing: tuple[ReferenceGpu, ...]
    findings: tuple[Finding, ...]
    text_only: tuple[str, ...]
    notes: tuple[str, ...]
    strips: tuple[Strip, ...]
    refused: tuple[Refused, ...]

    @property
    def numerics(self) -> tuple[Change, ...]:
        """Return the changes that cross rounding classes."""
        return tuple(change for change in self.diff.changes if change.rounding_changed)


def review(
    old: Side,
    new: Side,
    catalog: Catalog,
    *,
    reference: Sequence[ReferenceGpu] = (),
    supports: Mapping[tuple[DeviceId, str], Sequence[Support]] | None = None,
    causes: Mapping[tuple[DeviceId, str, int], str] | None = None,
) -> Review:
    """Compare two sides and return all that a report says.

    Args:
        old: what was.
        new: what is reviewed; the findings are about it.
        catalog: what both are resolved against.
        reference: GPUs that the table is made for; those without an entry are listed as missing.
        supports: evidence for the new side by device and key.
        causes: why two runs decide differently, by device, key and measured width.
    """
    before = effective_routing(old.table, catalog, file=old.file)
    after = effective_routing(new.table, catalog, file=new.file)
    diff = diff_routings(before, after, supports)
    if causes:
        diff = replace(diff, changes=tuple(replace(item, cause=_cause(item, causes)) for item in diff.changes))
    unknown = tuple(_unknown(after))
    both = {(device, key) for side in (before, after) for device, item in side.devices.items() for key in item.keys}
    return Review(
        old=old.label,
        new=new.label,
        catalog_digest=catalog.digest(),
        devices=len({*before.devices, *after.devices}),
        keys=len(both),
        cells=sum(len(item.keys[key]) for item in after.devices.values() for key in item.keys),
        diff=diff,
        unknown=unknown,
        missing=tuple(card for card in reference if _absent(card, after)),
        findings=lint(new.file if new.file is not None else new.table, after, catalog),
        text_only=tuple(_text_only(old, new, {(change.device, change.key) for change in diff.changes})),
        notes=after.notes,
        strips=tuple(_strips(diff, before, after, catalog)),
        refused=tuple(_refused(diff, unknown)),
    )


def _cause(change: Change, causes: Mapping[tuple[DeviceId, str, int], str]) -> str:
    """Return the causes at the measured widths of a changed cell, each once."""
    texts = (
        text
        for (device, key, width), text in causes.items()
        if (device, key) == (change.device, change.key) and change.first <= width <= change.last
    )
    return "; ".join(dict.fromkeys(texts)) if change.acts else ""


def _absent(card: ReferenceGpu, routing: Routing) -> bool:
    return not any(
        device.hardware_class == card.hardware_class and device.multiprocessors in {0, card.multiprocessors}
        for device in routing.devices
    )


def _unknown(routing: Routing) -> Iterator[Unknown]:
    for device, item in routing.devices.items():
        for key, cells in item.keys.items():
            for cell in cells:
                if cell.answer.unknown:
                    yield Unknown(device, key, cell.answer.written, cell.first, cell.last)


def _refused(diff: RoutingDiff, unknown: Sequence[Unknown]) -> Iterator[Refused]:
    """Yield one reason a device, key and rule, in the order of the rules."""
    lost: dict[tuple[DeviceId, str], list[Change]] = {}
    for change in diff.changes:
        if change.coverage_lost and change.kind is not Kind.DEVICE_DROPPED:
            lost.setdefault((change.device, change.key), []).append(change)
    ignored: dict[tuple[DeviceId, str, str], list[tuple[int, int]]] = {}
    for item in unknown:
        ignored.setdefault((item.device, item.key, item.schedule), []).append((item.first, item.last))
    for device in diff.devices_dropped:
        yield Refused(Refusal.DEVICE_DROPPED, device, "", (), "no entry is left")
    for (device, key), changes in lost.items():
        names = ", ".join(dict.fromkeys(repr(change.old.acts) for change in changes))
        text = f"{names} ran here, now no layer answers"
        yield Refused(Refusal.COVERAGE_LOST, device, key, _joined((c.first, c.last) for c in changes), text)
    for (device, key, schedule), ranges in ignored.items():
        text = f"{schedule!r} is not in the catalog, so the engine ignores it"
        yield Refused(Refusal.UNKNOWN_SCHEDULE, device, key, _joined(ranges), text)


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ascending ``ranges`` with those that touch made one."""
    result: list[tuple[int, int]] = []
    for first, last in ranges:
        if result and result[-1][1] + 1 == first:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def _strips(diff: RoutingDiff, before: Routing, after: Routing, catalog: Catalog) -> Iterator[Strip]:
    for device, key in dict.fromkeys((change.device, change.key) for change in diff.changes):
        old, new = before.devices.get(device), after.devices.get(device)
        route = catalog.routes.get(RouteKey(key))
        yield Strip(
            device,
            key,
            () if old is None else old.cells(key),
            () if new is None else new.cells(key),
            () if route is None else route.widths,
        )


def _text_only(old: Side, new: Side, changed: set[tuple[DeviceId, str]]) -> Iterator[str]:
    """Yield the differences of the documents under review that no cell shows."""
    left, right = (side.table for side in (old, new))
    before, after = ([DeviceId(p.hardware_class, p.multiprocessors) for p in d.devices] for d in (left, right))
    if before != after and sorted(before) == sorted(after):
        yield "the devices stand in another order"
    for device in dict.fromkeys(item for item in after if item in before):
        one, other = first_match(left, device), first_match(right, device)
        if one is None or other is None:
            continue
        name = f"{device.hardware_class}, {device.multiprocessors} SMs"
        if one.origin != other.origin:
            yield f"{name}: origin {_from_where_they_differ(one.origin, other.origin)}"
        if one.calibration != other.calibration:
            yield f"{name}: the calibration block differs"
        if list(one.routes) != list(other.routes) and set(one.routes) == set(other.routes):
            yield f"{name}: the keys stand in another order"
        for key, bands in one.routes.items():
            if (device, key) not in changed and other.routes.get(key, bands) != bands:
                yield f"{name}: the bands of {key!r} are spelt differently and mean the same"


def _from_where_they_differ(old: str, new: str) -> str:
    """Return both texts in quotes without what they begin with in common, if that is long: reports cut long texts."""
    pairs = enumerate(zip(old, new, strict=False))
    common = next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))
    common, dots = (common, "...") if common > _LONG else (0, "")
    return f"{dots}{old[common:]!r} became {dots}{new[common:]!r}"
