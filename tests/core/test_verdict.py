"""The candidate rules: every threshold from both sides, every verdict with its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.evidence import BenchKind, Evidence, Outcome, Trial, complete_keys, incomplete_keys
from generator.core.limits import LIMITS, Limits
from generator.core.route import COMPILED, Schedule
from generator.core.verdict import (
    Decision,
    Rule,
    Verdict,
    decide_points,
    false_switches,
    key_noise,
)
from tests.core.toy import KEY, STRETCHED, bands_of, evidence, other, point, timed, toy_catalog

if TYPE_CHECKING:
    from collections.abc import Sequence


def decide(item: Evidence, rule: Rule = Rule.ENGINE, width: int = 1) -> Decision:
    return decide_points(item, toy_catalog(), LIMITS, rule)[KEY, width]


@pytest.mark.parametrize(("us", "schedule"), [(97.0, ""), (96.999, "c")])
def test_first_pass_needs_more_than_three_per_cent(us: float, schedule: str) -> None:
    assert decide(point(timed("c", us, 90.0))).schedule == schedule


@pytest.mark.parametrize(("us", "verdict"), [(98.5, Verdict.SECOND_LOST), (98.499, Verdict.WIN)])
def test_second_pass_needs_more_than_half_the_margin(us: float, verdict: Verdict) -> None:
    assert decide(point(timed("c", 90.0, us))).verdict is verdict


def test_second_pass_judges_the_sum_of_both_rounds() -> None:
    assert decide(point(timed("c", 90.0, (100.0, 96.9)))).verdict is Verdict.WIN
    assert decide(point(timed("c", 90.0, (100.0, 97.1)))).verdict is Verdict.SECOND_LOST


@pytest.mark.parametrize(
    ("difference", "verdict"), [(0.05, Verdict.WIN), (0.0501, Verdict.REFUSED), (None, Verdict.REFUSED)]
)
def test_output_may_differ_by_five_per_cent_at_most(difference: float | None, verdict: Verdict) -> None:
    assert decide(point(timed("c", 50.0, 50.0, difference=difference))).verdict is verdict


def test_reasons_say_found_and_needed() -> None:
    assert decide(point(timed("c", 97.5))).reason == "c: gain 0.025 in the first pass, needs more than 0.03"
    assert decide(point(timed("c", 90.0, 99.0))).reason == "c: gain 0.010 in the second pass, needs more than 0.015"
    assert decide(point(timed("c", 90.0, 90.0))).reason == "c: gain 0.100 in the second pass"
    refused = decide(point(timed("c", 50.0, difference=0.2)))
    assert refused.rulings[2].reason == "output 'out' differs by 0.2, allowed 0.05"


def test_an_equal_time_goes_to_the_earlier_candidate() -> None:
    assert decide(point(timed("a", 90.0, 90.0), timed("c", 90.0, 90.0))).schedule == "a"
    assert decide(point(timed("a", 90.0, 90.0), timed("c", 89.9, 90.0))).schedule == "c"


def test_a_lost_second_pass_keeps_the_compiled_route_though_another_would_win() -> None:
    decision = decide(point(timed("a", 91.0, 91.0), timed("c", 90.0, 99.0)))
    assert (decision.schedule, decision.verdict) == ("", Verdict.SECOND_LOST)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome.SAME, Verdict.TIE),
        (Outcome.INELIGIBLE, Verdict.INELIGIBLE),
        (Outcome.REFUSED, Verdict.REFUSED),
        (Outcome.IMPOSSIBLE, Verdict.IMPOSSIBLE),
        (Outcome.FAILED, Verdict.FAILED),
        (Outcome.TIMED_OUT, Verdict.TIMED_OUT),
        (Outcome.STOPPED, Verdict.STOPPED),
    ],
)
def test_what_was_not_timed_cannot_win_and_keeps_its_reason(outcome: Outcome, verdict: Verdict) -> None:
    decision = decide(point(other("c", outcome, "why")))
    assert decision.schedule == ""
    assert (decision.rulings[2].verdict, decision.rulings[2].reason) == (verdict, "why")


def test_a_win_without_second_pass_samples_is_no_win() -> None:
    decision = decide(point(timed("c", 90.0)))
    assert (decision.schedule, decision.verdict) == ("", Verdict.NOT_MEASURED)
    assert decision.reason == "c: the second pass has 0 of 2 rounds"


def test_without_a_compiled_time_nothing_is_decided() -> None:
    decision = decide(evidence([timed("c", 90.0, 90.0)]))
    assert (decision.verdict, decision.reason) == (Verdict.NOT_MEASURED, "compiled route has no trial")


def noisy(*trials: Trial, twin: float) -> Evidence:
    base = timed(COMPILED, 100.0, 100.0)
    return evidence([base, timed(COMPILED, twin, twin, twin=True), *trials])


def test_noise_is_twice_the_twins_median_difference() -> None:
    assert key_noise(noisy(twin=101.0), KEY, LIMITS) == pytest.approx(0.02)
    assert key_noise(noisy(twin=97.0), KEY, LIMITS) == pytest.approx(0.06)


@pytest.mark.parametrize(("us", "schedule"), [(94.1, ""), (93.9, "c")])
def test_guarded_asks_more_than_the_noise_in_the_first_pass(us: float, schedule: str) -> None:
    item = noisy(timed("c", us, 80.0), twin=103.0)
    assert decide(item, Rule.GUARDED).schedule == schedule
    assert decide(item, Rule.ENGINE).schedule == "c"


@pytest.mark.parametrize(("us", "verdict"), [(98.0, Verdict.SECOND_LOST), (97.0, Verdict.WIN)])
def test_guarded_asks_more_than_the_noise_over_both_passes(us: float, verdict: Verdict) -> None:
    decision = decide(noisy(timed("c", 93.0, us), twin=103.0), Rule.GUARDED)
    assert decision.verdict is verdict
    if verdict is Verdict.SECOND_LOST:
        assert decision.reason == "c: gain 0.029 over both passes is inside the key's noise of 0.035"


def test_guarded_sees_every_sample_of_both_passes_and_engine_eleven_of_each() -> None:
    longer = replace(
        timed("c", 98.0, 95.0), first_us=(98.0,) * 11 + (95.0,) * 165, second_us=((99.0,) * 11 + (95.0,) * 11,) * 2
    )
    compiled = replace(timed(COMPILED, 100.0, 100.0), first_us=(100.0,) * 176, second_us=((100.0,) * 22,) * 2)
    item = evidence([compiled, longer])
    assert decide(item, Rule.ENGINE).schedule == ""
    assert decide(item, Rule.GUARDED).schedule == "c"
    quick = replace(longer, first_us=(95.0,) * 176)
    assert decide(evidence([compiled, quick]), Rule.ENGINE).verdict is Verdict.SECOND_LOST
    assert decide(evidence([compiled, quick]), Rule.GUARDED).schedule == "c"


def test_more_samples_make_the_noise_that_a_gain_must_exceed_smaller() -> None:
    rival = replace(timed("c", 95.0, 95.0), first_us=(95.0,) * 44)
    item = noisy(rival, twin=103.0)
    assert decide(item, Rule.GUARDED).schedule == "c"
    assert decide(noisy(timed("c", 95.0, 95.0), twin=103.0), Rule.GUARDED).schedule == ""


def test_guarded_takes_the_earliest_that_the_noise_cannot_tell_apart() -> None:
    item = noisy(timed("a", 90.5, 90.5), timed("c", 90.0, 90.0), twin=100.5)
    assert decide(item, Rule.ENGINE).schedule == "c"
    guarded = decide(item, Rule.GUARDED)
    assert guarded.schedule == "a"
    assert guarded.rulings[2].verdict is Verdict.TIE
    assert guarded.rulings[2].reason == "not told apart from 'a', which is earlier in the catalog"


def whole(choice: Sequence[str]) -> list[Trial]:
    trials = []
    for width, winner in zip((8192, 262144), choice, strict=True):
        us = 50.0 if winner else 150.0
        trials += [timed("", 100.0, 100.0, key=STRETCHED, width=width), timed("x", us, us, key=STRETCHED, width=width)]
    return trials


@pytest.mark.parametrize(
    ("choice", "bands"),
    [
        (("x", "x"), ((1048576, "x"),)),
        (("", ""), ((1048576, ""),)),
        (("x", ""), ((8192, "x"), (1048576, ""))),
    ],
)
def test_the_last_measured_width_is_stretched_and_compiled_keys_are_kept(
    choice: Sequence[str], bands: tuple[tuple[int, str], ...]
) -> None:
    assert bands_of(evidence(whole(choice)), toy_catalog(), LIMITS, Rule.ENGINE) == {STRETCHED: bands}


def test_an_incomplete_key_gives_no_bands_and_says_what_is_missing() -> None:
    item = evidence(whole(("x", "x"))[:3])
    assert bands_of(item, toy_catalog(), LIMITS, Rule.ENGINE) == {}
    assert incomplete_keys(item, toy_catalog()) == {STRETCHED: "width 262144: no trial of ['x']"}
    assert complete_keys(evidence(whole(("", ""))), toy_catalog()) == (STRETCHED,)


def test_evidence_of_the_engine_is_taken_at_its_word() -> None:
    trials = [
        Trial(key=STRETCHED, width=8192, schedule=Schedule(""), outcome=Outcome.TIMED, first_us=(100.0,), chosen=True),
        Trial(key=STRETCHED, width=8192, schedule=Schedule("x"), outcome=Outcome.TIMED, first_us=(80.0,)),
        Trial(key=STRETCHED, width=262144, schedule=Schedule(""), outcome=Outcome.TIMED, first_us=(100.0,)),
        Trial(
            key=STRETCHED, width=262144, schedule=Schedule("x"), outcome=Outcome.TIMED, first_us=(75.0,), chosen=True
        ),
    ]
    item = evidence(trials, bench=BenchKind.ENGINE)
    assert bands_of(item, toy_catalog(), LIMITS, Rule.GUARDED) == {STRETCHED: ((8192, ""), (1048576, "x"))}
    decision = decide_points(item, toy_catalog(), LIMITS, Rule.GUARDED)[STRETCHED, 262144]
    assert (decision.reason, decision.gain) == ("x: stated by the engine's calibration", 0.25)


@given(st.floats(1.0, 120.0), st.floats(1.0, 120.0))
def test_guarded_never_takes_what_engine_refuses_when_one_candidate_is_eligible(first: float, second: float) -> None:
    item = noisy(timed("c", first, second), twin=101.5)
    assert not decide(item, Rule.GUARDED).schedule or decide(item, Rule.ENGINE).schedule == "c"


def test_a_twin_that_the_rule_would_take_counts_as_a_false_switch() -> None:
    assert false_switches(noisy(twin=90.0), toy_catalog(), LIMITS, Rule.ENGINE) == (1, 1)
    assert false_switches(noisy(twin=90.0), toy_catalog(), LIMITS, Rule.GUARDED) == (0, 1)
    assert false_switches(noisy(twin=99.0), toy_catalog(), LIMITS, Rule.ENGINE) == (0, 1)


def test_another_margin_gives_another_choice_from_the_same_samples() -> None:
    item = point(timed("c", 90.0, 90.0))
    assert decide_points(item, toy_catalog(), Limits(min_gain=0.11), Rule.ENGINE)[KEY, 1].schedule == ""
