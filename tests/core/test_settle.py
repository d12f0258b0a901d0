"""A later run against an earlier one: what it does not tell apart stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.evidence import BenchKind, Outcome
from generator.core.limits import LIMITS
from generator.core.measured import measured_sources
from generator.core.route import COMPILED, Schedule
from generator.core.settle import settle, settled_points
from generator.core.verdict import Rule, Verdict, decide_points
from tests.core.toy import KEY, STRETCHED, evidence, other, point, timed, toy_catalog

if TYPE_CHECKING:
    from generator.core.evidence import Evidence, Trial
    from generator.core.verdict import Decision

CATALOG = toy_catalog()
POINT = (KEY, 1)


def settled(run: Evidence, old: str) -> Decision:
    decisions = decide_points(run, CATALOG, LIMITS, Rule.GUARDED)
    return settle(decisions, run, {POINT: Schedule(old)}, LIMITS)[POINT]


@pytest.mark.parametrize(("us", "schedule"), [(96.9, "c"), (96.999, "c"), (90.0, "c")])
def test_without_noise_a_win_overrules_the_compiled_route(us: float, schedule: str) -> None:
    assert settled(point(timed("c", us, us)), "").schedule == schedule


def test_a_win_inside_margin_and_noise_leaves_the_compiled_route() -> None:
    run = evidence(
        [timed("", 100.0, 100.0), timed("", 99.0, 99.0, twin=True), timed("c", 96.5, 96.5), timed("b", 120.0)]
    )
    decision = settled(run, "")
    assert decide_points(run, CATALOG, LIMITS, Rule.GUARDED)[POINT].schedule == "c"
    assert (decision.schedule, decision.verdict) == (COMPILED, Verdict.TIE)
    assert decision.reason == ("compiled: an earlier run's choice stays: c gains 0.035 over it, needs more than 0.050")


@pytest.mark.parametrize(("us", "schedule"), [(97.5, "c"), (98.4, "c"), (98.6, ""), (101.0, "")])
def test_an_earlier_winner_stays_while_it_clears_half_the_margin(us: float, schedule: str) -> None:
    assert settled(point(timed("c", us, us)), "c").schedule == schedule


@pytest.mark.parametrize(("rival", "schedule"), [(90.0, "c"), (88.5, "c"), (87.0, "b")])
def test_another_winner_replaces_it_only_by_the_margin(rival: float, schedule: str) -> None:
    assert settled(point(timed("c", 90.0, 90.0), timed("b", rival, rival)), "c").schedule == schedule


@pytest.mark.parametrize(
    "trial",
    [
        other("c", Outcome.REFUSED, "differs"),
        other("c", Outcome.FAILED, "fault"),
        other("c", Outcome.SAME, "the compiled launch"),
        timed("c", 90.0, 90.0, difference=0.2),
        timed("c", 90.0, 90.0, difference=None),
    ],
)
def test_an_earlier_winner_that_fails_now_gives_way(trial: Trial) -> None:
    assert settled(point(trial), "c").schedule == COMPILED


@pytest.mark.parametrize("old", ["b", "gone"])
def test_an_earlier_schedule_that_is_illegal_or_unknown_is_never_kept(old: str) -> None:
    trials = [timed(name, 100.0, 100.0, width=8) for name in (COMPILED, "a")]
    run = evidence([*trials, timed(old, 90.0, 90.0, width=8), timed("c", 95.0, 95.0, width=8)])
    decisions = decide_points(run, CATALOG, LIMITS, Rule.GUARDED)
    assert settle(decisions, run, {(KEY, 8): Schedule(old)}, LIMITS)[KEY, 8].schedule == "c"


@pytest.mark.parametrize("old", ["a", "b"])
def test_an_earlier_schedule_that_ran_the_compiled_launch_counts_as_the_compiled_route(old: str) -> None:
    twin = timed("", 99.0, 99.0, width=8, twin=True)
    run = evidence(
        [
            timed("", 100.0, 100.0, width=8),
            twin,
            other("a", Outcome.SAME, "the compiled launch", width=8),
            other("b", Outcome.INELIGIBLE, "legal from width 1 to 4", width=8),
            timed("c", 96.5, 96.5, width=8),
        ]
    )
    decisions = decide_points(run, CATALOG, LIMITS, Rule.GUARDED)
    assert decisions[KEY, 8].schedule == "c"
    decision = settle(decisions, run, {(KEY, 8): Schedule(old)}, LIMITS)[KEY, 8]
    assert (decision.schedule, decision.verdict) == (COMPILED, Verdict.TIE)


def test_every_sample_counts_where_the_device_was_steady() -> None:
    """The first samples of b were lucky ones, as its later ones show; c has no later ones."""
    lucky = replace(timed("b", 96.0, 96.0), first_us=(91.0,) * 11 + (96.0,) * 33)
    base = replace(timed("", 100.0, 100.0), first_us=(100.0,) * 44)
    run = evidence([base, timed("", 100.0, 100.0, twin=True), lucky, timed("c", 96.0)])
    assert decide_points(run, CATALOG, LIMITS, Rule.GUARDED)[POINT].schedule == "b"
    assert settled(run, "c").schedule == "c"


def test_times_are_compared_in_shared_samples_where_the_device_changed() -> None:
    """The compiled route was timed further, and the device had slowed down by then: c is no faster side by side."""
    slow = replace(timed("", 100.0, 105.0), first_us=(100.0,) * 11 + (105.0,) * 429)
    for us, schedule in ((99.8, COMPILED), (98.0, "c")):
        run = evidence([slow, timed("", 100.0, 105.0, twin=True), timed("c", us, us * 1.05)])
        decision = settled(run, "c")
        assert decision.schedule == schedule
        assert decision.gain == pytest.approx(1 - us / 100)


def test_the_engines_statement_is_not_settled() -> None:
    stated = [replace(timed("", 100.0, width=width), chosen=True) for width in (1, 8)] + [
        replace(timed("c", 97.5, width=width), earlier=True) for width in (1, 8)
    ]
    run = evidence(stated, bench=BenchKind.ENGINE)
    assert {item.schedule for item in settled_points(run, CATALOG, LIMITS, Rule.GUARDED).values()} == {COMPILED}


def test_a_choice_is_settled_against_one_memory() -> None:
    """c holds its own against b, and b against a; but c, of the table, is beaten by a by more than the margin."""
    run = point(timed("a", 94.0, 94.0), replace(timed("b", 96.0, 96.0), earlier=True), timed("c", 98.0, 98.0))

    def choice(before: str | None) -> str:
        known = {} if before is None else {POINT: Schedule(before)}
        return settled_points(run, CATALOG, LIMITS, Rule.GUARDED, known)[POINT].schedule

    assert (choice(None), choice("b"), choice("c")) == ("b", "b", "a")


def test_a_point_that_the_earlier_run_lacks_is_decided_alone() -> None:
    run = point(timed("c", 90.0, 90.0))
    decisions = decide_points(run, CATALOG, LIMITS, Rule.GUARDED)
    assert settle(decisions, run, {}, LIMITS) == decisions


def _run(date: str, us: float) -> tuple[str, str, Evidence]:
    trials = [
        trial
        for width in (8192, 262144)
        for trial in (
            timed("", 100.0, 100.0, key=STRETCHED, width=width),
            timed("", 100.0, 100.0, key=STRETCHED, width=width, twin=True),
            timed("x", us, us, key=STRETCHED, width=width),
        )
    ]
    found = evidence(trials)
    found = type(found)(**{**vars(found), "run": {**found.run, "date": date}})
    return f"{date}.json", "0" * 64, found


def test_runs_are_settled_by_date_whatever_the_order_of_files() -> None:
    first, second = _run("2026-11-29T00:00:00Z", 96.0), _run("2026-11-30T00:00:00Z", 97.5)
    for files in ([first, second], [second, first]):
        sources = measured_sources(files, CATALOG)
        assert [source.file for source in sources] == [first[0], second[0]]
        assert [source.choices[STRETCHED, 8192] for source in sources] == ["x", "x"]
    (alone,) = measured_sources([second], CATALOG)
    assert alone.choices[STRETCHED, 8192] == COMPILED


@given(st.floats(80.0, 120.0), st.sampled_from(["", "c", "b"]))
def test_settling_never_keeps_what_is_slower_than_compiled_and_is_stable(us: float, old: str) -> None:
    run = point(timed("c", us, us), timed("b", 98.0, 98.0))
    decision = settled(run, old)
    if decision.schedule:
        trial = run.trial(KEY, 1, decision.schedule)
        assert trial is not None
        assert trial.first_us[0] < 100.0
    assert settled(run, decision.schedule).schedule == decision.schedule
