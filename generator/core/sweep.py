"""The calibration sweep: every selected key, width and candidate through a Bench, in the engine's order.

Every finished key's winners are installed before the next key is measured (engine-profiles 4.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from generator.core.bench import BASE, TWIN, Bench, Measured, Subject
from generator.core.dispatch import dispatcher
from generator.core.evidence import Evidence, KeyFacts, Outcome, Trial, complete_keys
from generator.core.route import COMPILED, RouteKey
from generator.core.sampling import close_to_best, extend, second_pass_samples
from generator.core.settle import settled_points
from generator.core.stats import center, median
from generator.core.verdict import Decision, Rule, decide_points, decided_bands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ninfer_device_profiles.bands import Bands

    from generator.core.bench import Lost, Samples
    from generator.core.catalog import Catalog
    from generator.core.limits import Limits
    from generator.core.route import Point, Route, Schedule

OnPoint = Callable[[RouteKey, int], None]
"""Called before each (key, width) is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyResult:
    """One finished key: the facts and trials to store, and what the rule made of them."""

    facts: KeyFacts
    trials: tuple[Trial, ...]
    decisions: tuple[Decision, ...]
    bands: Bands
    resumed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """What a sweep needs beside its Bench.

    Args:
        catalog, limits, rule: what decides.
        finished: keys of an earlier, interrupted run: taken as they are.
        earlier: what the entry to be replaced names at each point; recorded.
        afresh: decide without ``earlier``.
    """

    catalog: Catalog
    limits: Limits
    rule: Rule
    finished: Mapping[RouteKey, tuple[KeyFacts, tuple[Trial, ...]]] = field(default_factory=dict)
    earlier: Mapping[Point, Schedule] = field(default_factory=dict)
    afresh: bool = False

    def keys(self, routes: Sequence[Route], bench: Bench, on_point: OnPoint) -> Iterator[KeyResult]:
        """Measure ``routes`` one after the other, yielding each as it is finished."""
        installed: dict[RouteKey, Bands] = {}
        for route in routes:
            if route.key in self.finished:
                facts, trials = self.finished[route.key]
            else:
                facts, trials = self._measure(route, bench, installed, on_point)
            result = self._judge(route, bench, facts, trials)
            installed[route.key] = result.bands
            yield result

    def _measure(
        self, route: Route, bench: Bench, installed: Mapping[RouteKey, Bands], on_point: OnPoint
    ) -> tuple[KeyFacts, tuple[Trial, ...]]:
        trials: list[Trial] = []
        bench.open_key(route)
        for width in route.widths:
            on_point(route.key, width)
            trials += self._point(route, width, bench, installed)
        return bench.close_key(), tuple(trials)

    def _point(self, route: Route, width: int, bench: Bench, installed: Mapping[RouteKey, Bands]) -> list[Trial]:
        legal = [item.schedule for item in route.candidates if item.legal(width)]
        asks = {name: dispatcher(self.catalog, installed, force=(route.key, name)) for name in (COMPILED, *legal)}
        same = bench.open_width(width, asks)
        rivals = [Subject(name) for name in legal if name not in same]
        found = dict(bench.first_pass([BASE, *rivals, TWIN]))
        for name, reason in same.items():
            found[Subject(name)] = Measured(outcome=Outcome.SAME, reason=reason)
        for item in route.candidates:
            if not item.legal(width):
                reason = f"legal from width {item.min_width} to {item.max_width or 'any'}"
                found[Subject(item.schedule)] = Measured(outcome=Outcome.INELIGIBLE, reason=reason)
        floor_us = bench.floor_us(width)
        found = {subject: self._above_floor(item, floor_us) for subject, item in found.items()}
        earlier = self.earlier.get((route.key, width))
        found = self._extended(found, bench, earlier)
        found = {subject: self._above_floor(item, floor_us) for subject, item in found.items()}
        found, second = self._second_pass(found, bench, earlier)
        return [
            Trial(
                key=route.key,
                width=width,
                schedule=subject.schedule,
                twin=subject.twin,
                outcome=item.outcome,
                reason=item.reason,
                first_us=item.samples,
                second_us=second.get(subject, ()),
                differences=item.differences,
                errors=item.errors,
                floor_us=floor_us if item.samples else None,
                earlier=subject.schedule == earlier and not subject.twin,
            )
            for subject, item in found.items()
        ]

    def _above_floor(self, item: Measured, floor_us: float | None) -> Measured:
        """Turn a time that device memory cannot deliver into ``IMPOSSIBLE``; the samples stay."""
        if item.outcome is not Outcome.TIMED or floor_us is None:
            return item
        us = median(item.samples)
        if us >= floor_us * self.limits.floor_share:
            return item
        return Measured(
            outcome=Outcome.IMPOSSIBLE,
            reason=f"{us:.2f} us is under the {floor_us:.2f} us that memory needs for the operation's bytes",
            samples=item.samples,
            differences=item.differences,
            errors=item.errors,
        )

    def _second_pass(
        self, found: dict[Subject, Measured], bench: Bench, earlier: Schedule | None
    ) -> tuple[dict[Subject, Measured], Mapping[Subject, tuple[Samples, ...]]]:
        """Run the second pass with every contender close to the best, so that each rule finds its samples.

        What fails in it fails the point as in the first pass, and the pass is run again without it.
        """
        while found[BASE].outcome is Outcome.TIMED:
            subjects = self._contenders(found, earlier)
            if not subjects:
                break
            second, lost = bench.second_pass(subjects, second_pass_samples(found[BASE].samples, self.limits))
            if not lost:
                return found, second
            found = _without(found, lost)
        return found, {}

    def _contenders(self, found: Mapping[Subject, Measured], earlier: Schedule | None) -> list[Subject]:
        """Return what goes to the second pass, the compiled route and its twin around it; nothing if none wins."""
        close: dict[Subject, None] = {}
        for times in (self._times(found, self.limits.samples), self._times(found, None)):
            line = times.pop(BASE) * (1 - self.limits.min_gain)
            winning = {subject: us for subject, us in times.items() if us < line}
            close |= dict.fromkeys(close_to_best(winning, self.limits.close_share))
        if not close:
            return []
        twins = [TWIN] if found[TWIN].outcome is Outcome.TIMED else []
        close |= dict.fromkeys(_stored(found, earlier))
        return [BASE, *(subject for subject in close if subject != TWIN), *twins]

    def _extended(
        self, found: dict[Subject, Measured], bench: Bench, earlier: Schedule | None
    ) -> dict[Subject, Measured]:
        """Time a point further while its best gain is in doubt, the stored choice beside the candidates.

        What fails in it fails the point, as in the first pass; the others' samples of that step are dropped, since
        they were not taken side by side, and the question is asked again without it.
        """
        seen = self.limits.samples
        while found[BASE].outcome is Outcome.TIMED:
            taken = {s: item.samples for s, item in found.items() if item.outcome is Outcome.TIMED}
            rivals, total = extend(taken, seen, self.limits)
            if not rivals:
                break
            beside = [] if rivals == [TWIN] else _stored(found, earlier)
            added, lost = bench.more(list(dict.fromkeys((BASE, *beside, *rivals))), total - seen)
            if lost:
                found = _without(found, lost)
                continue
            found = {
                subject: replace(item, samples=(*item.samples, *added.get(subject, ())))
                for subject, item in found.items()
            }
            seen = total
        return found

    def _times(self, found: Mapping[Subject, Measured], count: int | None) -> dict[Subject, float]:
        """Return the time of whatever was timed, over its first ``count`` samples."""
        timed = {s: item.samples[:count] for s, item in found.items() if item.outcome is Outcome.TIMED}
        return {s: center(samples, self.limits.samples) for s, samples in timed.items()}

    def _judge(self, route: Route, bench: Bench, facts: KeyFacts, trials: tuple[Trial, ...]) -> KeyResult:
        known = bench.facts()
        item = Evidence(
            bench=known.kind, catalog=self.catalog.digest(), device=known.device, keys=(facts,), trials=trials
        )
        decide = decide_points if self.afresh else settled_points
        decisions = decide(item, self.catalog, self.limits, self.rule)
        bands = decided_bands(decisions, complete_keys(item, self.catalog), self.catalog).get(route.key, ())
        return KeyResult(
            facts=facts,
            trials=trials,
            decisions=tuple(decisions[route.key, width] for width in route.widths if (route.key, width) in decisions),
            bands=bands,
            resumed=route.key in self.finished,
        )


def _without(found: Mapping[Subject, Measured], lost: Lost) -> dict[Subject, Measured]:
    """Return ``found`` with the outcome and reason of what was lost; the samples that it had stay."""
    return {
        subject: replace(item, outcome=lost[subject].outcome, reason=lost[subject].reason) if subject in lost else item
        for subject, item in found.items()
    }


def _stored(found: Mapping[Subject, Measured], earlier: Schedule | None) -> list[Subject]:
    """Return the stored choice, if it is a schedule that can be timed.

    It is timed beside whatever may replace it: settled on its few first samples, it would go as often as these are
    unlucky ones.
    """
    timed = (subject for subject, item in found.items() if item.outcome is Outcome.TIMED)
    return [subject for subject in timed if earlier and subject.schedule == earlier]
