"""What a table is derived from: imported entries, measured evidence, selected unified rounds, decisions by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ninfer_device_profiles.bands import Bands

    from generator.core.imported import Imported
    from generator.core.overrides import Override
    from generator.core.reference import ReferenceGpu
    from generator.core.route import HardwareClass, Point, RouteKey, Schedule


class Device(NamedTuple):
    """What an entry is found by."""

    hardware_class: HardwareClass
    multiprocessors: int

    @property
    def capability(self) -> int:
        """Return the compute capability, major * 10 + minor, that the class's name ends in."""
        return int(self.hardware_class.rpartition("-sm")[2])

    def __str__(self) -> str:
        """Return the class, a slash and the SM count."""
        return f"{self.hardware_class}/{self.multiprocessors}"


class Kind(IntEnum):
    """Kinds of source; a higher one answers first."""

    IMPORTED = 1
    SELECTED = 2
    KERNELS = 3
    ENGINE = 4
    OVERRIDE = 5

    @property
    def label(self) -> str:
        """Return the kind as reports name it."""
        return _LABELS[self]


_LABELS = {
    Kind.IMPORTED: "imported",
    Kind.SELECTED: "selected from two rounds",
    Kind.KERNELS: "measured on our kernels",
    Kind.ENGINE: "measured by the engine",
    Kind.OVERRIDE: "decided by hand",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The choices that one evidence file supports.

    Args:
        file: name of the evidence file; sha256: its digest.
        kind: `Kind.ENGINE` or `Kind.KERNELS`.
        date: when it was measured, UTC, ``YYYY-MM-DDTHH:MM:SSZ``.
        power_limit_w: power limit in force, in watts.
        routes: bands of every key whose measured widths are all there.
        incomplete: keys that do not count, each with the reason: a width is missing, or the key digest is another.
        gains: of the choice at each measured width where another schedule than the compiled route won, as a ratio.
        seconds: how long each key took to measure, where recorded.
        choices: schedule at each measured width of those keys, which a later run is settled against.
        differences: where another schedule than the compiled route won, its largest output difference from that route
            over the route's largest value, over all planes; 0 is equal bits.
    """

    device: Device
    file: str
    sha256: str
    kind: Kind
    date: str
    power_limit_w: int
    routes: Mapping[RouteKey, Bands]
    incomplete: Mapping[RouteKey, str] = field(default_factory=dict)
    gains: Mapping[Point, float] = field(default_factory=dict)
    seconds: Mapping[RouteKey, float] = field(default_factory=dict)
    choices: Mapping[Point, Schedule] = field(default_factory=dict)
    differences: Mapping[Point, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selected:
    """Bands of ``unified/*`` keys that two benchmark rounds admitted for one device; ``date`` of the second round.

    ``gains`` holds, by key and measured width, the share of the legacy time that the geometric mean over all cases
    saves.
    """

    device: Device
    file: str
    sha256: str
    date: str
    routes: Mapping[RouteKey, Bands]
    gains: Mapping[Point, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Everything that a table is derived from."""

    reference: tuple[ReferenceGpu, ...]
    imported: tuple[Imported, ...] = ()
    measured: tuple[Measured, ...] = ()
    selected: tuple[Selected, ...] = ()
    overrides: tuple[Override, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
