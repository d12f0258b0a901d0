"""When a point is timed further, and what its samples say of the gain's uncertainty."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.bench import BASE, TWIN, Samples, Subject
from generator.core.limits import LIMITS
from generator.core.route import Schedule
from generator.core.sampling import close_to_best, extend, gain_doubt, second_pass_samples

A, B = Subject(Schedule("a")), Subject(Schedule("b"))


def noisy(us: float, count: int, spread: float, seed: int = 1) -> Samples:
    dice = random.Random(seed)
    return tuple(us * dice.gauss(1.0, spread) for _ in range(count))


def test_doubt_is_that_of_the_captures_where_samples_do_not_scatter() -> None:
    # 2.5 x 0.15 us / 100 us x sqrt(2 / (32 samples / 8 rounds a capture))
    assert gain_doubt((90.0,) * 32, (100.0,) * 32, LIMITS) == pytest.approx(2.5 * 0.0015 * 0.5**0.5)


def test_four_times_the_samples_leave_half_the_doubt() -> None:
    few, many = (gain_doubt(noisy(90, n, 0.02), noisy(100, n, 0.02, 2), LIMITS) for n in (400, 1600))
    assert many / few == pytest.approx(0.5, rel=0.15)


def test_the_doubt_covers_what_repeated_measurements_show() -> None:
    doubts, gains = [], []
    for seed in range(200):
        rival, base = noisy(97, 44, 0.02, seed), noisy(100, 44, 0.02, 1000 + seed)
        doubts.append(gain_doubt(rival, base, replace(LIMITS, graph_spread_us=0.0)))
        gains.append(1 - sorted(rival)[22] / sorted(base)[22])
    inside = sum(abs(found - 0.03) <= doubt for found, doubt in zip(gains, doubts, strict=True))
    assert inside >= 0.95 * len(gains)


def test_a_clear_gain_and_a_clear_loss_are_not_timed_further() -> None:
    base = noisy(100, 11, 0.005)
    for us in (80.0, 110.0):
        assert extend({BASE: base, A: noisy(us, 11, 0.005, 2), TWIN: base}, 11, LIMITS) == ([], 11)


def test_a_scattering_point_goes_on_where_a_steady_one_of_the_same_median_stops() -> None:
    def rivals(spread: float) -> list[Subject]:
        samples = {BASE: noisy(100, 11, spread), A: noisy(95.5, 11, spread, 2), TWIN: noisy(100, 11, spread, 3)}
        return extend(samples, 11, LIMITS)[0]

    assert rivals(0.001) == []
    assert rivals(0.03) == [A]


def test_only_rivals_that_may_be_the_best_go_on_after_the_first_step() -> None:
    samples = {BASE: (100.0,) * 44, A: (97.0,) * 44, B: (99.0,) * 44, TWIN: (100.0,) * 11}
    assert extend(samples, 44, LIMITS) == ([A], 176)


def test_a_twin_goes_on_only_where_it_has_just_won() -> None:
    base, rival = (100.0,) * 11, (120.0,) * 11
    assert extend({BASE: base, A: rival, TWIN: (98.0,) * 11}, 11, LIMITS) == ([], 11)
    assert extend({BASE: base, A: rival, TWIN: (96.0,) * 11}, 11, LIMITS) == ([TWIN], 44)
    assert extend({BASE: base * 4, A: rival, TWIN: (96.0,) * 44}, 44, LIMITS) == ([TWIN], 176)
    assert extend({BASE: base * 4, A: rival, TWIN: (96.0,) * 11}, 44, LIMITS) == ([], 44)


def test_a_long_kernel_is_not_timed_further() -> None:
    near = {BASE: (2000.0,) * 11, A: (1940.0,) * 11, TWIN: (2000.0,) * 11}
    assert extend(near, 11, LIMITS) == ([], 11)
    assert extend({subject: (us[0] / 10,) * 11 for subject, us in near.items()}, 11, LIMITS) == ([A], 44)


@pytest.mark.parametrize(("share", "close"), [(0.0, [A]), (0.02, [A, B])])
def test_close_to_the_best_is_a_share_of_its_time(share: float, close: list[Subject]) -> None:
    assert close_to_best({A: 50.0, B: 51.0}, share) == close
    assert close_to_best({}, share) == []


@given(st.integers(3, 40), st.integers(0, 3000))
def test_the_second_pass_never_has_fewer_samples_than_usual(usual: int, count: int) -> None:
    limits = replace(LIMITS, samples=usual)
    assert second_pass_samples((1.0,) * count, limits) >= usual


@given(st.integers(0, 99), st.sampled_from([11, 44, 176]))
def test_samples_beyond_those_asked_about_change_nothing(seed: int, seen: int) -> None:
    whole = {BASE: noisy(100, 704, 0.01, seed), A: noisy(97, 704, 0.01, seed + 1), TWIN: noisy(100, 11, 0.01, seed + 2)}
    short = {subject: samples[:seen] for subject, samples in whole.items()}
    assert extend(whole, seen, LIMITS) == extend(short, seen, LIMITS)
