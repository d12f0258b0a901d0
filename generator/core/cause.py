"""Why two runs decide a (key, width) differently: one cause for each, with what speaks for it.

Where rule and samples both differ, each is swapped alone (new rule on old samples, old rule on new samples), and the
cause is the swap that flips the choice. Source: field-lessons 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from generator.core.evidence import Outcome
from generator.core.recorded_rule import recorded_rule
from generator.core.route import COMPILED
from generator.core.settle import settled_points
from generator.core.verdict import Verdict, decide_points, key_noise, pooled_time

if TYPE_CHECKING:
    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence, Trial
    from generator.core.limits import Limits
    from generator.core.route import Point, RouteKey, Schedule
    from generator.core.verdict import Decision, Rule


class Cause(StrEnum):
    """Causes of a change; the first that holds is given."""

    COVERAGE = "coverage"  # one run alone decides the point
    CATALOG = "candidates changed"
    KERNELS = "kernels changed"
    RULE = "rule changed"
    REFUSED = "refused for output"
    FAILED = "failed"
    TIE = "tie"  # the two stand to each other as before, or the new run keeps a stored choice: no reason to switch
    BOARD = "other board"
    DRIVER = "driver changed"
    TIMES = "times changed"


class Attribution(NamedTuple):
    """A cause and what speaks for it."""

    cause: Cause
    reason: str

    def __str__(self) -> str:
        """Return both as reports write them."""
        return f"{self.cause}: {self.reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A run and the rule that decides it, ``afresh``: without the choices of the entry that it was measured over."""

    evidence: Evidence
    limits: Limits
    rule: Rule
    afresh: bool = False

    def decide(self, catalog: Catalog) -> dict[Point, Decision]:
        """Return the decision at every point of the run."""
        if self.afresh:
            return decide_points(self.evidence, catalog, self.limits, self.rule)
        return settled_points(self.evidence, catalog, self.limits, self.rule)


def judged_as_recorded(evidence: Evidence) -> Judged:
    """Return ``evidence`` under the rule and the numbers that it was measured with."""
    rule, limits = recorded_rule(evidence)
    return Judged(evidence=evidence, limits=limits, rule=rule)


def causes(old: Judged, new: Judged, catalog: Catalog) -> dict[Point, Attribution]:
    """Return the cause at every point where two runs of one hardware class differ in their choice.

    A point that one run alone decided is among them where that choice is another schedule than the compiled route.
    """
    before, after = old.decide(catalog), new.decide(catalog)
    other_rule = (old.rule, old.limits) != (new.rule, new.limits)
    old_samples = replace(new, evidence=old.evidence).decide(catalog) if other_rule else {}
    new_samples = replace(old, evidence=new.evidence).decide(catalog) if other_rule else {}
    found: dict[Point, Attribution] = {}
    for point in dict.fromkeys((*before, *after)):
        was, now = (_decided(side.get(point)) for side in (before, after))
        if was is None or now is None:
            if any(item is not None and item.schedule for item in (was, now)):
                found[point] = _coverage(point, before, after)
        elif was.schedule != now.schedule:
            swapped = (old_samples[point].schedule, new_samples[point].schedule) if other_rule else None
            found[point] = _attribute(old, new, was, now, swapped)
    return found


def _decided(decision: Decision | None) -> Decision | None:
    return None if decision is None or decision.verdict is Verdict.NOT_MEASURED else decision


def _coverage(point: Point, before: dict[Point, Decision], after: dict[Point, Decision]) -> Attribution:
    was = _decided(before.get(point))
    side, which = (before, "old") if was is None else (after, "new")
    reason = side[point].reason if point in side else "not measured"
    return Attribution(Cause.COVERAGE, f"the {which} run decides nothing here ({reason})")


_RULE_TEXTS = {
    (True, False): "the new rule gives this choice on the old samples too, the old rule on the new ones does not",
    (True, True): "the new rule or the new samples alone give this choice",
    (False, False): "only the new rule on the new samples gives this choice",
}
"""By whether the new rule on the old samples, and the old rule on the new ones, give the new choice."""


def _attribute(
    old: Judged, new: Judged, was: Decision, now: Decision, swapped: tuple[Schedule, Schedule] | None
) -> Attribution:
    for cause, name in ((Cause.CATALOG, "digest"), (Cause.KERNELS, "kernels")):
        one, other = (_fact(side.evidence, was.key, name) for side in (old, new))
        if one and other and one != other:
            return Attribution(cause, f"digest {one[:16]} became {other[:16]}")
    if swapped is not None:
        by_rule, by_samples = swapped[0] == now.schedule, swapped[1] == now.schedule
        if by_rule or not by_samples:
            return Attribution(Cause.RULE, _RULE_TEXTS[by_rule, by_samples])
    return _untimed(old, new, was, now) or _times(old, new, was, now)


def _fact(evidence: Evidence, key: RouteKey, name: str) -> str:
    return next((str(getattr(item, name)) for item in evidence.keys if item.key == key), "")


def _untimed(old: Judged, new: Judged, was: Decision, now: Decision) -> Attribution | None:
    """Return the cause where one run's choice has no valid time in the other."""
    for side, name, choice in ((new, "new", was.schedule), (old, "old", now.schedule)):
        trial = side.evidence.trial(was.key, was.width, choice)
        if trial is not None and trial.outcome not in {Outcome.TIMED, Outcome.SAME, Outcome.STOPPED}:
            cause = Cause.REFUSED if trial.outcome is Outcome.REFUSED else Cause.FAILED
            return Attribution(cause, f"{choice or 'compiled'} in the {name} run: {trial.reason or trial.outcome}")
    return None


def _times(old: Judged, new: Judged, was: Decision, now: Decision) -> Attribution:
    one, other = (_ratio(side.evidence, was, now.schedule) for side in (old, new))
    names = f"{now.schedule or 'compiled'} took {{}} of {was.schedule or 'compiled'}'s time"
    text = names.format(" and then ".join("no time" if item is None else f"{item:.3f}" for item in (one, other)))
    noise = max(key_noise(side.evidence, was.key, side.limits) for side in (old, new))
    level = max(noise, new.limits.min_gain * new.limits.second_pass_share)
    if one is not None and other is not None and abs(one - other) <= level:
        return Attribution(Cause.TIE, f"{text}, as near as {level:.3f}")
    if now.kept:
        return Attribution(Cause.TIE, f"{text}; the new run keeps the choice that it found stored")
    ours, theirs = old.evidence, new.evidence
    boards = {ours.device.uuid_hash, theirs.device.uuid_hash} - {""}
    if len(boards) > 1:
        return Attribution(Cause.BOARD, text)
    drivers = [item.run.get("cuda_driver") for item in (ours, theirs)]
    if drivers[0] != drivers[1]:
        return Attribution(Cause.DRIVER, f"{text}; CUDA driver {drivers[0]} became {drivers[1]}")
    return Attribution(Cause.TIMES, text)


def _ratio(evidence: Evidence, at: Decision, choice: Schedule) -> float | None:
    rival, base = (_median(evidence, at, name) for name in (choice, at.schedule))
    return None if rival is None or base is None else rival / base


def _median(evidence: Evidence, at: Decision, name: Schedule) -> float | None:
    trial: Trial | None = evidence.trial(at.key, at.width, name)
    if trial is not None and trial.outcome is Outcome.SAME:
        trial = evidence.trial(at.key, at.width, COMPILED)
    if trial is None or not trial.first_us:
        return None
    return pooled_time(trial)
