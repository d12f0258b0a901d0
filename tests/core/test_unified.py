"""The two-round rule: every verdict, both sides of every limit, and the bands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ninfer_device_profiles.bands import Band

from generator.core.cases import Grid
from generator.core.limits import UnifiedLimits
from generator.core.rounds import Round, Table
from generator.core.unified import Decision, Verdict, describe_rule, moved, select
from generator.errors import EvidenceError
from tests.core.unified_rounds import (
    CASES,
    CONDITIONS,
    DEVICE,
    KEY,
    LARGE,
    SMALL,
    both,
    make_round,
    times_of,
    two_rounds,
)

WINS = {**both(16, 100, 90), **both(20, 200, 180), **both(24, 300, 330), **both(28, 400, 380), **both(32, 500, 450)}


def _decide(*rounds: Round, limits: UnifiedLimits | None = None, grid: Grid | None = None) -> dict[int, Decision]:
    selection = select(rounds, CASES, limits or UnifiedLimits(), grid or Grid())[DEVICE]
    return {item.width: item for item in selection.keys[KEY].decisions}


def _bands(*rounds: Round, limits: UnifiedLimits | None = None, grid: Grid | None = None) -> tuple[Band, ...] | None:
    return select(rounds, CASES, limits or UnifiedLimits(), grid or Grid())[DEVICE].bands.get(KEY)


def test_bands_run_from_first_to_last_qualifying_width_with_compiled_ending_one_below() -> None:
    assert _bands(*two_rounds(WINS)) == (Band(15, ""), Band(20, "unified"), Band(27, ""), Band(32, "unified"))


def test_a_band_from_width_1_has_no_compiled_band_in_front() -> None:
    assert _bands(*two_rounds({**both(1, 100, 90), **both(2, 100, 90)})) == (Band(2, "unified"),)


def test_a_qualifying_width_names_its_gain_and_its_worst_case() -> None:
    times = {(SMALL, 16): (100.0, 80.0), (LARGE, 16): (100.0, 100.0), **both(20, 100, 90)}
    decision = _decide(*two_rounds(times))[16]
    assert decision.verdict is Verdict.QUALIFIES
    assert decision.reason == "gain 1.1180 over 2 cases, fp8 5120x17408 a16 takes 1.0000 times the legacy time"


def test_rounds_are_averaged_before_they_are_compared() -> None:
    first = {**both(16, 100, 104), **both(20, 100, 90)}
    second = {**both(16, 120, 108), **both(20, 100, 90)}
    decision = _decide(*two_rounds(first, second))[16]
    assert decision.verdict is Verdict.QUALIFIES
    assert decision.gain == pytest.approx(220 / 212)


@pytest.mark.parametrize(
    ("unified", "verdict"), [(100.0, Verdict.QUALIFIES), (100.001, Verdict.GAIN), (99.999, Verdict.QUALIFIES)]
)
def test_a_gain_of_exactly_3_percent_qualifies(unified: float, verdict: Verdict) -> None:
    times = {**both(16, 103, unified), **both(20, 103, 90)}
    assert _decide(*two_rounds(times))[16].verdict is verdict


def test_a_geometric_mean_of_exactly_3_percent_qualifies_although_no_single_case_has_it() -> None:
    times = {(SMALL, 16): (106.09, 100.0), (LARGE, 16): (100.0, 100.0), **both(20, 103, 90)}
    assert _decide(*two_rounds(times))[16].verdict is Verdict.QUALIFIES
    short = {**times, (LARGE, 16): (100.0, 100.001)}
    decision = _decide(*two_rounds(short), limits=UnifiedLimits(tick_us=0))[16]
    assert (decision.verdict, decision.reason) == (Verdict.GAIN, "gain 1.0300 over 2 cases is under 1.03")


@pytest.mark.parametrize(
    ("unified", "verdict"), [(103.0, Verdict.QUALIFIES), (103.001, Verdict.SLOWER), (102.999, Verdict.QUALIFIES)]
)
def test_a_case_slower_by_exactly_3_percent_does_no_harm(unified: float, verdict: Verdict) -> None:
    times = {(SMALL, 16): (100.0, 50.0), (LARGE, 16): (100.0, unified), **both(20, 103, 90)}
    assert _decide(*two_rounds(times))[16].verdict is verdict


def test_a_slower_case_is_named_with_its_value() -> None:
    times = {(SMALL, 16): (100.0, 50.0), (LARGE, 16): (100.0, 110.0), **both(20, 103, 90)}
    decision = _decide(*two_rounds(times))[16]
    assert decision.reason == "fp8 5120x17408 a16 takes 1.1000 times the legacy time, more than 1.03; gain 1.3484"
    assert decision.worst_case == "fp8 5120x17408 a16"
    assert decision.worst_loss == pytest.approx(1.1)


@pytest.mark.parametrize(("unified", "verdict"), [(18.0, Verdict.QUALIFIES), (18.001, Verdict.TIE)])
def test_a_difference_of_exactly_one_tick_counts(unified: float, verdict: Verdict) -> None:
    times = {**both(16, 20, unified), **both(20, 20, 10)}
    assert _decide(*two_rounds(times))[16].verdict is verdict


def test_the_tick_counts_against_the_averages_of_the_rounds() -> None:
    first, second = both(16, 20.1, 18.1), both(16, 20.3, 18.3)
    decisions = _decide(*two_rounds({**first, **both(20, 20, 10)}, {**second, **both(20, 20, 10)}))
    assert decisions[16].verdict is Verdict.QUALIFIES


def test_a_tie_is_said_where_the_tick_alone_decides() -> None:
    alone = _decide(*two_rounds({**both(16, 20, 19), **both(20, 20, 10)}))[16]
    assert (alone.verdict, alone.reason) == (Verdict.TIE, "2 cases, every one within one tick of 2 us")
    times = {(SMALL, 16): (20.0, 18.5), (LARGE, 16): (100.0, 97.0), **both(20, 20, 10)}
    mixed = _decide(*two_rounds(times))[16]
    assert (mixed.verdict, mixed.reason) == (
        Verdict.TIE,
        "gain 1.0153 is under 1.03 because 1 of 2 cases are within one tick of 2 us",
    )


def test_a_slow_case_within_the_tick_is_a_tie_too() -> None:
    times = {(SMALL, 16): (100.0, 80.0), (LARGE, 16): (10.0, 11.9), **both(20, 20, 10)}
    assert _decide(*two_rounds(times))[16].verdict is Verdict.QUALIFIES


def test_one_width_alone_makes_no_band() -> None:
    rounds = two_rounds({**both(8, 100, 110), **both(16, 100, 90), **both(20, 100, 110)})
    decision = _decide(*rounds)[16]
    assert decision.verdict is Verdict.ALONE
    assert decision.reason == (
        "gain 1.1111 over 2 cases, fp8 5120x17408 a16 takes 0.9000 times the legacy time; "
        "a band needs 2 qualifying widths in a row, here 1"
    )
    assert _bands(*rounds) == ()
    assert _bands(*rounds, limits=UnifiedLimits(least_widths=1)) == (Band(15, ""), Band(16, "unified"))


def test_a_missing_round_decides_nothing() -> None:
    one = two_rounds(WINS)[0]
    decision = _decide(one)[16]
    assert (decision.verdict, decision.reason) == (
        Verdict.ROUND_MISSING,
        "round 2 is not there; 2 rounds are needed",
    )
    assert _bands(one) is None


def test_a_round_without_the_key_decides_nothing() -> None:
    one, two = two_rounds(WINS)
    decision = _decide(one, replace(two, times=()))[16]
    assert (decision.verdict, decision.reason) == (
        Verdict.ROUND_MISSING,
        "round 2 holds no cold time of this key's cases; 2 rounds are needed",
    )


def test_a_missing_table_decides_nothing() -> None:
    one, two = two_rounds(WINS)
    two = replace(two, times=tuple(time for time in two.times if time.table is Table.LEGACY))
    decision = _decide(one, two)[16]
    assert (decision.verdict, decision.reason) == (
        Verdict.TABLE_MISSING,
        "round 2 holds no cold time of unified/fp8_linear_add with table 'unified'",
    )
    assert _bands(one, two) is None


def test_a_missing_case_takes_its_width_out_and_parts_the_band() -> None:
    one, two = two_rounds({**both(16, 100, 90), **both(20, 100, 90), **both(24, 100, 90), **both(28, 100, 90)})
    gone = (SMALL, 20, Table.UNIFIED)
    two = replace(two, times=tuple(time for time in two.times if (time.case, time.width, time.table) != gone))
    decisions = _decide(one, two)
    assert decisions[20].verdict is Verdict.CASE_MISSING
    assert decisions[20].reason == "fp8 5120x6144 a16 has no time with unified in round 2"
    assert decisions[16].verdict is Verdict.ALONE
    assert _bands(one, two) == (Band(23, ""), Band(28, "unified"))


def test_a_width_that_ran_without_a_time_is_missing_and_not_unmeasured() -> None:
    times = times_of({**both(16, 100, 90), **both(20, 100, 90), **both(28, 100, 90)})
    widths = {KEY: (16, 20, 24, 28)}
    rounds = [make_round(number, times, widths=widths) for number in (1, 2)]
    assert _decide(*rounds)[24].reason == ("fp8 5120x6144 a16 has no time with any table in any round (and 1 more)")
    assert _bands(*rounds) == (Band(15, ""), Band(20, "unified"))


def test_warm_times_and_the_other_execution_are_not_judged() -> None:
    one, two = two_rounds(WINS)
    extra = [time._replace(cache="warm", median_us=1000.0) for time in one.times if time.table is Table.UNIFIED]
    extra += [time._replace(execution="graph", median_us=1000.0) for time in one.times if time.table is Table.UNIFIED]
    assert _bands(replace(one, times=(*one.times, *extra)), two) == _bands(one, two)


def test_graph_times_are_judged_where_both_rounds_ask_for_them() -> None:
    rounds = [
        replace(item, execution="graph", times=tuple(time._replace(execution="graph") for time in item.times))
        for item in two_rounds(WINS)
    ]
    assert _bands(*rounds) == _bands(*two_rounds(WINS))


def test_a_case_whose_program_knows_one_execution_is_judged_in_it() -> None:
    rounds = [replace(item, execution="graph") for item in two_rounds(WINS)]
    fixed = {KEY: tuple(replace(item, fixed=True) for item in CASES[KEY])}
    assert select(rounds, CASES)[DEVICE].bands == {}
    assert select(rounds, fixed)[DEVICE].bands == {KEY: _bands(*two_rounds(WINS))}


def test_a_case_outside_the_list_is_said_and_not_judged() -> None:
    rounds = [
        replace(
            item,
            times=(
                *item.times,
                *(time._replace(case=LARGE._replace(policy="a8"), median_us=1.0) for time in item.times[:1]),
            ),
        )
        for item in two_rounds(WINS)
    ]
    selection = select(rounds, CASES)[DEVICE].keys[KEY]
    assert selection.notes == ("fp8 5120x17408 a8: measured, not among the cases judged",)
    assert selection.bands == _bands(*two_rounds(WINS))


def test_other_builds_in_the_two_rounds_forbid_a_selection() -> None:
    one = make_round(1, times_of(WINS))
    two = make_round(2, times_of(WINS), conditions=dict.fromkeys(Table, replace(CONDITIONS, build="v0.14.0")))
    decision = _decide(one, two)[16]
    assert (decision.verdict, decision.reason) == (
        Verdict.CONDITIONS,
        "engine build is 'v0.13.0' in round 1 and 'v0.14.0' in round 2",
    )
    assert _bands(one, two) is None


def test_another_power_limit_in_the_second_round_is_said_and_not_refused() -> None:
    one = make_round(1, times_of(WINS))
    two = make_round(2, times_of(WINS), conditions=dict.fromkeys(Table, replace(CONDITIONS, power_limit_w=300)))
    selection = select((one, two), CASES)[DEVICE]
    assert selection.remarks.warnings == ("power limit in W is 420 in round 1 and 300 in round 2",)
    assert selection.remarks.refusals == ()
    assert selection.keys[KEY].bands == _bands(*two_rounds(WINS))


def test_another_power_limit_for_the_second_table_of_a_round_forbids_a_selection() -> None:
    split = {Table.LEGACY: CONDITIONS, Table.UNIFIED: replace(CONDITIONS, power_limit_w=300)}
    rounds = (make_round(1, times_of(WINS), conditions=split), make_round(2, times_of(WINS)))
    assert _decide(*rounds)[16].reason == "round 1: power limit in W is 420 for legacy and 300 for unified"


def test_two_rounds_in_the_same_order_forbid_a_selection() -> None:
    one, two = two_rounds(WINS)
    decision = _decide(one, replace(two, order=one.order))[16]
    assert decision.reason == "rounds 1 and 2 both ran legacy first; the second round runs the tables in opposite order"


def test_conditions_that_nobody_recorded_are_said() -> None:
    bare = dict.fromkeys(Table, replace(CONDITIONS, sm_clock_mhz=0))
    rounds = (make_round(1, times_of(WINS), conditions=bare), make_round(2, times_of(WINS)))
    assert select(rounds, CASES)[DEVICE].remarks.warnings == (
        "round 1: SM clock in MHz is not recorded for every table",
    )


def test_a_round_given_twice_is_refused() -> None:
    one = two_rounds(WINS)[0]
    with pytest.raises(EvidenceError) as caught:
        select((one, replace(one)), CASES)
    assert str(caught.value) == (
        "nvidia-geforce-rtx-3090-sm86/82 round 1: given twice; one file holds a round. Remove one of the two files"
    )


def test_another_grid_leaves_measured_widths_out_but_not_a_slower_case() -> None:
    rounds = two_rounds({**WINS, **both(22, 100, 101), **both(40, 100, 90)})
    grid = Grid(widths=(16, 20, 28, 32))
    assert _bands(*rounds, grid=grid) == (Band(15, ""), Band(20, "unified"), Band(27, ""), Band(32, "unified"))
    assert sorted(_decide(*rounds, grid=grid)) == [16, 20, 24, 28, 32]


def test_a_grid_width_that_nobody_ran_is_missing() -> None:
    decision = _decide(*two_rounds(WINS), grid=Grid(by_key={KEY: (16, 18, 20)}))[18]
    assert decision.verdict is Verdict.CASE_MISSING


def test_a_case_left_out_is_not_judged() -> None:
    times = {(SMALL, 16): (100.0, 90.0), (LARGE, 16): (100.0, 110.0), **both(20, 100, 90)}
    grid = Grid(leave_out={"unified/fp8_*": ("* 5120x17408 *",)})
    assert _bands(*two_rounds(times), grid=grid) == (Band(15, ""), Band(20, "unified"))


def test_what_if_lists_the_cells_that_take_another_route() -> None:
    rounds = two_rounds({**both(16, 100, 98), **both(20, 100, 97), **both(24, 100, 90), **both(28, 100, 90)})
    before = select(rounds, CASES)
    cells = moved(before, select(rounds, CASES, UnifiedLimits(min_gain=0.02)))
    assert [(cell.before.width, cell.before.verdict, cell.after.verdict) for cell in cells] == [
        (16, Verdict.GAIN, Verdict.QUALIFIES)
    ]
    assert moved(before, before) == ()


def test_the_rule_is_told_in_one_line() -> None:
    assert describe_rule() == (
        "two-round rule: 2 rounds a table, gain at least 1.03 over the cases, no case's loss above 1.03, "
        "ties under 2 us, 2 widths a band"
    )
