"""A later run of a device against an earlier one: a choice changes only where the later samples tell the two apart.

Two runs of one board differ by some tenths of a per cent, so a gain near the margin falls on one side today and on the
other tomorrow. The earlier choice is the incumbent (field-lessons 4.1): it stays unless the later run clearly differs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.core.evidence import BenchKind, Outcome
from generator.core.route import COMPILED
from generator.core.sampling import gain_doubt
from generator.core.stats import center, gain
from generator.core.verdict import Rule, Verdict, decide_points, key_noise, pooled_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence, Trial
    from generator.core.limits import Limits
    from generator.core.route import Point, RouteKey, Schedule
    from generator.core.verdict import Decision


def earlier_choices(evidence: Evidence) -> dict[Point, Schedule]:
    """Return the choices of the entry that ``evidence`` was measured over, as its trials record them."""
    return {(trial.key, trial.width): trial.schedule for trial in evidence.trials if trial.earlier}


def settled_points(
    evidence: Evidence,
    catalog: Catalog,
    limits: Limits,
    rule: Rule,
    before: Mapping[Point, Schedule] | None = None,
) -> dict[Point, Decision]:
    """Return what ``rule`` decides at every point; ``guarded`` against the entry that the run was measured over.

    The choices ``before`` of an earlier source of the table stand in for that entry's where there are any: a choice is
    settled once, not against one memory after the other, each of which may cost a margin.
    """
    decisions = decide_points(evidence, catalog, limits, rule)
    if rule is not Rule.GUARDED:
        return decisions
    earlier = {**earlier_choices(evidence), **(before or {})}
    return settle(decisions, evidence, earlier, limits) if earlier else decisions


def settle(
    decisions: Mapping[Point, Decision], evidence: Evidence, earlier: Mapping[Point, Schedule], limits: Limits
) -> dict[Point, Decision]:
    """Return ``decisions`` with the earlier choice wherever ``evidence`` does not clearly speak against it.

    * The compiled route stays unless the new choice's gain over both passes clears the margin by the key's noise.
    * An earlier winner stays while it is faster than the compiled route by more than the second pass asks for, and
      the new choice is not faster than it by the margin.
    * An earlier schedule that runs the compiled route's launch at this width, or is not legal there, is the compiled
      route: that is what ran. One that is no candidate, was not timed, or was refused is nothing to keep.

    The engine's own evidence states its choice and is returned as it is.

    Args:
        decisions: of rule ``guarded`` on ``evidence``.
        evidence: holds the samples of both choices.
        earlier: choices of the run before; points that it did not measure are decided by ``decisions`` alone.
        limits: the numbers of the rule.
    """
    if evidence.bench is BenchKind.ENGINE:
        return dict(decisions)
    settled: dict[Point, Decision] = {}
    levels: dict[RouteKey, float] = {}
    for (key, width), decision in decisions.items():
        old = earlier.get((key, width))
        settled[key, width] = decision
        if old is None or old == decision.schedule or decision.verdict is Verdict.NOT_MEASURED:
            continue
        if key not in levels:
            levels[key] = key_noise(evidence, key, limits)
        settled[key, width] = _settled(evidence, decision, old, limits, levels[key])
    return settled


def _settled(evidence: Evidence, decision: Decision, old: Schedule, limits: Limits, level: float) -> Decision:
    """Return ``decision``, or the one that keeps ``old``."""
    ruling = next((item for item in decision.rulings if item.schedule == old), None)
    before = evidence.trial(decision.key, decision.width, old)
    if ruling is not None and before is not None:
        if ruling.verdict is Verdict.INELIGIBLE or before.outcome is Outcome.SAME:
            old, before = COMPILED, evidence.trial(decision.key, decision.width)
        elif before.outcome is not Outcome.TIMED or ruling.verdict is Verdict.REFUSED:
            return decision
    elif old != COMPILED:
        return decision
    compiled, after = (evidence.trial(decision.key, decision.width, name) for name in (COMPILED, decision.schedule))
    if compiled is None or before is None or after is None or old == decision.schedule:
        return decision
    lead, held = (_lead(*pair, compiled, limits) for pair in ((after, before), (before, compiled)))
    if old == COMPILED:
        stays, found = not lead > limits.min_gain + level, f"needs more than {limits.min_gain + level:.3f}"
    else:
        keeps_up = held > limits.min_gain * limits.second_pass_share
        stays = keeps_up and (decision.schedule == COMPILED or not lead > limits.min_gain)
        found = f"and {old} {held:.3f} over compiled"
    if not stays:
        return decision
    reason = f"an earlier run's choice stays: {decision.schedule or 'compiled'} gains {lead:.3f} over it, {found}"
    gained = held if old != COMPILED else None
    reason = f"{old or 'compiled'}: {reason}"
    return replace(decision, schedule=old, verdict=Verdict.TIE, reason=reason, gain=gained, kept=True)


def _lead(rival: Trial, base: Trial, compiled: Trial, limits: Limits) -> float:
    """Return the gain of ``rival`` over ``base``, in the samples that both have where the device was not steady.

    One that was timed further has later samples than the other. The compiled route has them all, and shows whether the
    device was another by then.
    """
    count, rounds = min(len(rival.first_us), len(base.first_us)), min(len(rival.second_us), len(base.second_us))
    few, whole = compiled.first_us[:count], compiled.first_us
    moved = abs(gain(center(few, limits.samples), center(whole, limits.samples)))
    if len(few) < len(whole) and moved > gain_doubt(few, whole, limits):
        rival, base = (
            replace(item, first_us=item.first_us[:count], second_us=item.second_us[:rounds]) for item in (rival, base)
        )
    return gain(pooled_time(rival), pooled_time(base))
