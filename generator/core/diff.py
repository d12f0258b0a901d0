"""Two effective routings to the cells that differ, each with its class of change.

deepdiff compares the structures and stays inside this file: it says of each device which keys came, went or changed.
Bands are no lists to it, so an inserted band never reads as a changed neighbour; where inside a key the answers differ
is read off the cells of both sides, range by range.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, cast

from deepdiff import DeepDiff
from ninfer_device_profiles.bands import MAX_LAST

from generator.core.routing import NOTHING, Answer, Cells, DeviceId, DeviceRouting, Layer, Routing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Kind(StrEnum):
    """Class of a change, one for each changed cell; in the order of a report."""

    DEVICE_DROPPED = "device dropped"
    KEY_DROPPED = "key dropped"
    COVERAGE_LOST = "coverage lost"
    SCHEDULE_CHANGED = "schedule changed"
    BAND_MOVED = "band moved"
    COVERAGE_ADDED = "coverage added"
    KEY_ADDED = "key added"
    DEVICE_ADDED = "new device"
    PROVENANCE_ONLY = "provenance only"  # the same schedule acts; the layer or the spelling behind it differs


class Support(NamedTuple):
    """What stands behind the new table's choice at widths ``first`` to ``last`` of one device and key.

    ``rule`` names what admitted the band (for example ``engine``, ``two rounds``, ``override``, ``imported``),
    ``reference`` the file it comes from, ``gain`` the time saved as a ratio of the compiled route's, where measured,
    ``difference`` the largest output difference from the compiled route over its largest value; 0 is equal bits.
    """

    first: int
    last: int
    schedule: str
    rule: str
    reference: str
    gain: float | None = None
    difference: float | None = None


Supports = dict[tuple[DeviceId, str], tuple[Support, ...]]
"""Evidence by device and key; passed in, since the core reads no files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Widths ``first`` to ``last`` of one key on one device, whose answer differs.

    ``cause`` says why two runs decide its measured widths differently, where evidence of both is given.
    """

    device: DeviceId
    key: str
    first: int
    last: int
    old: Answer
    new: Answer
    kind: Kind
    support: Support | None = None
    cause: str = ""

    @property
    def acts(self) -> bool:
        """Return whether another schedule runs, rather than only another layer or spelling."""
        return self.old.acts != self.new.acts

    @property
    def rounding_changed(self) -> bool:
        """Return whether the change crosses rounding classes: a matter of numerics, not of speed."""
        return self.old.rounding != self.new.rounding

    @property
    def coverage_lost(self) -> bool:
        """Return whether a schedule ran here and now no layer answers, without evidence that compiled is best."""
        return bool(self.old.acts) and self.new.layer is Layer.COMPILED and not self.supported_compiled

    @property
    def supported_compiled(self) -> bool:
        """Return whether evidence says that the compiled route is the choice here."""
        return self.support is not None and not self.support.schedule and not self.new.acts


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutingDiff:
    """All cells that differ, ordered by device, key and width; devices and keys in the order of the two routings."""

    changes: tuple[Change, ...] = ()
    devices_added: tuple[DeviceId, ...] = ()
    devices_dropped: tuple[DeviceId, ...] = ()

    @property
    def acting(self) -> tuple[Change, ...]:
        """Return the changes after which another schedule runs."""
        return tuple(change for change in self.changes if change.acts)

    @property
    def provenance(self) -> tuple[Change, ...]:
        """Return the changes after which the same schedule runs."""
        return tuple(change for change in self.changes if not change.acts)


def diff_routings(
    old: Routing, new: Routing, supports: Mapping[tuple[DeviceId, str], Sequence[Support]] | None = None
) -> RoutingDiff:
    """Return where two routings differ.

    Args:
        old: effective routing before.
        new: effective routing after, resolved against the same catalog.
        supports: evidence for the new side by device and key; empty where there is none.
    """
    pairs = [
        (device, old.devices.get(device), new.devices.get(device))
        for device in dict.fromkeys((*old.devices, *new.devices))
    ]
    changes: list[Change] = []
    for device, before, after, key in _changed_keys(pairs):
        for first, last, was, now in _ranges(_cells(before, key), _cells(after, key)):
            kind = _kind(_Site(before, after, key, first, last, was, now))
            support = _support((supports or {}).get((device, key), ()), now, first, last)
            change = Change(
                device=device, key=key, first=first, last=last, old=was, new=now, kind=kind, support=support
            )
            if change.kind is Kind.COVERAGE_LOST and change.supported_compiled:
                change = replace(change, kind=Kind.SCHEDULE_CHANGED)
            changes.append(change)
    return RoutingDiff(
        changes=tuple(changes),
        devices_added=tuple(device for device, before, _ in pairs if before is None),
        devices_dropped=tuple(device for device, _, after in pairs if after is None),
    )


def _cells(side: DeviceRouting | None, key: str) -> Cells:
    return NOTHING if side is None else side.cells(key)


@dataclass(slots=True)
class _Numbers:
    """Numbers for rows of cells, so that deepdiff compares integers and no text of a table reaches it as a value."""

    known: dict[Cells, int] = field(default_factory=dict)

    def of(self, side: DeviceRouting | None) -> dict[str, int]:
        """Return a number for each key of ``side``: equal ones stand for equal cells."""
        keys = {} if side is None else side.keys
        return {key: self.known.setdefault(cells, len(self.known)) for key, cells in keys.items()}


_Pair = tuple[DeviceId, "DeviceRouting | None", "DeviceRouting | None"]


def _changed_keys(
    pairs: Sequence[_Pair],
) -> Iterator[tuple[DeviceId, DeviceRouting | None, DeviceRouting | None, str]]:
    """Yield each key that was added, dropped or changed, in byte order within its device."""
    numbers = _Numbers()
    for device, before, after in pairs:
        left, right = numbers.of(before), numbers.of(after)
        tree = DeepDiff(left, right, view="tree", threshold_to_diff_deeper=0, ignore_private_variables=False)
        found = [cast("list[str]", level.path(output_format="list"))[0] for levels in tree.values() for level in levels]
        for key in sorted(found, key=lambda key: key.encode("utf-8", "surrogatepass")):
            yield device, before, after, key


def _ranges(before: Cells, after: Cells) -> Iterator[tuple[int, int, Answer, Answer]]:
    """Yield the widest ranges in which both answers are constant, where they differ."""
    left = right = 0
    first = 1
    while first <= MAX_LAST:
        last = min(before[left].last, after[right].last)
        was, now = before[left].answer, after[right].answer
        if was != now:
            yield first, last, was, now
        left += before[left].last == last
        right += after[right].last == last
        first = last + 1


class _Site(NamedTuple):
    """One differing range with both sides around it."""

    before: DeviceRouting | None
    after: DeviceRouting | None
    key: str
    first: int
    last: int
    was: Answer
    now: Answer


def _kind(site: _Site) -> Kind:
    if site.was.acts == site.now.acts:
        kind = Kind.PROVENANCE_ONLY
    elif site.before is None:
        kind = Kind.DEVICE_ADDED
    elif site.after is None:
        kind = Kind.DEVICE_DROPPED
    elif site.key not in site.before.keys:
        kind = Kind.KEY_ADDED
    elif site.key not in site.after.keys:
        kind = Kind.KEY_DROPPED
    elif site.now.layer is Layer.COMPILED:
        kind = Kind.COVERAGE_LOST
    elif site.was.layer is Layer.COMPILED:
        kind = Kind.COVERAGE_ADDED
    elif _moved(site, site.before, site.after):
        kind = Kind.BAND_MOVED
    else:
        kind = Kind.SCHEDULE_CHANGED
    return kind


def _moved(site: _Site, before: DeviceRouting, after: DeviceRouting) -> bool:
    """Return whether a border between two schedules moved: both still run right beside the changed widths."""
    beside = [width for width in (site.first - 1, site.last + 1) if 1 <= width <= MAX_LAST]
    return any(before.at(site.key, width).acts == site.now.acts for width in beside) and any(
        after.at(site.key, width).acts == site.was.acts for width in beside
    )


def _support(supports: Sequence[Support], now: Answer, first: int, last: int) -> Support | None:
    """Return the first evidence that speaks for what acts, anywhere in the range."""
    return next(
        (item for item in supports if item.schedule == now.acts and item.first <= last and first <= item.last), None
    )
