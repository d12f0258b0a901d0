"""A Bench made up for tests: true times per schedule, seeded noise that does not depend on the order of questions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generator.core.bench import BenchFacts, Lost, Measured, Samples, Subject
from generator.core.evidence import BenchKind, KeyFacts, Outcome
from generator.core.limits import LIMITS, Limits
from generator.core.route import COMPILED, RouteKey, Schedule
from tests.core.toy import DEVICE, KEY, SWITCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.core.catalog import Catalog
    from generator.core.route import Ask, Route

Truth = dict[tuple[str, int, str], float]
"""(key, width, schedule that acts) -> microseconds; 100 where nothing is said."""


@dataclass
class FakeBench:
    """Answers from ``truth``.

    Args:
        spread: standard deviation of a sample's logarithm.
        refused: (key, schedule) pairs whose output differs.
        floor: microseconds that no time may be under.
        fail_at: (key, width) at which the run is interrupted.
        dies: ("more" or "second pass", subject) pairs that are lost there.
    """

    catalog: Catalog
    truth: Truth = field(default_factory=dict)
    seed: int = 0
    spread: float = 0.0
    refused: frozenset[tuple[str, str]] = frozenset()
    floor: float | None = None
    fail_at: tuple[str, int] | None = None
    dies: frozenset[tuple[str, Subject]] = frozenset()
    limits: Limits = LIMITS
    asked: list[tuple[str, int, tuple[Subject, ...]]] = field(default_factory=list)

    def facts(self) -> BenchFacts:
        """Return the toy device."""
        return BenchFacts(kind=BenchKind.KERNELS, device=DEVICE, run={"cuda_driver": 13000, "seed": self.seed})

    def open_key(self, route: Route) -> None:
        """Turn to ``route``."""
        self.route = route

    def open_width(self, width: int, asks: Mapping[Schedule, Ask]) -> Mapping[Schedule, str]:
        """Resolve every schedule; the toy switch acts under schedule c of the toy key alone."""
        if self.fail_at == (self.route.key, width):
            raise KeyboardInterrupt
        self.width = width
        self.acting = {name: self._acting(ask) for name, ask in asks.items()}
        base = self.acting[COMPILED]
        return {name: "same" for name, acting in self.acting.items() if name and acting == base}

    def _acting(self, ask: Ask) -> str:
        if self.route.key == SWITCH and ask(KEY, self.width) != "c":
            return "off"
        return ask(self.route.key, self.width) or self.route.compiled.at(self.width)

    def first_pass(self, subjects: Sequence[Subject]) -> Mapping[Subject, Measured]:
        """Return noisy samples."""
        self.asked.append((self.route.key, self.width, tuple(subjects)))
        return {subject: self._first(subject) for subject in subjects}

    def _first(self, subject: Subject) -> Measured:
        if (self.route.key, subject.schedule) in self.refused:
            return Measured(outcome=Outcome.REFUSED, reason="output 'out' differs by 0.4", differences={"out": 0.4})
        return Measured(outcome=Outcome.TIMED, samples=self._samples(subject, 0), differences={"out": 0.0})

    def more(self, subjects: Sequence[Subject], rounds: int) -> tuple[Mapping[Subject, Samples], Lost]:
        """Return further noisy samples."""
        lost = self._lost("more", subjects)
        return {subject: self._samples(subject, -1, rounds) for subject in subjects if subject not in lost}, lost

    def second_pass(
        self, subjects: Sequence[Subject], samples: int
    ) -> tuple[Mapping[Subject, tuple[Samples, ...]], Lost]:
        """Return two rounds of noisy samples."""
        rounds = range(1, self.limits.second_pass_rounds + 1)
        lost = self._lost("second pass", subjects)
        left = (subject for subject in subjects if subject not in lost)
        return {subject: tuple(self._samples(subject, turn, samples) for turn in rounds) for subject in left}, lost

    def _lost(self, stage: str, subjects: Sequence[Subject]) -> Lost:
        found = Measured(outcome=Outcome.FAILED, reason=f"lost in {stage}")
        return {subject: found for subject in subjects if (stage, subject) in self.dies}

    def _samples(self, subject: Subject, turn: int, count: int | None = None) -> Samples:
        acting = self.acting[subject.schedule]
        true_us = self.truth.get((self.route.key, self.width, acting), 100.0)
        dice = random.Random(f"{self.seed} {self.route.key} {self.width} {subject} {turn} {count}")
        noisy = (true_us * dice.lognormvariate(0, self.spread) for _ in range(count or self.limits.samples))
        return tuple(round(us, 3) for us in noisy)

    def floor_us(self, width: int) -> float | None:
        """Return the floor."""
        del width
        return self.floor

    def close_key(self) -> KeyFacts:
        """Return the key's facts."""
        key: RouteKey = self.route.key
        return KeyFacts(key=key, digest=self.catalog.key_digest(key), kernels="fake", conditions={"seconds": 0.5})
