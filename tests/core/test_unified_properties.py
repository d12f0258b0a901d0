"""The two-round rule: what holds whatever was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import schedule_at

from generator.core.limits import UnifiedLimits
from generator.core.rounds import Round, Table
from generator.core.unified import SCHEDULE, Selection, Verdict, select
from tests.core.unified_rounds import CASES, DEVICE, KEY, LARGE, SMALL, Times, make_round, times_of

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTHS = (1, 2, 3, 4, 8, 16, 32, 64)
LIMITS = UnifiedLimits()

_ratio = st.sampled_from((0.9, 0.96, 0.97, 0.98, 1.0, 1.02, 1.03, 1.031, 1.1))
_legacy = st.sampled_from((10.0, 40.0, 100.0, 103.0, 1000.0))


@st.composite
def pairs_of_rounds(draw: st.DrawFn) -> list[Round]:
    """Return two whole rounds: both cases at every width."""
    rounds: list[Round] = []
    for number in (1, 2):
        times: dict[object, tuple[float, float]] = {}
        for width in WIDTHS:
            for case in (SMALL, LARGE):
                legacy = draw(_legacy)
                times[case, width] = (legacy, round(legacy * draw(_ratio), 3))
        rounds.append(make_round(number, times_of(_typed(times))))
    return rounds


def _typed(times: dict[object, tuple[float, float]]) -> Times:
    return times  # type: ignore[return-value]


def _select(rounds: Sequence[Round], limits: UnifiedLimits = LIMITS) -> Selection:
    return select(rounds, CASES, limits)[DEVICE]


def _routed(selection: Selection) -> set[int]:
    bands = selection.keys[KEY].bands or ()
    return {width for width in range(1, 65) if schedule_at(bands, width) == SCHEDULE}


@given(pairs_of_rounds())
def test_no_band_holds_a_width_with_a_case_over_the_slower_limit(rounds: list[Round]) -> None:
    routed = _routed(_select(rounds))
    for width in routed & set(WIDTHS):
        for case in (SMALL, LARGE):
            sums = {
                table: sum(
                    time.median_us or 0.0
                    for item in rounds
                    for time in item.times
                    if (time.case, time.width, time.table) == (case, width, table)
                )
                for table in Table
            }
            legacy, unified = sums[Table.LEGACY] / 2, sums[Table.UNIFIED] / 2
            assert unified <= legacy * 1.03 * (1 + 1e-12) or unified - legacy < LIMITS.tick_us


@given(pairs_of_rounds(), st.randoms(use_true_random=False))
def test_the_order_of_rounds_and_facts_does_not_matter(rounds: list[Round], random: object) -> None:
    shuffled = []
    for item in rounds:
        times = list(item.times)
        random.shuffle(times)  # type: ignore[attr-defined]
        shuffled.append(replace(item, times=tuple(times)))
    shuffled.reverse()
    assert _select(shuffled) == _select(rounds)


@given(pairs_of_rounds())
def test_the_numbers_of_the_rounds_do_not_matter(rounds: list[Round]) -> None:
    one, two = rounds
    swapped = (replace(one, times=two.times), replace(two, times=one.times))
    assert _select(swapped) == _select(rounds)


@given(pairs_of_rounds())
def test_selecting_twice_gives_the_same(rounds: list[Round]) -> None:
    assert _select(rounds) == _select(rounds)


@given(pairs_of_rounds(), st.sampled_from((0.25, 0.5, 2.0, 8.0)))
def test_scaling_all_times_and_the_tick_changes_no_verdict(rounds: list[Round], factor: float) -> None:
    scaled = [
        replace(item, times=tuple(time._replace(median_us=(time.median_us or 0.0) * factor) for time in item.times))
        for item in rounds
    ]
    after = _select(scaled, replace(LIMITS, tick_us=LIMITS.tick_us * factor))
    before = _select(rounds)
    assert after.keys[KEY].bands == before.keys[KEY].bands
    assert [item.verdict for item in after.keys[KEY].decisions] == [item.verdict for item in before.keys[KEY].decisions]


@given(pairs_of_rounds(), st.sampled_from((4.0, 64.0)))
def test_scaling_times_that_are_far_above_the_tick_changes_no_verdict(rounds: list[Round], factor: float) -> None:
    limits = replace(LIMITS, tick_us=0.0)
    scaled = [
        replace(item, times=tuple(time._replace(median_us=(time.median_us or 0.0) * factor) for time in item.times))
        for item in rounds
    ]
    assert _routed(_select(scaled, limits)) == _routed(_select(rounds, limits))


@given(pairs_of_rounds(), st.data())
def test_a_missing_time_can_only_remove_widths(rounds: list[Round], data: st.DataObject) -> None:
    before = _routed(_select(rounds))
    count = len(rounds[0].times)
    gone = data.draw(st.sets(st.integers(0, 2 * count - 1), max_size=12))
    fewer = [
        replace(item, times=tuple(time for place, time in enumerate(item.times) if number * count + place not in gone))
        for number, item in enumerate(rounds)
    ]
    assert _routed(_select(fewer)) <= before


@given(pairs_of_rounds())
def test_a_band_begins_and_ends_on_qualifying_widths_and_holds_at_least_two(rounds: list[Round]) -> None:
    item = _select(rounds).keys[KEY]
    good = {decision.width for decision in item.decisions if decision.verdict is Verdict.QUALIFIES}
    start = 1
    for band in item.bands or ():
        if band.schedule == SCHEDULE:
            assert {start, band.last} <= good
            inside = {width for width in WIDTHS if start <= width <= band.last}
            assert len(inside) >= LIMITS.least_widths
            assert inside <= good
        start = band.last + 1
    assert good == _routed(_select(rounds)) & set(WIDTHS)
