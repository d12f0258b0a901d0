"""Bands of one route key: which schedule answers at which width.

A band is ``(last, schedule)``. ``last`` belongs to the band; a band starts right after the one before it; past the
last band the compiled route runs. The empty schedule means "the compiled route" too, but says so explicitly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LAST = 2147483647
"""The widest ``last`` that the format allows (a signed 32-bit integer)."""

COMPILED = ""
"""The schedule that stands for the operation's compiled route."""


class Band(NamedTuple):
    """One band: ``last`` is inclusive, ``schedule`` may be empty (compiled route)."""

    last: int
    schedule: str


Bands = tuple[Band, ...]


def schedule_at(bands: Bands, width: int) -> str:
    """Return the schedule that answers at ``width``; empty for the compiled route."""
    for band in bands:
        if width <= band.last:
            return band.schedule
    return COMPILED


def bands_from_points(points: Iterable[tuple[int, str]]) -> Bands:
    """Join ascending ``(width, schedule)`` points into bands that end on measured widths.

    An unmeasured width so takes the choice of the next larger measured one.
    """
    bands: list[Band] = []
    for width, schedule in points:
        if bands and bands[-1].schedule == schedule:
            bands[-1] = Band(width, schedule)
        else:
            bands.append(Band(width, schedule))
    return tuple(bands)


def layer_bands(upper: Bands, lower: Bands) -> Bands:
    """Lay ``upper`` over ``lower``: the upper answers up to its last width, the lower past it.

    Equal schedules are joined at the seam and between the lower bands that follow; the upper's own bands stay apart.
    An upper of no bands at all replaces the lower by none.
    """
    if not upper:
        return ()
    result = list(upper)
    for band in lower:
        if band.last <= result[-1].last:
            continue
        if band.schedule == result[-1].schedule:
            result[-1] = Band(band.last, band.schedule)
        else:
            result.append(band)
    return tuple(result)
