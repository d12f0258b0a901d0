"""Effective routing of a table: which schedule acts at every device, key and width, and which layer says so.

Widths are handled as ranges. Between two neighbouring cut points (band ends of every layer, legal widths of every
schedule named) the answer is constant, so one look-up a range is exact for every width in it. The look-ups run
through the engine-compatible code of ``ninfer_device_profiles``; to learn *which* layer answered, each layer's
schedules carry a one-letter tag while they pass through it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ninfer_device_profiles.bands import MAX_LAST, Band, Bands, schedule_at
from ninfer_device_profiles.finding import note_of
from ninfer_device_profiles.layering import layer
from ninfer_device_profiles.matching import find_entry

from generator.core.route import RouteKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ninfer_device_profiles.document import Document, Profile

    from generator.core.catalog import Catalog
    from generator.core.route import Route


class DeviceId(NamedTuple):
    """What an entry is found by; ``multiprocessors`` 0 stands for any SM count that no other entry names."""

    hardware_class: str
    multiprocessors: int


class Layer(StrEnum):
    """The layer that answers, uppermost first."""

    FILE = "profile file"
    BUILT_IN = "built-in table"
    COMPILED = "compiled route"


class State(StrEnum):
    """How what a layer wrote became what acts."""

    CHOSEN = "chosen"
    KEPT = "compiled route, written"  # the empty schedule
    UNCOVERED = "compiled route, no layer answers"
    UNKNOWN_KEY = "ignored: key not in the catalog"
    UNKNOWN_SCHEDULE = "ignored: schedule not in the catalog"
    ILLEGAL_WIDTH = "ignored: outside the schedule's legal widths"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer of the layers: what is written, what acts (empty: the compiled route), and its rounding class."""

    layer: Layer
    state: State
    written: str
    acts: str
    rounding: str = ""

    @property
    def unknown(self) -> bool:
        """Return whether the catalog lacks what is written."""
        return self.state in {State.UNKNOWN_KEY, State.UNKNOWN_SCHEDULE}


UNCOVERED = Answer(layer=Layer.COMPILED, state=State.UNCOVERED, written="", acts="")


class Cell(NamedTuple):
    """Widths ``first`` to ``last``, both included, that share one answer."""

    first: int
    last: int
    answer: Answer


Cells = tuple[Cell, ...]

NOTHING: Cells = (Cell(1, MAX_LAST, UNCOVERED),)
"""The cells of a key that no layer names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceRouting:
    """Effective routing of one device: per key that a layer names, cells from width 1 to `MAX_LAST`."""

    device: DeviceId
    origin: str
    keys: Mapping[str, Cells]

    def cells(self, key: str) -> Cells:
        """Return the cells of ``key``; one uncovered cell where no layer names it."""
        return self.keys.get(key, NOTHING)

    def at(self, key: str, width: int) -> Answer:
        """Return the answer for ``key`` at ``width``."""
        return next(cell.answer for cell in self.cells(key) if width <= cell.last)


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing:
    """Effective routing of every device, in the order in which the layers name them; ``notes`` say what was ignored."""

    devices: Mapping[DeviceId, DeviceRouting]
    notes: tuple[str, ...] = ()


_FILE_TAG, _TABLE_TAG = "f", "b"
_LAYERS = {_FILE_TAG: Layer.FILE, _TABLE_TAG: Layer.BUILT_IN}


def effective_routing(
    table: Document, catalog: Catalog, *, file: Document | None = None, devices: Iterable[DeviceId] = ()
) -> Routing:
    """Resolve ``table`` (the built-in layer over the compiled routes), or ``file`` over it.

    Args:
        table: the built-in table.
        catalog: decides which schedules act, and at which widths.
        file: a profile file. As in the engine an entry without a calibration block, or of another route catalog,
            is ignored; the notes then say so.
        devices: further devices to resolve, beside those that the layers name.

    Returns:
        The devices that some layer has an entry for.
    """
    notes: dict[str, None] = {}
    named = [DeviceId(p.hardware_class, p.multiprocessors) for d in (table, file) if d is not None for p in d.devices]
    found: dict[DeviceId, DeviceRouting] = {}
    reader = _Reader(catalog)
    for device in dict.fromkeys((*named, *devices)):
        lower = first_match(table, device)
        upper = None if file is None else _measured(file, device, catalog, notes)
        if upper is not None or lower is not None:
            found[device] = _resolve(device, upper, lower, reader)
    return Routing(devices=found, notes=tuple(notes))


def first_match(document: Document, device: DeviceId) -> Profile | None:
    """Return the entry that answers for ``device``: the first of its class whose SM count is equal or 0, or None."""
    return find_entry(document.devices, *device)


def _measured(file: Document, device: DeviceId, catalog: Catalog, notes: dict[str, None]) -> Profile | None:
    entry = first_match(file, device)
    ignored = None if entry is None else note_of(entry, "profile file", catalog.digest())
    if ignored is None:
        return entry
    notes[ignored.text] = None
    return None


def _resolve(device: DeviceId, upper: Profile | None, lower: Profile | None, reader: _Reader) -> DeviceRouting:
    layers = [_tagged(p, tag) for p, tag in ((upper, _FILE_TAG), (lower, _TABLE_TAG)) if p is not None]
    merged = layer(*layers) if len(layers) == 2 else layers[0]
    keys = sorted(merged.routes, key=lambda key: key.encode("utf-8", "surrogatepass"))
    return DeviceRouting(
        device=device,
        origin=merged.origin,
        keys={key: reader.cells(key, merged.routes[key]) for key in keys},
    )


def _tagged(profile: Profile, tag: str) -> Profile:
    routes = {key: tuple(Band(b.last, tag + b.schedule) for b in bands) for key, bands in profile.routes.items()}
    return replace(profile, routes=routes)


class _Reader:
    """Reads tagged bands against one catalog; equal bands and equal answers are worked out once and shared."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._cells: dict[tuple[str, Bands], Cells] = {}
        self._answers: dict[tuple[str, str, bool], Answer] = {}

    def cells(self, key: str, bands: Bands) -> Cells:
        """Return the answers of ``bands``, equal neighbours joined, from width 1 to `MAX_LAST`."""
        known = self._cells.get((key, bands))
        if known is not None:
            return known
        route = self._catalog.routes.get(RouteKey(key))
        cells: list[Cell] = []
        first = 1
        for last in _cuts(route, bands):
            answer = self._answer(route, key, schedule_at(bands, last), last)
            if cells and cells[-1].answer == answer:
                cells[-1] = Cell(cells[-1].first, last, answer)
            else:
                cells.append(Cell(first, last, answer))
            first = last + 1
        return self._cells.setdefault((key, bands), tuple(cells))

    def _answer(self, route: Route | None, key: str, tagged: str, width: int) -> Answer:
        if not tagged:
            return UNCOVERED
        acts = "" if route is None else route.effective(tagged[1:], width)
        place = (key, tagged, bool(acts))
        return self._answers.setdefault(place, _answer(route, tagged, acts))


def _cuts(route: Route | None, bands: Bands) -> list[int]:
    """Return the last width of every range in which the answer cannot change, ascending, ending at `MAX_LAST`."""
    cuts = {MAX_LAST, *(band.last for band in bands)}
    for schedule in {band.schedule[1:] for band in bands} if route is not None else ():
        candidate = route.candidate(schedule) if route is not None else None
        if candidate is not None:
            cuts.add(candidate.min_width - 1)
            cuts.add(MAX_LAST if candidate.max_width is None else candidate.max_width)
    return sorted(cut for cut in cuts if 0 < cut <= MAX_LAST)


def _answer(route: Route | None, tagged: str, acts: str) -> Answer:
    source, written = _LAYERS[tagged[0]], tagged[1:]
    candidate = None if route is None else route.candidate(written)
    if route is None:
        state = State.UNKNOWN_KEY
    elif not written:
        state = State.KEPT
    elif candidate is None:
        state = State.UNKNOWN_SCHEDULE
    else:
        state = State.CHOSEN if acts else State.ILLEGAL_WIDTH
    rounding = candidate.rounding if candidate is not None and acts else ""
    return Answer(layer=source, state=state, written=written, acts=acts, rounding=rounding)
