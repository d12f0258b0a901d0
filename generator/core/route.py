"""What a family file declares: route keys, candidates, compiled routes, and the operation behind them.

Everything here is data. A schedule of an operation at a width is a *plan*: a tuple of `Launch`, each a C++ name
expression with its grid, block and arguments. So a machine without a GPU can compile every kernel that any plan
names, two schedules that resolve to the same plan are known to be the same launch, and the GPU edge only allocates
buffers and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RouteKey = NewType("RouteKey", str)
Schedule = NewType("Schedule", str)
HardwareClass = NewType("HardwareClass", str)
CatalogDigest = NewType("CatalogDigest", str)

Point = tuple[RouteKey, int]
"""A route key at a width."""

COMPILED = Schedule("")
"""Stands for the operation's compiled route wherever a schedule is named."""


class Group(StrEnum):
    """The families that ``ninfer-calibrate`` can skip as a whole."""

    TERNARY = "ternary"
    GROUPWISE = "groupwise"
    LINEAR_ATTENTION = "linear-attention"
    ATTENTION = "attention"
    BENCHMARKED = "benchmarked"  # unified/* switches that no calibration measures


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One schedule that a key may name, and the widths at which it is legal (both ends inclusive).

    ``rounding`` names the rounding class where it is known to differ from the compiled route's, for example
    ``"fp16 accumulation"``; empty otherwise.
    """

    schedule: Schedule
    min_width: int = 1
    max_width: int | None = None
    rounding: str = ""

    def legal(self, width: int) -> bool:
        """Return whether the schedule may run at ``width``; elsewhere the engine ignores the name."""
        return self.min_width <= width and (self.max_width is None or width <= self.max_width)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledTable:
    """Which schedule an operation runs without a profile, as ``(last width, schedule)``; None is "no upper end".

    A name with the prefix ``int:`` is internal: no key can name it. ``by_capability`` holds tables of compute
    capabilities (86, 89, 120) that differ from ``default``.
    """

    default: tuple[tuple[int | None, str], ...]
    by_capability: Mapping[int, tuple[tuple[int | None, str], ...]] = field(default_factory=dict)

    def at(self, width: int, capability: int | None = None) -> str:
        """Return the compiled schedule at ``width``.

        Raises:
            ValueError: the table does not cover ``width``.
        """
        table = self.default if capability is None else self.by_capability.get(capability, self.default)
        for last, schedule in table:
            if last is None or width <= last:
                return schedule
        raise ValueError(f"compiled table ends before width {width}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Fill with pseudo-random 32-bit words, little-endian (engine-kernels 1.5, the word hash)."""

    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Uniform:
    """Fill with ``low + (high - low) * u``; u = the word hash's upper 24 bits / 2**24, FP32, rounded to the dtype."""

    seed: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Poison:
    """Fill every byte with 0xFF: NaN in all floating formats. For outputs and scratch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """Fill with what ``make()`` returns: small tables such as page tables and positions."""

    make: Callable[[], NDArray[Any]]


Fill = Words | Uniform | Poison | Given


@dataclass(frozen=True, kw_only=True, slots=True)
class Operand:
    """One device buffer, sized for the widest measured width; narrower widths use its front (token-major).

    ``dtype`` is one of u8, i8, u32, i32, f16, bf16, f32; ``shape`` is in C order. Buffers are 256-byte aligned.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Fill


@dataclass(frozen=True, slots=True)
class Buf:
    """A pointer argument: operand ``name``, moved forward by ``offset`` elements of its dtype."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class I32:
    """A 32-bit integer argument."""

    value: int


@dataclass(frozen=True, slots=True)
class F32:
    """A 32-bit floating argument."""

    value: float


Arg = Buf | I32 | F32


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One kernel launch.

    Args:
        source: stem of the ``.cu`` file that holds the kernel.
        kernel: C++ name expression, for example ``"t2_i8_small<8, 1, 1, 2, 4, 2>"``.
        grid, block: CTAs and threads in x, y, z.
        shared_bytes: dynamic shared memory; above 48 KiB the edge raises the kernel's limit.
        args: in the kernel's order.
        dependent: programmatic dependent launch where the device has it (sm_90 and later).
    """

    source: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Arg, ...]
    shared_bytes: int = 0
    dependent: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """The first ``elements`` of operand ``name``: one output plane at one width.

    ``open_ended``: the run may write past them, because how much it writes follows from the device.
    """

    name: str
    elements: int
    open_ended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """What a plan may know of the device. ``capability`` is major * 10 + minor."""

    capability: int
    multiprocessors: int
    shared_per_block_bytes: int = 101376
    l2_bytes: int = 0


Ask = Callable[[RouteKey, int], Schedule]
"""The dispatcher: (key, width) -> schedule in force, empty for compiled."""


class HostOperands(Protocol):
    """Reads operands on the host as the device sees them before the run."""

    def __call__(self, name: str, start: int = 0, count: int | None = None) -> NDArray[Any]:
        """Return ``count`` elements of operand ``name`` from flat index ``start`` (bf16 as float32)."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Reference values of one plane at sampled flat element ``indices`` (int64), ``values`` in float64."""

    indices: NDArray[np.int64]
    values: NDArray[np.float64]


class Operation(Protocol):
    """What runs behind a key. Pure: names, sizes, plans and references; no GPU package."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All buffers: inputs, weights planes, scratch and outputs."""

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Output planes at ``width``; the engine compares the first."""

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Planes changed in place (residuals): the edge restores them before every checked run."""

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return the launches of one timed run under the schedules that ``ask`` answers."""

    def floor_bytes(self, width: int) -> int:
        """Fewest bytes of device memory one timed run must move: inputs read once, outputs written once."""

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return what each output plane must hold at sampled elements, computed in float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One route key.

    Args:
        key: route key.
        order: place in the engine's measuring order (1 first); 0 for a key that no calibration measures.
        widths: measured widths, ascending; for ``unified/*`` keys that are only benchmarked the common grid.
        candidates: in catalog order; the order counts for ties and for the digest.
        compiled: what runs without a profile.
        calibrated: whether calibration times the key, and so whether it is in the catalog digest.
        stretch: last measured width -> ``last`` that is stored instead (262144 -> 1048576).
        acts_under: (key, schedule) under which alone a switch has an effect, or None.
        asked_after: key that is asked first; where it acts this one is not asked (engine-profiles 0, fact 17).
        operation: what runs; None while the family's kernels are pending.
    """

    key: RouteKey
    order: int
    widths: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    compiled: CompiledTable
    calibrated: bool = True
    stretch: Mapping[int, int] = field(default_factory=dict)
    acts_under: tuple[RouteKey, Schedule] | None = None
    asked_after: RouteKey | None = None
    operation: Operation | None = None

    def candidate(self, schedule: str) -> Candidate | None:
        """Return the candidate named ``schedule``, or None."""
        for item in self.candidates:
            if item.schedule == schedule:
                return item
        return None

    def effective(self, schedule: str, width: int) -> Schedule:
        """Return ``schedule`` if it is a candidate legal at ``width``, else the empty one, as the engine does."""
        found = self.candidate(schedule)
        return found.schedule if found is not None and found.legal(width) else COMPILED


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteFamily:
    """One family file.

    ``source`` is the stem of the ``.cu`` beside the declaration, or None while its kernels are pending.
    """

    name: str
    group: Group
    routes: tuple[Route, ...]
    source: str | None = None
