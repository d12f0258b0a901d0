"""A Bench that answers from evidence: the same command without a GPU, with the same result byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.bench import BASE, BenchFacts, Lost, Measured, Samples, Subject
from generator.core.evidence import Evidence, KeyFacts, Outcome, Trial
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from generator.core.route import Ask, Route, RouteKey, Schedule


class ReplayBench:
    """Answers what ``evidence`` recorded.

    Raises:
        EvidenceError: it holds no trial of what is asked for.
    """

    def __init__(self, evidence: Evidence, source: str) -> None:
        self._evidence = evidence
        self._source = source
        self._keys: dict[RouteKey, KeyFacts] = {facts.key: facts for facts in evidence.keys}
        self._route: Route | None = None
        self._width = 0

    def facts(self) -> BenchFacts:
        """Return the recorded device and run."""
        return BenchFacts(kind=self._evidence.bench, device=self._evidence.device, run=self._evidence.run)

    def open_key(self, route: Route) -> None:
        """Turn to ``route``."""
        if route.key not in self._keys:
            raise EvidenceError(
                f"{self._source}: no trials of {route.key!r}; replay with --only, or measure the key first"
            )
        self._route = route

    def open_width(self, width: int, asks: Mapping[Schedule, Ask]) -> Mapping[Schedule, str]:
        """Return the schedules that were recorded as the compiled route's launch."""
        self._width = width
        found = {name: self._trial(Subject(name)) for name in asks if name}
        return {name: trial.reason for name, trial in found.items() if trial.outcome is Outcome.SAME}

    def first_pass(self, subjects: Sequence[Subject]) -> Mapping[Subject, Measured]:
        """Return the recorded first pass; what a floor made impossible is handed out as timed, and judged again."""
        result: dict[Subject, Measured] = {}
        for subject in subjects:
            trial = self._trial(subject)
            impossible = trial.outcome is Outcome.IMPOSSIBLE
            result[subject] = Measured(
                outcome=Outcome.TIMED if impossible else trial.outcome,
                reason="" if impossible else trial.reason,
                samples=trial.first_us,
                differences=trial.differences,
                errors=trial.errors,
            )
        return result

    def more(self, subjects: Sequence[Subject], rounds: int) -> tuple[Mapping[Subject, Samples], Lost]:
        """Return nothing: `first_pass` returned every sample that was recorded."""
        del subjects, rounds
        return {}, {}

    def second_pass(
        self, subjects: Sequence[Subject], samples: int
    ) -> tuple[Mapping[Subject, tuple[Samples, ...]], Lost]:
        """Return the recorded second pass of the subjects that have one."""
        del samples
        found = {subject: self._trial(subject).second_us for subject in subjects}
        return {subject: rounds for subject, rounds in found.items() if rounds}, {}

    def floor_us(self, width: int) -> float | None:
        """Return the recorded floor."""
        del width
        return self._trial(BASE).floor_us

    def close_key(self) -> KeyFacts:
        """Return the recorded facts of the key."""
        assert self._route is not None
        return self._keys[self._route.key]

    def _trial(self, subject: Subject) -> Trial:
        assert self._route is not None
        found = self._evidence.trial(self._route.key, self._width, subject.schedule, twin=subject.twin)
        if found is None:
            name = "the twin" if subject.twin else repr(subject.schedule)
            raise EvidenceError(
                f"{self._source}: no trial of {name} for {self._route.key!r} at width {self._width}; "
                "the file is of another catalog or was cut; measure the key again"
            )
        return found
