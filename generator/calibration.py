"""One calibration: a Bench swept, judged, stored as evidence and as an entry of the profile file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.evidence import Evidence, Outcome
from generator.core.provenance import measured_profile
from generator.core.recorded_rule import rule_facts
from generator.core.settle import earlier_choices
from generator.core.stats import median
from generator.core.sweep import Sweep
from generator.core.verdict import Rule, Verdict, false_switches
from generator.errors import EvidenceError
from generator.journal import Header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ninfer_device_profiles.document import Profile

    from generator.core.bench import Bench
    from generator.core.catalog import Catalog
    from generator.core.evidence import Scalar, Trial
    from generator.core.limits import Limits
    from generator.core.route import Point, Route, Schedule
    from generator.core.sweep import KeyResult
    from generator.journal import Finished, Journal
    from generator.progress import Ticker


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """What a finished calibration gives."""

    evidence: Evidence
    profile: Profile
    results: tuple[KeyResult, ...]
    kept: int = 0
    """Choices of the stored entry that stay only because the samples do not tell them from the run's own."""

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return the keys that were measured and gave no bands."""
        return tuple(result.facts.key for result in self.results if not result.bands)


def calibrate(
    *,
    bench: Bench,
    catalog: Catalog,
    routes: Sequence[Route],
    limits: Limits,
    rule: Rule,
    run: dict[str, Scalar],
    journal: Journal | None,
    resume: bool,
    progress: Ticker,
    detail: bool,
    earlier: Mapping[Point, Schedule] | None = None,
    afresh: bool = False,
) -> Outcomes:
    """Sweep ``routes`` and return evidence and entry.

    Args:
        bench: what times.
        catalog: what evidence and entry are of.
        routes: what to measure, in measuring order.
        limits: the rule's numbers.
        rule: what decides, and what later keys are measured on top of.
        run: facts of the run that the bench does not know (date, build, options).
        journal: where finished keys go, None for a replay.
        resume: take the journal's finished keys as measured.
        progress: what shows it.
        detail: report every candidate's time.
        earlier: what the entry to be replaced names at each point (`settle`).
        afresh: decide without it.

    Raises:
        EvidenceError: the journal cannot be resumed, or holds keys that ``routes`` leave out.
    """
    facts = bench.facts()
    rule_numbers = rule_facts(rule, limits)
    header = Header(catalog=catalog.digest(), device=facts.device, rule=rule_numbers, run={**facts.run, **run})
    finished: Finished = {}
    recorded = dict(header.run)
    if journal is not None and resume:
        finished, recorded = journal.resume(header)
        left_out = sorted(finished.keys() - {route.key for route in routes})
        if left_out:
            raise EvidenceError(
                f"{journal.path}: holds finished keys that this selection leaves out and would lose "
                f"({len(left_out)}, {left_out[0]!r} first); expected the selection that the run began with. Repeat its "
                "--only and --no-..., or run without --resume to start anew"
            )
        recorded["resumed"] = True
    elif journal is not None:
        journal.start(header)
    sweep = Sweep(catalog=catalog, limits=limits, rule=rule, finished=finished, earlier=earlier or {}, afresh=afresh)
    results: list[KeyResult] = []
    for result in sweep.keys(routes, bench, lambda key, width: progress.at(f"{key} w={width}")):
        results.append(result)
        if journal is not None and not result.resumed:
            journal.add(result.facts, result.trials)
        for line in key_lines(result, detail=detail):
            progress.line(line)
    evidence = Evidence(
        bench=facts.kind,
        catalog=catalog.digest(),
        device=facts.device,
        rule=rule_numbers,
        run=recorded,
        keys=tuple(result.facts for result in results),
        trials=tuple(trial for result in results for trial in result.trials),
    )
    switched, judged = false_switches(evidence, catalog, limits, rule)
    evidence = Evidence(
        bench=evidence.bench,
        catalog=evidence.catalog,
        device=evidence.device,
        rule=evidence.rule,
        run={**recorded, "twins_judged": judged, "twins_switched": switched},
        keys=evidence.keys,
        trials=evidence.trials,
    )
    profile = measured_profile(evidence, {result.facts.key: result.bands for result in results if result.bands})
    kept = sum(decision.kept for result in results for decision in result.decisions)
    return Outcomes(evidence=evidence, profile=profile, results=tuple(results), kept=kept)


def key_lines(result: KeyResult, *, detail: bool) -> list[str]:
    """Return the engine's progress lines of one key (engine-profiles 4.4): one a point, refusals, each candidate."""
    lines: list[str] = []
    for decision in result.decisions:
        here = [trial for trial in result.trials if trial.width == decision.width]
        compiled = next((trial for trial in here if not trial.schedule and not trial.twin), None)
        base = _us(compiled)
        name = f"{decision.key} w={decision.width}"
        for trial in here:
            if trial.outcome is Outcome.REFUSED:
                worst = max((value for value in trial.differences.values() if value is not None), default=None)
                text = f"output differs by {worst:.3g}" if worst is not None else trial.reason
                lines.append(f"{name} {trial.schedule} rejected: {text}")
            elif trial.outcome in {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.IMPOSSIBLE} and not trial.twin:
                lines.append(f"{name} {trial.schedule or 'compiled'} {trial.outcome}: {trial.reason}")
            elif detail and trial.schedule and trial.first_us:
                lines.append(f"{name} {trial.schedule} {_us(trial)} us (compiled {base} us)")
        chosen = next((trial for trial in here if trial.schedule == decision.schedule and not trial.twin), compiled)
        if decision.verdict is not Verdict.NOT_MEASURED:
            lines.append(f"{name} compiled {base} us -> {decision.schedule or 'compiled'} {_us(chosen)} us")
    return lines


def _us(trial: Trial | None) -> str:
    return f"{median(trial.first_us):.1f}" if trial is not None and trial.first_us else "no time"


def summary_lines(outcomes: Outcomes) -> list[str]:
    """Return what ends the run: the engine's summary, and how often twins would have been switched."""
    routed = sum(any(band.schedule for band in result.bands) for result in outcomes.results)
    seconds = sum(float(result.facts.conditions.get("seconds", 0.0)) for result in outcomes.results)
    run = outcomes.evidence.run
    lines = [
        (
            f"calibration: {len(outcomes.results)} keys measured, {routed} routed off the compiled route "
            f"in {seconds:.1f} s"
        ),
        f"hidden twins: {run['twins_switched']} of {run['twins_judged']} would have been switched",
    ]
    known = len(earlier_choices(outcomes.evidence))
    if known:
        lines.append(
            f"stored entry: choices known: {known}; kept against this run's own, as its samples do not tell them apart:"
            f" {outcomes.kept}"
        )
    lines += [f"{key}: not stored, the compiled route could not be timed at every width" for key in outcomes.incomplete]
    return lines
