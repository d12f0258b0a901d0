"""Why two runs decide a point differently."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.core.cause import Cause, Judged, causes, judged_as_recorded
from generator.core.evidence import Outcome
from generator.core.limits import LIMITS
from generator.core.recorded_rule import rule_facts
from generator.core.route import CatalogDigest
from generator.core.verdict import Rule
from tests.core.toy import KEY, evidence, other, point, timed, toy_catalog

if TYPE_CHECKING:
    from generator.core.evidence import Evidence

CATALOG = toy_catalog()
WON = point(timed("c", 90.0, 90.0))
LOST = point(timed("c", 99.0))


def found(old: Evidence, new: Evidence, old_rule: Rule = Rule.ENGINE, new_rule: Rule = Rule.ENGINE) -> dict[str, str]:
    before = Judged(evidence=old, limits=LIMITS, rule=old_rule)
    after = Judged(evidence=new, limits=LIMITS, rule=new_rule)
    return {f"{key} {width}": str(item) for (key, width), item in causes(before, after, CATALOG).items()}


def test_equal_choices_have_no_cause() -> None:
    assert found(WON, WON) == {}
    assert found(WON, point(timed("c", 80.0, 80.0))) == {}


def test_other_times_are_named_with_both_ratios() -> None:
    assert found(WON, LOST) == {f"{KEY} 1": "times changed: compiled took 1.111 and then 1.010 of c's time"}


def test_a_choice_that_crossed_the_margin_without_moving_is_a_tie() -> None:
    old, new = point(timed("c", 96.9, 96.9)), point(timed("c", 97.5))
    assert found(old, new) == {f"{KEY} 1": "tie: compiled took 1.032 and then 1.026 of c's time, as near as 0.015"}


def test_a_point_that_one_run_alone_decides_is_coverage() -> None:
    none = evidence([])
    assert found(none, WON) == {f"{KEY} 1": "coverage: the old run decides nothing here (not measured)"}
    assert found(WON, none) == {f"{KEY} 1": "coverage: the new run decides nothing here (not measured)"}
    assert found(none, LOST) == {}
    broken = evidence([other("", Outcome.FAILED, "illegal address")])
    assert found(WON, broken) == {
        f"{KEY} 1": "coverage: the new run decides nothing here (compiled failed: illegal address)"
    }


def test_another_digest_explains_before_times_do() -> None:
    (facts,) = LOST.keys
    listed = replace(LOST, keys=(replace(facts, digest=CatalogDigest("0123456789abcdef")),))
    assert found(WON, listed) == {f"{KEY} 1": f"candidates changed: digest {facts.digest} became 0123456789abcdef"}
    built = replace(LOST, keys=(replace(facts, kernels="0123456789abcdef0"),))
    assert found(WON, built) == {f"{KEY} 1": "kernels changed: digest k became 0123456789abcdef"}


def test_a_refused_or_failed_winner_is_named_with_its_reason() -> None:
    refused = point(other("c", Outcome.REFUSED, "differs by 0.2"))
    assert found(WON, refused) == {f"{KEY} 1": "refused for output: c in the new run: differs by 0.2"}
    assert found(refused, WON) == {f"{KEY} 1": "refused for output: c in the old run: differs by 0.2"}
    failed = point(other("c", Outcome.TIMED_OUT, ""))
    assert found(WON, failed) == {f"{KEY} 1": "failed: c in the new run: timed out"}


def test_another_board_or_driver_is_named_where_times_moved() -> None:
    old, new = (
        replace(item, device=replace(item.device, uuid_hash=name)) for item, name in ((WON, "one"), (LOST, "two"))
    )
    assert found(old, new) == {f"{KEY} 1": "other board: compiled took 1.111 and then 1.010 of c's time"}
    updated = replace(LOST, run={**LOST.run, "cuda_driver": 13010})
    assert found(WON, updated) == {
        f"{KEY} 1": "driver changed: compiled took 1.111 and then 1.010 of c's time; CUDA driver 13000 became 13010"
    }


def _noisy(second: float) -> Evidence:
    """A key whose twin differs by 4 %, so that rule guarded keeps what rule engine takes at a gain of 5 %."""
    return evidence(
        [timed("", 100.0, 100.0), timed("", 104.0, 104.0, twin=True), timed("c", second, second)],
    )


def test_swapping_one_input_at_a_time_tells_rule_from_samples() -> None:
    engine, guarded = Rule.ENGINE, Rule.GUARDED
    alone = "the new rule gives this choice on the old samples too, the old rule on the new ones does not"
    assert found(_noisy(95.0), _noisy(95.0), engine, guarded) == {f"{KEY} 1": f"rule changed: {alone}"}
    either = "the new rule or the new samples alone give this choice"
    assert found(_noisy(95.0), _noisy(99.0), engine, guarded) == {f"{KEY} 1": f"rule changed: {either}"}
    both = "only the new rule on the new samples gives this choice"
    assert found(_noisy(99.0), _noisy(95.0), guarded, engine) == {f"{KEY} 1": f"rule changed: {both}"}
    samples = "compiled took 1.250 and then 1.010 of c's time"
    assert found(_noisy(80.0), _noisy(99.0), engine, guarded) == {f"{KEY} 1": f"times changed: {samples}"}


def test_evidence_is_judged_by_the_rule_it_records() -> None:
    stricter = replace(LIMITS, min_gain=0.2)
    judged = judged_as_recorded(replace(WON, rule=rule_facts(Rule.GUARDED, stricter)))
    assert (judged.rule, judged.limits) == (Rule.GUARDED, stricter)
    assert causes(judged, replace(judged, limits=LIMITS), CATALOG)[KEY, 1].cause is Cause.RULE


def test_a_choice_that_was_kept_is_a_tie_although_times_moved() -> None:
    """The later run finds c faster than b too, but not by the margin over what it found stored."""
    earlier = replace(timed("b", 95.0, 95.0), earlier=True)
    samples = point(timed("b", 99.0, 99.0), timed("c", 92.0, 92.0)), point(earlier, timed("c", 92.5, 92.5))
    old, new = (Judged(evidence=item, limits=LIMITS, rule=Rule.GUARDED) for item in samples)
    assert [item.decide(CATALOG)[KEY, 1].schedule for item in (old, new)] == ["c", "b"]
    assert str(causes(old, new, CATALOG)[KEY, 1]) == (
        "tie: b took 1.076 and then 1.027 of c's time; the new run keeps the choice that it found stored"
    )
