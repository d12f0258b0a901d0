"""Pictures of bands: the old and the new cells of one key as two rows of coloured segments.

The axis gives every measured width the same room, whatever its distance from the next, so the bands that matter can
be told apart; between two measured widths it is linear, and one more slot holds all widths past the widest.
"""

from __future__ import annotations

from bisect import bisect_left
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

from ninfer_device_profiles.bands import MAX_LAST

from generator.core.escape import visible
from generator.core.routing import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.core.review import Strip
    from generator.core.routing import Cell, Cells

WIDTH: Final = 496.0
"""Length of a row in user units of the picture."""

_COLOURS: Final = 8
_LETTER: Final = 6.6  # user units of one letter at the labels' size
_GAP: Final = 8.0


class Segment(NamedTuple):
    """One cell of a row: where it lies, its colour's class, and what it says."""

    x: float
    width: float
    css: str
    label: str
    title: str


class Tick(NamedTuple):
    """One labelled width of the axis."""

    x: float
    label: str


class Picture(NamedTuple):
    """Two rows and their axis; a side without the device has an empty row."""

    key: str
    old: tuple[Segment, ...]
    new: tuple[Segment, ...]
    ticks: tuple[Tick, ...]
    summary: str
    length: float = WIDTH


def picture(strip: Strip) -> Picture:
    """Return the picture of one changed key."""
    scale = _Scale(strip.widths or _ends(strip))
    names = dict.fromkeys(cell.answer.acts for cell in (*strip.old, *strip.new) if cell.answer.acts)
    colours = {name: f"c{place % _COLOURS}" for place, name in enumerate(names)}
    old, new = (tuple(_segment(cell, scale, colours) for cell in cells) for cells in (strip.old, strip.new))
    summary = "; ".join(f"{side}: {_spoken(cells)}" for side, cells in (("old", strip.old), ("new", strip.new)))
    return Picture(visible(strip.key), old, new, scale.ticks(), summary)


def widths(first: int, last: int) -> str:
    """Return a range of widths as reports write it: ``8``, ``9-16``, ``33 and up``."""
    if last >= MAX_LAST:
        return "all" if first <= 1 else f"{first} and up"
    return str(first) if first == last else f"{first}-{last}"


def width_words(ranges: Sequence[tuple[int, int]]) -> str:
    """Return ranges of widths with their noun: ``width 8``, ``widths 9-16, 33 and up``."""
    text = ", ".join(widths(first, last) for first, last in ranges)
    return f"width {text}" if text.isdecimal() else f"widths {text}"


def _ends(strip: Strip) -> tuple[int, ...]:
    return tuple(sorted({c.last for c in (*strip.old, *strip.new) if c.last < MAX_LAST})) or (1,)


class _Scale:
    """Widths to user units."""

    def __init__(self, knots: Sequence[int]) -> None:
        self._knots = tuple(knots)
        self._slot = WIDTH / (len(knots) + 1)

    def right_edge(self, width: int) -> float:
        """Return where ``width`` ends; 0 is where the row begins."""
        if width <= 0:
            return 0.0
        place = bisect_left(self._knots, width)
        if place == len(self._knots):
            widest = self._knots[-1]
            return self._slot * (place + log(width / widest) / log(MAX_LAST / widest))
        before = self._knots[place - 1] if place else 0
        return self._slot * (place + (width - before) / (self._knots[place] - before))

    def ticks(self) -> tuple[Tick, ...]:
        """Return the measured widths whose labels fit beside each other, and one for the widths past them."""
        result: list[Tick] = []
        free = 0.0
        end = WIDTH - self._slot / 2
        last_label = f">{self._knots[-1]}"
        half_label = _LETTER * len(last_label) / 2
        end = min(end, WIDTH - half_label)
        limit = end - half_label - _GAP
        for place, knot in enumerate(self._knots):
            x, half = self._slot * (place + 0.5), _LETTER * len(str(knot)) / 2
            if x - half >= free and x + half <= limit:
                result.append(Tick(round(x, 1), str(knot)))
                free = x + half + _GAP
        return (*result, Tick(round(end, 1), last_label))


def _segment(cell: Cell, scale: _Scale, colours: dict[str, str]) -> Segment:
    left, right = scale.right_edge(cell.first - 1), scale.right_edge(cell.last)
    answer = cell.answer
    name = visible(answer.acts) or ("compiled" if answer.state is State.KEPT else "ignored" if answer.unknown else "")
    ignored = f", ignoring {visible(answer.written)!r}" if answer.written and not answer.acts else ""
    fits = len(name) * _LETTER + _GAP <= right - left
    css = colours.get(answer.acts, "kept" if answer.state is State.KEPT else "bad" if answer.unknown else "none")
    title = f"{widths(cell.first, cell.last)}: {visible(answer.acts) or 'compiled'}{ignored} ({answer.layer})"
    return Segment(round(left, 1), round(right - left, 1), css, name if fits else "", title)


def _spoken(cells: Cells) -> str:
    if not cells:
        return "no entry"
    return ", ".join(f"{widths(c.first, c.last)} {visible(c.answer.acts) or 'compiled'}" for c in cells)
