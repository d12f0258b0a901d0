"""The candidate rules over stored samples: which schedule each (key, width) gets, and why.

Rule ``engine`` is the engine's own (engine-profiles 4.4); of a first pass that was extended it sees the usual number of
samples. Rule ``guarded`` asks in addition that the gain exceed the key's own noise, which hidden twins of the compiled
route show; it sees every sample, and takes the earliest of the candidates that these cannot tell apart within that
noise (architecture 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import Band, Bands, bands_from_points

from generator.core.evidence import BenchKind, Evidence, Outcome, Trial
from generator.core.route import COMPILED, Candidate, Point, Route, RouteKey, Schedule
from generator.core.stats import center, gain, median, midmean, noise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from generator.core.catalog import Catalog
    from generator.core.limits import Limits


class Rule(StrEnum):
    """Names of the candidate rules."""

    ENGINE = "engine"
    GUARDED = "guarded"


class Verdict(StrEnum):
    """What a rule makes of a candidate, or of a whole point."""

    WIN = "win"
    TIE = "tie"  # the compiled route's very launch, or not told apart from an earlier winner
    KEEP = "keep"  # not faster by the margin, or not by more than the noise
    SLOWER = "slower than the winner"
    SECOND_LOST = "second pass lost"
    REFUSED = "refused for output"
    IMPOSSIBLE = "impossible"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    STOPPED = "stopped early"
    INELIGIBLE = "ineligible"
    NOT_MEASURED = "not measured"


_UNTIMED = {
    Outcome.SAME: Verdict.TIE,
    Outcome.INELIGIBLE: Verdict.INELIGIBLE,
    Outcome.REFUSED: Verdict.REFUSED,
    Outcome.IMPOSSIBLE: Verdict.IMPOSSIBLE,
    Outcome.FAILED: Verdict.FAILED,
    Outcome.TIMED_OUT: Verdict.TIMED_OUT,
    Outcome.STOPPED: Verdict.STOPPED,
}


_TELLING = (
    Verdict.REFUSED,
    Verdict.IMPOSSIBLE,
    Verdict.FAILED,
    Verdict.TIMED_OUT,
    Verdict.STOPPED,
    Verdict.TIE,
    Verdict.INELIGIBLE,
    Verdict.NOT_MEASURED,
)
"""Which verdict stands for a point whose candidates have no times, most telling first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What became of one candidate at one point. ``gain`` is the first pass's, None where there is no time."""

    schedule: Schedule
    verdict: Verdict
    reason: str
    gain: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The answer at one (key, width).

    Args:
        schedule: the choice; empty where the compiled route stays.
        verdict: ``WIN``, or what kept the compiled route: the verdict of the best candidate that had a time, else
            ``KEEP``; ``NOT_MEASURED`` where there is no time of the compiled route.
        gain: of the best candidate: the second pass's where one was run, else the first pass's; None without times.
        rulings: of every candidate, in catalog order.
        kept: the choice is an earlier run's and not the rule's own (`settle`).
    """

    key: RouteKey
    width: int
    schedule: Schedule
    verdict: Verdict
    reason: str
    gain: float | None = None
    rulings: tuple[Ruling, ...] = ()
    kept: bool = False


def key_noise(evidence: Evidence, key: RouteKey, limits: Limits) -> float:
    """Return the noise of ``key``: what its hidden twins show over all widths and rounds, as a ratio."""
    ratios: list[float] = []
    for (owner, _), trials in evidence.by_point.items():
        if owner != key:
            continue
        base = next((trial for trial in trials if not trial.schedule and not trial.twin), None)
        twin = next((trial for trial in trials if trial.twin), None)
        if base is None or twin is None:
            continue
        if base.first_us and twin.first_us:
            ratios.append(median(twin.first_us[: limits.samples]) / median(base.first_us[: limits.samples]))
        usual = limits.samples
        rounds = zip(twin.second_us, base.second_us, strict=False)
        ratios.extend(median(again[:usual]) / median(compiled[:usual]) for again, compiled in rounds)
    return noise(ratios, limits.noise_factor)


def decide_points(evidence: Evidence, catalog: Catalog, limits: Limits, rule: Rule) -> dict[Point, Decision]:
    """Judge every measured point of ``evidence`` that the catalog knows, keys in byte order, widths ascending."""
    decisions: dict[Point, Decision] = {}
    for key, route in catalog.routes.items():
        if not any((key, width) in evidence.by_point for width in route.widths):
            continue
        level = key_noise(evidence, key, limits) if rule is Rule.GUARDED else 0.0
        for width in route.widths:
            if (key, width) in evidence.by_point:
                decisions[key, width] = decide_point(evidence, route, width, limits, rule, level)
    return decisions


def decide_point(  # noqa: PLR0917
    evidence: Evidence, route: Route, width: int, limits: Limits, rule: Rule, level: float
) -> Decision:
    """Judge one point; ``level`` is the key's noise (0 under rule ``engine``)."""
    compiled = evidence.trial(route.key, width)
    if evidence.bench is BenchKind.ENGINE:
        return _stated(evidence, route, width, compiled)
    if compiled is None or compiled.outcome is not Outcome.TIMED:
        reason = (
            "compiled route has no trial" if compiled is None else f"compiled {compiled.outcome}: {compiled.reason}"
        )
        return Decision(key=route.key, width=width, schedule=COMPILED, verdict=Verdict.NOT_MEASURED, reason=reason)
    seen = _seen(rule, limits)
    base_us = center(compiled.first_us[:seen], limits.samples)
    trials = {c.schedule: evidence.trial(route.key, width, c.schedule) for c in route.candidates}
    trials = {name: None if trial is None else _cut(trial, seen) for name, trial in trials.items()}
    rulings = {name: _first_pass(name, trial, base_us, limits, level) for name, trial in trials.items()}
    rulings |= {
        item.schedule: _illegal(item) for item in route.candidates if trials[item.schedule] and not item.legal(width)
    }
    contenders = {name: trial for name, trial in trials.items() if rulings[name].verdict is Verdict.WIN and trial}
    if not contenders:
        return _kept(route.key, width, tuple(rulings.values()))
    chosen = _provisional(contenders, rule, level, limits)
    verdict, reason, second_gain = _second_pass(contenders[chosen], _cut(compiled, seen), limits, level)
    for name, trial in contenders.items():
        if name == chosen:
            rulings[name] = _ruled(rulings[name], verdict, reason)
        elif rule is Rule.GUARDED and pooled_time(trial) <= pooled_time(contenders[chosen]):
            text = f"not told apart from {chosen!r}, which is earlier in the catalog"
            rulings[name] = _ruled(rulings[name], Verdict.TIE, text)
        else:
            rulings[name] = _ruled(rulings[name], Verdict.SLOWER, f"{chosen!r} is faster")
    return Decision(
        key=route.key,
        width=width,
        schedule=chosen if verdict is Verdict.WIN else COMPILED,
        verdict=verdict,
        reason=f"{chosen}: {reason}",
        gain=second_gain if second_gain is not None else rulings[chosen].gain,
        rulings=tuple(rulings.values()),
    )


def _illegal(item: Candidate) -> Ruling:
    """Rule on a candidate outside its legal widths, where the engine runs the compiled route whatever was timed."""
    text = f"legal from width {item.min_width} to {item.max_width or 'any'}"
    return Ruling(schedule=item.schedule, verdict=Verdict.INELIGIBLE, reason=text)


def _ruled(ruling: Ruling, verdict: Verdict, reason: str) -> Ruling:
    return Ruling(schedule=ruling.schedule, verdict=verdict, reason=reason, gain=ruling.gain)


def _first_pass(name: Schedule, trial: Trial | None, base_us: float, limits: Limits, level: float) -> Ruling:
    """Rule on the first pass alone; ``WIN`` here means "goes to the second pass"."""
    if trial is None:
        return Ruling(schedule=name, verdict=Verdict.NOT_MEASURED, reason="no trial")
    for plane, difference in trial.differences.items():
        if difference is None or not difference <= limits.max_mismatch:
            text = "is not finite" if difference is None else f"differs by {difference:.3g}"
            text = f"output {plane!r} {text}, allowed {limits.max_mismatch:g}"
            return Ruling(schedule=name, verdict=Verdict.REFUSED, reason=text)
    us = center(trial.first_us, limits.samples) if trial.first_us else math.inf
    found = gain(us, base_us) if trial.first_us else None
    if trial.outcome is not Outcome.TIMED:
        return Ruling(schedule=name, verdict=_UNTIMED[trial.outcome], reason=trial.reason, gain=found)
    if not us < base_us * (1 - limits.min_gain):
        text = f"gain {found:.3f} in the first pass, needs more than {limits.min_gain:g}"
        return Ruling(schedule=name, verdict=Verdict.KEEP, reason=text, gain=found)
    noise_here = level * math.sqrt(limits.samples / max(limits.samples, len(trial.first_us)))
    if not us < base_us * (1 - noise_here):
        text = f"gain {found:.3f} in the first pass is inside the key's noise of {noise_here:.3f}"
        return Ruling(schedule=name, verdict=Verdict.KEEP, reason=text, gain=found)
    return Ruling(schedule=name, verdict=Verdict.WIN, reason=f"gain {found:.3f} in the first pass", gain=found)


def _seen(rule: Rule, limits: Limits) -> int | None:
    """Return how many first-pass samples ``rule`` looks at; None for all."""
    return limits.samples if rule is Rule.ENGINE else None


def _cut(trial: Trial, seen: int | None) -> Trial:
    if seen is None:
        return trial
    second = tuple(samples[:seen] for samples in trial.second_us)
    return replace(trial, first_us=trial.first_us[:seen], second_us=second)


def _time(trial: Trial, limits: Limits) -> float:
    """Return the sum of the second pass's rounds."""
    return sum(center(samples, limits.samples) for samples in trial.second_us)


def pooled_time(trial: Trial) -> float:
    """Return the midmean over all samples of both passes, in microseconds."""
    return midmean([*trial.first_us, *(us for samples in trial.second_us for us in samples)])


def _provisional(contenders: Mapping[Schedule, Trial], rule: Rule, level: float, limits: Limits) -> Schedule:
    """Return the contender that the second pass judges; the mapping is in catalog order."""
    best = min(contenders, key=lambda name: center(contenders[name].first_us, limits.samples))
    if rule is Rule.ENGINE:
        return best
    # Only what went to the second pass can win; the fastest contender always did.
    judged = {name: trial for name, trial in contenders.items() if trial.second_us}
    if not judged:
        return best
    fastest = min(pooled_time(trial) for trial in judged.values())
    return next(
        name for name, trial in judged.items() if pooled_time(trial) <= fastest * (1 + _blur(trial, level, limits))
    )


def _blur(trial: Trial, level: float, limits: Limits) -> float:
    """Return the noise of a median over all samples of ``trial``; ``level`` is that of the usual number."""
    count = len(trial.first_us) + sum(len(samples) for samples in trial.second_us)
    return level * math.sqrt(limits.samples / count)


def _second_pass(rival: Trial, compiled: Trial, limits: Limits, level: float) -> tuple[Verdict, str, float | None]:
    rounds = limits.second_pass_rounds
    if len(rival.second_us) < rounds or len(compiled.second_us) < rounds:
        return Verdict.NOT_MEASURED, f"the second pass has {len(rival.second_us)} of {rounds} rounds", None
    rival_us, base_us = _time(rival, limits), _time(compiled, limits)
    found = gain(rival_us, base_us)
    need = limits.min_gain * limits.second_pass_share
    if not rival_us < base_us * (1 - need):
        return Verdict.SECOND_LOST, f"gain {found:.3f} in the second pass, needs more than {need:g}", found
    pooled = gain(pooled_time(rival), pooled_time(compiled))
    level_here = _blur(rival, level, limits)
    if not pooled > level_here and level > 0:
        text = f"gain {pooled:.3f} over both passes is inside the key's noise of {level_here:.3f}"
        return Verdict.SECOND_LOST, text, found
    return Verdict.WIN, f"gain {found:.3f} in the second pass", found


def _kept(key: RouteKey, width: int, rulings: tuple[Ruling, ...]) -> Decision:
    timed = [ruling for ruling in rulings if ruling.gain is not None]
    best = max(timed, key=lambda ruling: ruling.gain or 0.0, default=None)
    if best is not None:
        text = f"{best.schedule}: {best.reason}"
        return Decision(
            key=key, width=width, schedule=COMPILED, verdict=best.verdict, reason=text, gain=best.gain, rulings=rulings
        )
    verdicts = {ruling.verdict for ruling in rulings}
    verdict = next((verdict for verdict in _TELLING if verdict in verdicts), Verdict.KEEP)
    text = "; ".join(f"{ruling.schedule}: {ruling.reason}" for ruling in rulings)
    return Decision(key=key, width=width, schedule=COMPILED, verdict=verdict, reason=text, rulings=rulings)


def _stated(evidence: Evidence, route: Route, width: int, compiled: Trial | None) -> Decision:
    """Take the engine's own choice: its second pass is in that choice, and not among the samples."""
    trials = evidence.by_point.get((route.key, width), ())
    chosen = next((trial for trial in trials if trial.chosen), None)
    if chosen is None:
        return Decision(
            key=route.key, width=width, schedule=COMPILED, verdict=Verdict.NOT_MEASURED, reason="no stated choice"
        )
    found = None
    if compiled is not None and compiled.first_us and chosen.first_us and chosen.schedule:
        found = gain(median(chosen.first_us), median(compiled.first_us))
    verdict = Verdict.WIN if chosen.schedule else Verdict.KEEP
    return Decision(
        key=route.key,
        width=width,
        schedule=chosen.schedule,
        verdict=verdict,
        reason=f"{chosen.schedule or 'compiled'}: stated by the engine's calibration",
        gain=found,
    )


def decided_bands(
    decisions: Mapping[Point, Decision], keys: Iterable[RouteKey], catalog: Catalog
) -> dict[RouteKey, Bands]:
    """Return the bands that ``decisions`` give each of ``keys``, all of whose widths they decide."""
    routes = {key: catalog.route(key) for key in keys}
    return {
        key: route_bands(route, {width: decisions[key, width].schedule for width in route.widths})
        for key, route in routes.items()
    }


def route_bands(route: Route, choices: Mapping[int, Schedule]) -> Bands:
    """Return the bands of ``choices`` by width; a last measured width takes its stretched ``last``."""
    bands = bands_from_points((width, choices[width]) for width in sorted(choices))
    if not bands:
        return bands
    last, schedule = bands[-1]
    return (*bands[:-1], Band(route.stretch.get(last, last), schedule))


def false_switches(evidence: Evidence, catalog: Catalog, limits: Limits, rule: Rule) -> tuple[int, int]:
    """Return how many twins the rule would have taken for a win, and how many were judged."""
    levels: dict[RouteKey, float] = {}
    taken = judged = 0
    for trial in evidence.trials:
        base = evidence.trial(trial.key, trial.width)
        if not trial.twin or not trial.first_us or base is None or not base.first_us or trial.key not in catalog.routes:
            continue
        judged += 1
        if rule is Rule.GUARDED and trial.key not in levels:
            levels[trial.key] = key_noise(evidence, trial.key, limits)
        level = levels.get(trial.key, 0.0)
        twin, compiled = (_cut(item, _seen(rule, limits)) for item in (trial, base))
        # The twin is timed further only where it won, so it is held against as many samples as it has.
        base_us = center(compiled.first_us[: len(twin.first_us)], limits.samples)
        first = _first_pass(trial.schedule, twin, base_us, limits, level)
        if first.verdict is Verdict.WIN and _second_pass(twin, compiled, limits, level)[0] is Verdict.WIN:
            taken += 1
    return taken, judged
