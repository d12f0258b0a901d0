"""Reports over evidence: efficiency, flips, regret."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ninfer_device_profiles.bands import Band

from generator.core.evidence import Evidence, Outcome
from generator.core.evidence_report import (
    efficiencies,
    efficiency_markdown,
    flip_json,
    flips,
    flips_markdown,
    regret_markdown,
    regrets,
    settled_changes,
)
from generator.core.limits import LIMITS
from generator.core.verdict import Rule
from tests.core.toy import KEY, evidence, other, point, timed, toy_catalog

CATALOG = toy_catalog()


def with_floor(item: Evidence, floor_us: float) -> Evidence:
    trials = tuple(replace(trial, floor_us=floor_us) for trial in item.trials)
    return replace(item, trials=trials, run={**item.run, "read_bytes_per_us": 4_000_000.0})


def test_efficiency_is_the_fastest_time_against_the_floor() -> None:
    (found,) = efficiencies(with_floor(point(timed("c", 50.0)), 42.0))
    assert (found.schedule, found.best_us, found.floor_bytes) == ("c", 50.0, 168_000_000.0)
    assert found.share == pytest.approx(0.84)
    assert found.aim == 0.80
    assert "| `toy/1x1` | 1 | `c` | 50.0 | 42.0 | 168.0 | 3360 | 84% | yes |" in efficiency_markdown(
        with_floor(point(timed("c", 50.0)), 42.0)
    )


@pytest.mark.parametrize(
    ("floor_us", "aim"), [(37.5, 0.80), (37.4, None), (15.0, 0.55), (15.1, None), (5.0, 0.55), (4.9, None)]
)
def test_aims_depend_on_the_bytes(floor_us: float, aim: float | None) -> None:
    assert efficiencies(with_floor(point(), floor_us))[0].aim == aim


def test_the_same_samples_do_not_flip_whatever_was_stored_when_they_were_taken() -> None:
    """Nor does a memory hide a flip: the first figure says how well a measurement repeats."""
    b, c = timed("b", 95.0, 95.0), timed("c", 92.5, 92.5)
    own, kept = point(b, c), point(replace(b, earlier=True), c)
    assert flips(own, kept, CATALOG, LIMITS, Rule.GUARDED) == ((), 1)
    near = point(replace(b, earlier=True), replace(c, first_us=(99.0,) * 11, second_us=()))
    assert [item.second for item in flips(own, near, CATALOG, LIMITS, Rule.GUARDED)[0]] == ["b"]
    assert settled_changes(kept, near, CATALOG, LIMITS) == 0


def test_flips_name_both_answers_and_both_reasons() -> None:
    first, second = point(timed("c", 90.0, 90.0)), point(timed("c", 97.5))
    found, cells = flips(first, second, CATALOG, LIMITS, Rule.GUARDED)
    assert cells == 1
    assert (found[0].first, found[0].second) == ("c", "")
    assert flip_json(found[0])["cause"] == {
        "kind": "times changed",
        "reason": "compiled took 1.111 and then 1.026 of c's time",
    }
    text = flips_markdown(first, second, CATALOG, LIMITS)
    assert "1 of 1 cells differ (100.00%). Hidden twins switched: 0 of 2." in text
    assert (
        "| `toy/1x1` | 1 | `c` | `compiled` | times changed: "
        "compiled took 1.111 and then 1.026 of c's time | c: gain 0.100 in the second pass | "
        "c: gain 0.025 in the first pass, needs more than 0.03 |"
    ) in text
    assert flips(first, first, CATALOG, LIMITS, Rule.ENGINE) == ((), 1)


def test_regret_is_the_loss_against_the_fastest() -> None:
    item = point(timed("c", 80.0), other("a", Outcome.SAME, "same"))
    (kept,) = regrets(item, CATALOG, {})
    assert (kept.chosen, kept.fastest) == ("", "c")
    assert kept.share == pytest.approx(0.25)
    (right,) = regrets(item, CATALOG, {KEY: (Band(1, "c"),)})
    assert right.share == 0.0
    (same,) = regrets(item, CATALOG, {KEY: (Band(1, "a"),)})
    assert same.share == pytest.approx(0.25)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.IMPOSSIBLE])
def test_samples_of_what_failed_are_no_time(outcome: Outcome) -> None:
    """A candidate that was lost in the second pass keeps those of the first; a compiled route that was, too."""
    lost = replace(timed("c", 80.0), outcome=outcome)
    (found,) = regrets(point(lost), CATALOG, {KEY: (Band(1, "c"),)})
    assert (found.chosen_us, found.share, found.fastest) == (None, None, "")
    assert regrets(evidence([replace(timed("", 100.0), outcome=outcome)]), CATALOG, {}) == ()


def test_a_choice_that_was_refused_has_no_time_and_leads_the_report() -> None:
    item = point(other("c", Outcome.REFUSED, "differs"))
    found = regrets(item, CATALOG, {KEY: (Band(1, "c"),)})
    assert found[0].share is None
    assert regret_markdown(found, "a table").splitlines()[2] == (
        "1 points; mean loss 0.00%, largest 0.00%; 1 choices could not be timed."
    )
