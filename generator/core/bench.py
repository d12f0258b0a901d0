"""The Bench: what times and checks schedules, on a device, from a file, or made up for a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from generator.core.route import COMPILED, Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.core.evidence import BenchKind, DeviceRecord, KeyFacts, Outcome, Scalar
    from generator.core.route import Ask, Route


class Subject(NamedTuple):
    """What is timed at a point: a schedule (empty: the compiled route), or the compiled route's hidden twin."""

    schedule: Schedule
    twin: bool = False


BASE = Subject(COMPILED)
TWIN = Subject(COMPILED, twin=True)

Samples = tuple[float, ...]
"""Microseconds, in the order taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What the first pass found out about one subject; ``samples`` are empty unless timed or stopped early."""

    outcome: Outcome
    reason: str = ""
    samples: Samples = ()
    differences: Mapping[str, float | None] = field(default_factory=dict)
    errors: Mapping[str, float | None] = field(default_factory=dict)


Lost: TypeAlias = "Mapping[Subject, Measured]"
"""What failed while it was timed again: its outcome and the reason; no samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchFacts:
    """What holds for a whole run: the device, and the run's facts as evidence stores them."""

    kind: BenchKind
    device: DeviceRecord
    run: Mapping[str, Scalar]


class Bench(Protocol):
    """Times and checks schedules of one route at a time, one width at a time."""

    def facts(self) -> BenchFacts:
        """Return what holds for the whole run."""

    def open_key(self, route: Route) -> None:
        """Make the operands of ``route`` ready."""

    def open_width(self, width: int, asks: Mapping[Schedule, Ask]) -> Mapping[Schedule, str]:
        """Make every schedule ready at ``width``; ``asks`` holds the compiled route's dispatcher too.

        Returns:
            The schedules that resolve to the compiled route's very launch, with a reason.
        """

    def first_pass(self, subjects: Sequence[Subject]) -> Mapping[Subject, Measured]:
        """Check each subject's output against the compiled route's, then time all that passed, interleaved."""

    def more(self, subjects: Sequence[Subject], rounds: int) -> tuple[Mapping[Subject, Samples], Lost]:
        """Time ``subjects`` in further interleaved rounds of the first pass; a subject that fails is in the second."""

    def second_pass(
        self, subjects: Sequence[Subject], samples: int
    ) -> tuple[Mapping[Subject, tuple[Samples, ...]], Lost]:
        """Time ``subjects`` again in the rule's number of rounds of ``samples``; one that fails is in the second."""

    def floor_us(self, width: int) -> float | None:
        """Return the least time that device memory needs at ``width``, None where it is not known."""

    def close_key(self) -> KeyFacts:
        """Release the key's operands and return what held while it was measured."""
