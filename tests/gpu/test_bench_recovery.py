"""What the bench does when its worker dies, hangs or refuses, over a made-up link; needs no GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from generator.core.bench import BASE, TWIN, Measured, Subject
from generator.core.catalog import build_catalog
from generator.core.evidence import Outcome, Trial
from generator.core.limits import LIMITS
from generator.core.route import Schedule
from generator.core.sweep import Sweep
from generator.core.verdict import Rule
from generator.gpu.bench import GpuBench
from generator.gpu.link import WorkerLostError
from generator.gpu.worker import WorkerFacts
from tests.kernels import toy_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.gpu.kernel_cache import KernelCache
    from generator.gpu.link import Link

FACTS = WorkerFacts(
    name="NVIDIA Toy",
    pci="ffff:ff:ff.0",
    capability=90,
    multiprocessors=4,
    l2_bytes=1 << 20,
    memory_bytes=1 << 34,
    shared_per_block_bytes=232448,
    driver=13000,
    runtime=13020,
    devices=1,
)
CATALOG = build_catalog(toy_sum.families())


@dataclass
class MadeUpLink:
    """Answers as a worker would.

    Args:
        dies: subjects whose check ends the worker; ``hangs`` those whose check never ends.
        dies_timed: subjects that end the worker when timed.
        dies_again: subjects that end it when timed for more than a first pass.
        no_room: operands cannot be allocated.
        times: microseconds by schedule.
    """

    dies: frozenset[str] = frozenset()
    hangs: frozenset[str] = frozenset()
    dies_timed: frozenset[str] = frozenset()
    dies_again: frozenset[str] = frozenset()
    no_room: bool = False
    times: dict[str, float] = field(default_factory=dict)
    limits_s: list[float | None] = field(default_factory=list)
    starts: int = 0
    facts: WorkerFacts = FACTS

    def start(self) -> WorkerFacts:
        self.starts += 1
        return self.facts

    def ask(self, order: str, *arguments: Any, limit_s: float | None = None) -> Any:
        if order == "time":
            self.limits_s.append(limit_s)
        if order == "start":
            return SimpleNamespace(cold_us=9.0, warm_us=6.0, resolution_us=0.5, empty_us=1.0, read_rate=1e9)
        if order == "open_key" and self.no_room:
            raise WorkerLostError("OutOfMemoryError: 9 GB", None, hung=False)
        if order == "check":
            return self._check(arguments[0])
        if order == "time":
            return self._time(*arguments)
        return None

    def _check(self, subjects: Sequence[Subject]) -> dict[Subject, Measured]:
        for subject in subjects:
            if subject.schedule in self.dies:
                raise WorkerLostError("CUDARuntimeError: illegal address", subject, hung=False)
            if subject.schedule in self.hangs:
                raise WorkerLostError("no answer within 30 s", subject, hung=True)
        return {subject: Measured(outcome=Outcome.TIMED, differences={"out": 0.0}) for subject in subjects}

    def _time(self, subjects: Sequence[Subject], rounds: int, warmups: int) -> dict[Subject, tuple[float, ...]]:
        del warmups
        again = self.dies_again if rounds >= LIMITS.samples else frozenset()
        if any(subject.schedule in self.dies_timed | again for subject in subjects):
            raise WorkerLostError("the worker ended with code -9", None, hung=False)
        return {subject: (self.times.get(subject.schedule, 100.0),) * rounds for subject in subjects}


def trials(link: MadeUpLink) -> dict[tuple[str, bool], Trial]:
    """Return the trials at width 4 by schedule and twin."""
    kernels = SimpleNamespace(compile_all=lambda *_: ([], {}))
    bench = GpuBench(
        link=cast("Link", link),
        root=toy_sum.ROOT,
        catalog=CATALOG,
        limits=LIMITS,
        kernels=cast("KernelCache", kernels),
        clock=lambda: 0.0,
    )
    bench.start()
    sweep = Sweep(catalog=CATALOG, limits=LIMITS, rule=Rule.GUARDED)
    (result,) = sweep.keys(CATALOG.calibrated, bench, lambda _key, _width: None)
    return {(trial.schedule, trial.twin): trial for trial in result.trials if trial.width == 4}


def test_all_is_timed_when_nothing_goes_wrong() -> None:
    found = trials(MadeUpLink(times={"hopeless": 151.0, "wrong": 150.0}))
    assert found["", True].first_us == (100.0,) * 11
    assert found["t256", False].outcome is Outcome.SAME
    assert found["hopeless", False].outcome is Outcome.STOPPED
    assert found["hopeless", False].first_us == (151.0,) * 3
    assert found["hopeless", False].reason == "more than 1.5 times the compiled route after 3 samples"
    assert found["wrong", False].outcome is Outcome.TIMED


@pytest.mark.parametrize(
    ("link", "outcome", "reason"),
    [
        (MadeUpLink(dies=frozenset({"t1024"})), Outcome.FAILED, "CUDARuntimeError: illegal address"),
        (MadeUpLink(hangs=frozenset({"t1024"})), Outcome.TIMED_OUT, "no answer within 30 s"),
        (MadeUpLink(dies_timed=frozenset({"t1024"})), Outcome.FAILED, "the worker ended with code -9"),
    ],
)
def test_a_candidate_that_ends_the_worker_is_recorded_and_the_others_are_measured(
    link: MadeUpLink, outcome: Outcome, reason: str
) -> None:
    found = trials(link)
    assert (found["t1024", False].outcome, found["t1024", False].reason) == (outcome, reason)
    assert found["t1024", False].first_us == ()
    assert link.starts > 0
    for name in ("", "t32", "hopeless", "wrong"):
        assert found[name, False].outcome is Outcome.TIMED, name
        assert len(found[name, False].first_us) == LIMITS.samples


@pytest.mark.parametrize("us", [89.0, 80.0])
def test_a_candidate_that_ends_the_worker_when_timed_again_is_recorded(us: float) -> None:
    found = trials(MadeUpLink(dies_again=frozenset({"t1024"}), times={"t1024": us, "t32": 90.0}))
    lost, next_best = found["t1024", False], found["t32", False]
    assert (lost.outcome, lost.reason) == (Outcome.FAILED, "the worker ended with code -9")
    assert (lost.first_us, lost.second_us) == ((us,) * 11, ())
    assert (next_best.outcome, next_best.second_us) == (Outcome.TIMED, ((90.0,) * 11, (90.0,) * 11))


def test_a_compiled_route_that_dies_fails_the_point_and_not_the_run() -> None:
    found = trials(MadeUpLink(dies=frozenset({""})))
    assert found["", False].outcome is Outcome.FAILED
    assert found["t32", False].reason == "the compiled route failed: CUDARuntimeError: illegal address"


def test_operands_that_do_not_fit_fail_the_key_and_not_the_run() -> None:
    found = trials(MadeUpLink(no_room=True))
    assert {trial.outcome for name, trial in found.items()} == {Outcome.FAILED}
    assert found["", False].reason == "operands could not be made: OutOfMemoryError: 9 GB"


def test_many_rounds_of_a_slow_kernel_have_the_time_that_they_need() -> None:
    """Six subjects of 0.1 s: eight further rounds take 4.8 s, and the thousand of --repeat 1000 ten minutes."""
    link = MadeUpLink(times=dict.fromkeys(("", "t32", "t1024", "hopeless", "wrong"), 1e5))
    trials(link)
    assert link.limits_s[0] == pytest.approx(LIMITS.time_limit_s)
    assert link.limits_s[1] == pytest.approx(LIMITS.time_limit_s + 2 * 8 * 0.1 * 6, rel=1e-3)


def test_subjects_name_the_twin_apart() -> None:
    assert Subject(Schedule("")) == BASE != TWIN
