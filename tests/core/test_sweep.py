"""The sweep over a made-up Bench: order, what is not timed, resuming, replaying, false switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.core.bench import BASE, TWIN, Bench, Subject
from generator.core.evidence import Evidence, KeyFacts, Outcome, Trial
from generator.core.evidence_file import dump_evidence, load_evidence
from generator.core.limits import LIMITS
from generator.core.recorded_rule import recorded_rule, rule_facts
from generator.core.route import Point, RouteKey, Schedule
from generator.core.settle import earlier_choices
from generator.core.sweep import KeyResult, Sweep
from generator.core.verdict import Rule, false_switches
from generator.errors import EvidenceError
from generator.replay import ReplayBench
from tests.core.fake_bench import FakeBench, Truth
from tests.core.toy import KEY, STRETCHED, SWITCH, toy_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG = toy_catalog()


def run(
    bench: Bench,
    rule: Rule = Rule.GUARDED,
    finished: Mapping[RouteKey, tuple[KeyFacts, tuple[Trial, ...]]] | None = None,
    done: list[KeyResult] | None = None,
    earlier: Mapping[Point, Schedule] | None = None,
    *,
    afresh: bool = False,
) -> list[KeyResult]:
    sweep = Sweep(
        catalog=CATALOG, limits=LIMITS, rule=rule, finished=finished or {}, earlier=earlier or {}, afresh=afresh
    )
    results = [] if done is None else done
    results.extend(sweep.keys(CATALOG.calibrated, bench, lambda _key, _width: None))
    return results


def gathered(bench: Bench, results: list[KeyResult], rule: Rule = Rule.GUARDED) -> Evidence:
    facts = bench.facts()
    return Evidence(
        bench=facts.kind,
        catalog=CATALOG.digest(),
        device=facts.device,
        rule=rule_facts(rule, LIMITS),
        run=facts.run,
        keys=tuple(result.facts for result in results),
        trials=tuple(trial for result in results for trial in result.trials),
    )


def bands(results: list[KeyResult]) -> dict[str, tuple[tuple[int, str], ...]]:
    return {result.facts.key: tuple((band.last, band.schedule) for band in result.bands) for result in results}


FAST_C: Truth = {(KEY, width, "c"): 80.0 for width in (1, 8)}


def test_winners_become_bands_and_keys_come_in_the_engines_order() -> None:
    results = run(FakeBench(CATALOG, {**FAST_C, (STRETCHED, 262144, "x"): 50.0}))
    assert bands(results) == {
        KEY: ((8, "c"),),
        STRETCHED: ((8192, ""), (1048576, "x")),
        SWITCH: ((1, ""),),
    }
    assert [result.facts.key for result in results] == [KEY, STRETCHED, SWITCH]


def test_a_finished_keys_winner_is_installed_before_the_next_key() -> None:
    faster: Truth = {(SWITCH, 1, "unified"): 10.0}
    assert bands(run(FakeBench(CATALOG, {**FAST_C, **faster})))[SWITCH] == ((1, "unified"),)
    assert bands(run(FakeBench(CATALOG, faster)))[SWITCH] == ((1, ""),)


def test_the_compiled_launch_and_an_illegal_width_are_not_timed() -> None:
    bench = FakeBench(CATALOG)
    trials = {(trial.width, str(trial.schedule)): trial for trial in run(bench)[0].trials if not trial.twin}
    assert [asked[2] for asked in bench.asked[:2]] == [
        (BASE, Subject(Schedule("b")), Subject(Schedule("c")), TWIN),
        (BASE, Subject(Schedule("c")), TWIN),
    ]
    assert (trials[8, "a"].outcome, trials[8, "a"].reason) == (Outcome.SAME, "same")
    assert (trials[8, "b"].outcome, trials[8, "b"].reason) == (Outcome.INELIGIBLE, "legal from width 1 to 4")


def test_a_refused_output_is_recorded_and_cannot_win() -> None:
    results = run(FakeBench(CATALOG, FAST_C, refused=frozenset({(KEY, "c")})))
    assert bands(results)[KEY] == ((8, ""),)
    assert {trial.outcome for trial in results[0].trials if trial.schedule == "c"} == {Outcome.REFUSED}


@pytest.mark.parametrize(("floor", "outcome"), [(84.2, Outcome.TIMED), (84.3, Outcome.IMPOSSIBLE)])
def test_a_time_that_memory_cannot_deliver_is_impossible(floor: float, outcome: Outcome) -> None:
    results = run(FakeBench(CATALOG, FAST_C, floor=floor))
    (trial,) = [trial for trial in results[0].trials if trial.schedule == "c" and trial.width == 8]
    assert trial.outcome is outcome


@pytest.mark.parametrize(
    ("us", "samples"),
    [(96.5, 11), (96.7, 44), (96.85, 176), (96.95, 440), (97.05, 440), (97.15, 176), (97.3, 44), (97.5, 11)],
)
def test_a_gain_near_the_margin_is_timed_further(us: float, samples: int) -> None:
    (trial,) = [
        trial
        for trial in run(FakeBench(CATALOG, {(KEY, 8, "c"): us}))[0].trials
        if trial.schedule == "c" and trial.width == 8
    ]
    assert len(trial.first_us) == samples


def test_contenders_near_each_other_are_timed_further_unless_they_take_long() -> None:
    def samples(scale: float) -> set[int]:
        truth: Truth = {(KEY, 1, "a"): 100.0 * scale, (KEY, 1, "b"): 81.0 * scale, (KEY, 1, "c"): 80.0 * scale}
        trials = run(FakeBench(CATALOG, truth))[0].trials
        return {len(trial.first_us) for trial in trials if trial.width == 1 and trial.schedule in {"b", "c"}}

    assert samples(1.0) == {44}
    assert samples(10.1) == {11}


def test_the_second_pass_grows_with_the_first_and_the_twin_is_not_timed_further() -> None:
    trials = run(FakeBench(CATALOG, {(KEY, 8, "c"): 96.95}))[0].trials
    compiled, twin, rival = (
        next(item for item in trials if item.width == 8 and (item.schedule, item.twin) == subject)
        for subject in (BASE, TWIN, Subject(Schedule("c")))
    )
    assert [len(item.first_us) for item in (compiled, rival, twin)] == [440, 440, 11]
    assert [[len(samples) for samples in item.second_us] for item in (compiled, rival, twin)] == [[55, 55]] * 3


def test_an_impossible_time_says_both_times() -> None:
    results = run(FakeBench(CATALOG, FAST_C, floor=90.0))
    (trial,) = [trial for trial in results[0].trials if trial.schedule == "c" and trial.width == 8]
    assert trial.reason == "80.00 us is under the 90.00 us that memory needs for the operation's bytes"
    assert bands(results)[KEY] == ((8, ""),)


@given(seed=st.integers(0, 2**32), stop=st.sampled_from([(KEY, 8), (STRETCHED, 8192), (SWITCH, 1)]))
@settings(max_examples=20)
def test_an_interrupted_run_resumes_to_the_same_evidence(seed: int, stop: tuple[str, int]) -> None:
    truth: Truth = {**FAST_C, (SWITCH, 1, "unified"): 90.0}
    whole = run(FakeBench(CATALOG, truth, seed=seed, spread=0.02))
    done: list[KeyResult] = []
    with pytest.raises(KeyboardInterrupt):
        run(FakeBench(CATALOG, truth, seed=seed, spread=0.02, fail_at=stop), done=done)
    finished = {result.facts.key: (result.facts, result.trials) for result in done}
    bench = FakeBench(CATALOG, truth, seed=seed, spread=0.02)
    resumed = run(bench, finished=finished)
    assert dump_evidence(gathered(bench, resumed)) == dump_evidence(gathered(bench, whole))
    assert bands(resumed) == bands(whole)
    assert {asked[0] for asked in bench.asked}.isdisjoint(finished)


@given(
    seed=st.integers(0, 2**32),
    rule=st.sampled_from(Rule),
    spread=st.sampled_from([0.0, 0.01, 0.05]),
    times=st.lists(st.floats(40.0, 160.0), min_size=6, max_size=6),
)
@settings(max_examples=30)
def test_a_replay_gives_the_same_bytes(seed: int, rule: Rule, spread: float, times: list[float]) -> None:
    names = [(KEY, 1, "b"), (KEY, 1, "c"), (KEY, 8, "c"), (STRETCHED, 8192, "x"), (SWITCH, 1, "unified"), (KEY, 8, "a")]
    truth: Truth = dict(zip(names, times, strict=True))
    bench = FakeBench(CATALOG, truth, seed=seed, spread=spread, floor=50.0)
    results = run(bench, rule)
    text = dump_evidence(gathered(bench, results, rule))
    replay = ReplayBench(load_evidence(text, "e.json"), "e.json")
    replayed = run(replay, rule)
    assert dump_evidence(gathered(replay, replayed, rule)) == text
    assert bands(replayed) == bands(results)


def test_a_replay_of_a_key_that_was_not_measured_says_so() -> None:
    bench = FakeBench(CATALOG)
    replay = ReplayBench(gathered(bench, run(bench)[:1]), "e.json")
    with pytest.raises(EvidenceError) as caught:
        run(replay)
    assert str(caught.value) == ("e.json: no trials of 'toy/stretched'; replay with --only, or measure the key first")


@pytest.mark.parametrize(("rule", "most"), [(Rule.ENGINE, 0.02), (Rule.GUARDED, 0.005)])
def test_equal_schedules_rarely_switch(rule: Rule, most: float) -> None:
    """Three per cent noise a sample: a median of eleven then varies by about one per cent."""
    cells = switched = twins = judged = 0
    for seed in range(150):
        bench = FakeBench(CATALOG, seed=seed, spread=0.03)
        results = run(bench, rule)
        decisions = [decision for result in results for decision in result.decisions]
        cells += len(decisions)
        switched += sum(decision.schedule != "" for decision in decisions)
        taken, seen = false_switches(gathered(bench, results), CATALOG, LIMITS, rule)
        twins, judged = twins + taken, judged + seen
    assert cells == judged == 750
    assert switched / cells <= most
    assert twins / judged <= most


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_a_key_measured_alone_gives_what_it_gives_in_a_whole_run(seed: int) -> None:
    whole = {result.facts.key: result for result in run(FakeBench(CATALOG, FAST_C, seed=seed, spread=0.02))}
    sweep = Sweep(catalog=CATALOG, limits=LIMITS, rule=Rule.GUARDED)
    for key in (KEY, STRETCHED):
        bench = FakeBench(CATALOG, FAST_C, seed=seed, spread=0.02)
        (alone,) = sweep.keys([CATALOG.route(key)], bench, lambda _key, _width: None)
        assert alone == whole[key]


NEAR: Truth = {(KEY, 8, "c"): 97.5}
BEFORE = {(KEY, 8): Schedule("c"), (KEY, 1): Schedule("")}


def test_a_stored_choice_stays_where_the_samples_do_not_tell_and_is_recorded() -> None:
    results = run(FakeBench(CATALOG, NEAR), earlier=BEFORE)
    assert bands(results)[KEY] == ((1, ""), (8, "c"))
    marked = {(trial.width, trial.schedule) for result in results for trial in result.trials if trial.earlier}
    assert marked == {(8, "c"), (1, "")}
    assert bands(run(FakeBench(CATALOG, NEAR)))[KEY] == ((8, ""),)


def test_a_run_afresh_records_the_stored_choice_and_decides_without_it() -> None:
    results = run(FakeBench(CATALOG, NEAR), earlier=BEFORE, afresh=True)
    assert bands(results)[KEY] == ((8, ""),)
    assert any(trial.earlier for result in results for trial in result.trials)


def test_rule_engine_knows_no_stored_choice() -> None:
    assert bands(run(FakeBench(CATALOG, NEAR), Rule.ENGINE, earlier=BEFORE))[KEY] == ((8, ""),)


def test_a_clear_win_and_a_clear_loss_overrule_the_stored_choice() -> None:
    assert bands(run(FakeBench(CATALOG, FAST_C), earlier=dict.fromkeys(BEFORE, Schedule(""))))[KEY] == ((8, "c"),)
    assert bands(run(FakeBench(CATALOG, {(KEY, 8, "c"): 99.0}), earlier=BEFORE))[KEY] == ((8, ""),)


@settings(max_examples=25)
@given(st.integers(0, 9), st.sampled_from(["", "a", "b", "c", "gone"]), st.floats(94.0, 99.0))
def test_a_run_over_an_entry_replays_to_the_same_bytes(seed: int, old: str, us: float) -> None:
    earlier = dict.fromkeys(BEFORE, Schedule(old))
    bench = FakeBench(CATALOG, {(KEY, 8, "c"): us}, seed=seed, spread=0.004)
    first = gathered(bench, run(bench, earlier=earlier))
    text = dump_evidence(first)
    replay = ReplayBench(load_evidence(text, "first"), "first")
    again = run(replay, earlier=earlier_choices(load_evidence(text, "first")))
    assert dump_evidence(gathered(replay, again)) == text
    assert bands(again) == bands(run(FakeBench(CATALOG, {(KEY, 8, "c"): us}, seed=seed, spread=0.004), earlier=earlier))


@settings(max_examples=25)
@given(st.integers(0, 9), st.floats(94.0, 99.0))
def test_a_second_run_over_the_first_ones_entry_changes_no_tie(seed: int, us: float) -> None:
    truth: Truth = {(KEY, width, "c"): us for width in (1, 8)}
    first = run(FakeBench(CATALOG, truth, seed=seed, spread=0.003))
    earlier = {(d.key, d.width): d.schedule for result in first for d in result.decisions}
    second = run(FakeBench(CATALOG, truth, seed=seed + 100, spread=0.003), earlier=earlier)
    assert bands(second) == bands(first)


B, C = Subject(Schedule("b")), Subject(Schedule("c"))


def test_what_fails_in_the_second_pass_fails_the_point_and_the_next_best_wins() -> None:
    truth: Truth = {(KEY, 1, "b"): 82.0, (KEY, 1, "c"): 80.0, (KEY, 8, "c"): 80.0}
    bench = FakeBench(CATALOG, truth, dies=frozenset({("second pass", C)}))
    results = run(bench, earlier=dict.fromkeys(BEFORE, Schedule("c")))
    trials = {(item.width, str(item.schedule)): item for item in results[0].trials if not item.twin}
    for width in (1, 8):
        lost = trials[width, "c"]
        assert (lost.outcome, lost.reason, len(lost.first_us)) == (Outcome.FAILED, "lost in second pass", 11)
        assert lost.second_us == ()
    assert len(trials[1, "b"].second_us) == 2
    assert bands(results)[KEY] == ((1, "b"), (8, ""))


def test_a_rival_that_is_lost_while_timed_further_is_no_winner() -> None:
    truth: Truth = {(KEY, 1, "b"): 80.5, (KEY, 1, "c"): 80.0}
    results = run(FakeBench(CATALOG, truth, dies=frozenset({("more", C), ("second pass", C)})))
    trials = {str(item.schedule): item for item in results[0].trials if item.width == 1 and not item.twin}
    assert (trials["c"].outcome, trials["c"].reason, len(trials["c"].first_us)) == (Outcome.FAILED, "lost in more", 11)
    assert [len(samples) for samples in (trials["b"].first_us, *trials["b"].second_us)] == [11, 11, 11]
    assert results[0].decisions[0].schedule == "b"


@given(
    seed=st.integers(0, 99),
    dies=st.frozensets(st.tuples(st.sampled_from(["more", "second pass"]), st.sampled_from([BASE, B, C, TWIN]))),
    us=st.sampled_from([80.0, 96.5, 97.0, 97.4]),
)
@settings(max_examples=40)
def test_whatever_is_lost_a_replay_gives_the_same_bytes(
    seed: int, dies: frozenset[tuple[str, Subject]], us: float
) -> None:
    truth: Truth = {(KEY, 1, "b"): us + 0.2, (KEY, 1, "c"): us, (KEY, 8, "c"): us, (STRETCHED, 8192, "x"): us}
    bench = FakeBench(CATALOG, truth, seed=seed, spread=0.003, dies=dies)
    results = run(bench, earlier={(KEY, 1): Schedule("c"), (KEY, 8): Schedule("c")})
    text = dump_evidence(gathered(bench, results))
    replay = ReplayBench(load_evidence(text, "e"), "e")
    replayed = run(replay, earlier=earlier_choices(load_evidence(text, "e")))
    assert dump_evidence(gathered(replay, replayed)) == text
    assert bands(replayed) == bands(results)
    timed = {(t.key, t.width, t.schedule) for r in results for t in r.trials if t.outcome is Outcome.TIMED}
    chosen = {(d.key, d.width, d.schedule) for r in results for d in r.decisions if d.schedule}
    assert chosen <= timed


@pytest.mark.parametrize("us", [80.0, 96.9])
def test_the_stored_choice_is_timed_beside_what_may_replace_it(us: float) -> None:
    """b is not near the best, nor has it won; without the entry it has the first samples alone."""
    truth: Truth = {(KEY, 1, "b"): 99.0, (KEY, 1, "c"): us}

    def counts(earlier: str) -> dict[str, list[int]]:
        trials = run(FakeBench(CATALOG, truth), earlier={(KEY, 1): Schedule(earlier)})[0].trials
        return {
            str(item.schedule): [len(samples) for samples in (item.first_us, *item.second_us)]
            for item in trials
            if item.width == 1 and item.schedule in {"b", "c"} and not item.twin
        }

    assert counts("")["b"] == [11]
    assert counts("b")["b"] == counts("b")["c"] == counts("")["c"]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_time_at_the_floor_is_judged_by_all_its_samples_as_a_replay_judges_it(seed: int) -> None:
    bench = FakeBench(CATALOG, {(KEY, 8, "c"): 97.0}, seed=seed, spread=0.01, floor=97.0 / LIMITS.floor_share)
    results = run(bench)
    text = dump_evidence(gathered(bench, results))
    replay = ReplayBench(load_evidence(text, "e"), "e")
    replayed = run(replay)
    assert dump_evidence(gathered(replay, replayed)) == text
    assert bands(replayed) == bands(results)


@given(
    seed=st.integers(0, 99),
    samples=st.sampled_from([3, 4, 11, 100, 440, 441, 700]),
    margin=st.sampled_from([0.0, 0.001, 0.03, 0.5, 0.99]),
    spread=st.sampled_from([0.0, 0.01, 0.2]),
    rule=st.sampled_from(Rule),
)
@settings(max_examples=30, deadline=None)
def test_any_repeat_and_margin_end_with_bounded_samples_and_replay(
    seed: int, samples: int, margin: float, spread: float, rule: Rule
) -> None:
    limits = replace(LIMITS, samples=samples, min_gain=margin)
    truth: Truth = {(KEY, 1, "b"): 97.2, (KEY, 1, "c"): 97.0, (KEY, 8, "c"): 100 * (1 - margin) + 0.01}
    bench = FakeBench(CATALOG, truth, seed=seed, spread=spread, limits=limits)
    sweep = Sweep(catalog=CATALOG, limits=limits, rule=rule, earlier=BEFORE)
    results = list(sweep.keys(CATALOG.calibrated, bench, lambda _key, _width: None))
    evidence = replace(gathered(bench, results, rule), rule=rule_facts(rule, limits))
    most = max(samples, limits.most_samples)
    assert max(len(trial.first_us) for trial in evidence.trials) <= most
    rounds = [len(taken) for trial in evidence.trials for taken in trial.second_us]
    assert max(rounds, default=0) <= max(samples, most // limits.second_pass_part)
    found = load_evidence(dump_evidence(evidence), "e")
    again, numbers = recorded_rule(found)
    assert (again, numbers) == (rule, limits)
    replay = ReplayBench(found, "e")
    sweep = Sweep(catalog=CATALOG, limits=numbers, rule=again, earlier=earlier_choices(found))
    replayed = list(sweep.keys(CATALOG.calibrated, replay, lambda _key, _width: None))
    assert dump_evidence(replace(gathered(replay, replayed, again), rule=found.rule)) == dump_evidence(evidence)
    assert bands(replayed) == bands(results)
