"""What a reviewer should know of a table that no comparison shows: bands that cannot act, end early, or say nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import MAX_LAST

from generator.core.limits import UNIFIED_LIMITS
from generator.core.route import RouteKey
from generator.core.routing import Cell, Cells, DeviceId, DeviceRouting, Layer, Routing, State, first_match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ninfer_device_profiles.bands import Bands
    from ninfer_device_profiles.document import Document, Profile

    from generator.core.catalog import Catalog
    from generator.core.route import Route, Schedule


_CAPABILITY = re.compile(r"-sm(\d{1,4})$")


class Rule(StrEnum):
    """What a finding is about."""

    DUPLICATE = "duplicate device"
    UNREACHABLE = "unreachable"
    SHADOWED = "shadowed"
    REDUNDANT = "redundant"
    SHORT_BAND = "short band"
    ENDS_EARLY = "ends early"
    LAYERS_MEET = "layers meet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One finding about widths ``first`` to ``last`` of one key; an empty key is about the whole entry."""

    rule: Rule
    device: DeviceId
    key: str
    first: int
    last: int
    text: str


def lint(document: Document, routing: Routing, catalog: Catalog) -> tuple[Finding, ...]:
    """Return the findings about ``document``, whose effective routing (alone, or in its layers) is ``routing``.

    Order: by rule, then by device in document order, key and width.
    """
    found = [*_duplicates(document)]
    for device, resolved in routing.devices.items():
        entry = first_match(document, device)
        for key, cells in resolved.keys.items():
            route = catalog.routes.get(RouteKey(key))
            if entry is not None and key in entry.routes:
                found += _bands(device, key, entry, route)
            found += _cells(device, key, cells, route)
            if route is not None:
                found += _switch(resolved, route, cells, catalog)
    order = list(Rule)
    return tuple(sorted(found, key=lambda item: order.index(item.rule)))


def _duplicates(document: Document) -> Iterator[Finding]:
    for index, entry in enumerate(document.devices):
        device = DeviceId(entry.hardware_class, entry.multiprocessors)
        if first_match(document, device) is not entry:
            text = f"entry {index + 1} of the document never answers: an earlier entry matches first"
            yield Finding(rule=Rule.DUPLICATE, device=device, key="", first=1, last=MAX_LAST, text=text)


def _bands(device: DeviceId, key: str, entry: Profile, route: Route | None) -> Iterator[Finding]:
    bands = entry.routes[key]
    if entry.calibration is None and bands and not any(band.schedule for band in bands):
        text = "every band is the compiled route, as without the key"
        yield Finding(rule=Rule.REDUNDANT, device=device, key=key, first=1, last=bands[-1].last, text=text)
    first = 1
    for place, band in enumerate(bands):
        if place and bands[place - 1].schedule == band.schedule:
            text = f"two neighbouring bands name {band.schedule!r}; one band says the same"
            yield Finding(rule=Rule.REDUNDANT, device=device, key=key, first=first, last=band.last, text=text)
        if route is not None and band.schedule:
            yield from _short(device, route, first, band.last, measured=_least_widths(route))
        first = band.last + 1
    if route is not None and route.calibrated and bands:
        yield from _early(device, route, bands)


def _least_widths(route: Route) -> int:
    return 1 if route.calibrated else UNIFIED_LIMITS.least_widths


def _short(device: DeviceId, route: Route, first: int, last: int, *, measured: int) -> Iterator[Finding]:
    inside = sum(first <= width <= last for width in route.widths)
    if inside < measured:
        what = "no measured width" if not inside else f"{inside} measured width"
        text = f"the band spans {what}; at least {measured} expected"
        yield Finding(rule=Rule.SHORT_BAND, device=device, key=route.key, first=first, last=last, text=text)


def _early(device: DeviceId, route: Route, bands: Bands) -> Iterator[Finding]:
    widest, end = route.widths[-1], bands[-1].last
    if end < widest:
        text = f"the last band ends at {end}, the widest measured width is {widest}; past the end no layer answers"
        yield Finding(rule=Rule.ENDS_EARLY, device=device, key=route.key, first=end + 1, last=widest, text=text)


def _cells(device: DeviceId, key: str, cells: Cells, route: Route | None) -> Iterator[Finding]:
    for cell in cells:
        candidate = None if route is None else route.candidate(cell.answer.written)
        limit = None if candidate is None else candidate.max_width
        if cell.answer.state is State.ILLEGAL_WIDTH and limit is not None and cell.last > limit:
            text = f"{cell.answer.written!r} is legal up to width {limit}; the compiled route runs"
            yield Finding(rule=Rule.UNREACHABLE, device=device, key=key, first=cell.first, last=cell.last, text=text)
        elif route is not None and cell.answer.acts and _is_compiled(route, cell, device):
            text = f"{cell.answer.acts!r} is what the compiled route runs at every measured width here"
            yield Finding(rule=Rule.REDUNDANT, device=device, key=key, first=cell.first, last=cell.last, text=text)
    for upper, lower in pairwise(cells):
        if upper.answer.layer is Layer.FILE and lower.answer.layer is Layer.BUILT_IN:
            text = f"the profile file answers up to width {upper.last}, the built-in table from {lower.first} on"
            yield Finding(rule=Rule.LAYERS_MEET, device=device, key=key, first=upper.last, last=lower.first, text=text)


def _is_compiled(route: Route, cell: Cell, device: DeviceId) -> bool:
    widths = [width for width in route.widths if cell.first <= width <= cell.last]
    capability = _capability(device)
    return bool(widths) and all(route.compiled.at(width, capability) == cell.answer.acts for width in widths)


def _capability(device: DeviceId) -> int | None:
    found = _CAPABILITY.search(device.hardware_class)
    return int(found[1]) if found else None


def _switch(resolved: DeviceRouting, route: Route, cells: Cells, catalog: Catalog) -> Iterator[Finding]:
    """Yield widths at which another key decides whether this one counts at all (engine-profiles 0, facts 17, 22)."""
    for cell in (cell for cell in cells if cell.answer.acts):
        if route.asked_after is not None:
            for first, last in _acting(resolved, route.asked_after, cell):
                text = f"{route.asked_after!r} is asked first and acts here, so {cell.answer.acts!r} never runs"
                yield Finding(
                    rule=Rule.SHADOWED, device=resolved.device, key=route.key, first=first, last=last, text=text
                )
        if route.acts_under is not None and not _in_force(resolved, route.acts_under, route, cell, catalog):
            key, schedule = route.acts_under
            text = f"acts only where {key!r} runs {schedule!r}, which is not in force at any measured width here"
            yield Finding(
                rule=Rule.UNREACHABLE,
                device=resolved.device,
                key=route.key,
                first=cell.first,
                last=cell.last,
                text=text,
            )


def _in_force(
    resolved: DeviceRouting, under: tuple[RouteKey, Schedule], route: Route, cell: Cell, catalog: Catalog
) -> bool:
    parent = catalog.routes.get(under[0])
    if parent is None:
        return True
    capability = _capability(resolved.device)
    widths = [width for width in route.widths if cell.first <= width <= cell.last]
    return any(
        (resolved.at(parent.key, width).acts or parent.compiled.at(width, capability)) == under[1] for width in widths
    )


def _acting(resolved: DeviceRouting, key: str, inside: Cell) -> Iterator[tuple[int, int]]:
    for cell in _overlapping(resolved.cells(key), inside):
        if cell.answer.acts:
            yield max(cell.first, inside.first), min(cell.last, inside.last)


def _overlapping(cells: Cells, inside: Cell) -> Iterator[Cell]:
    return (cell for cell in cells if cell.first <= inside.last and inside.first <= cell.last)
