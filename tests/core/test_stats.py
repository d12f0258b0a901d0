"""Statistics of samples."""

from __future__ import annotations

import pytest

from generator.core.stats import center, gain, median, midmean, noise, standard_error


def test_median_of_an_even_count_is_the_upper_middle() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 3.0
    assert median([3.0, 1.0, 2.0]) == 2.0


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match=r"^no samples; a median needs at least one$"):
        median([])


def test_gain_is_the_share_saved() -> None:
    assert gain(97.0, 100.0) == pytest.approx(0.03)


def test_one_disturbed_point_does_not_make_the_noise() -> None:
    assert noise([1.0, 1.01, 0.99, 1.01, 2.0], 3.0) == pytest.approx(0.03)
    assert noise([], 3.0) == 0.0


def test_the_midmean_is_the_mean_of_the_middle_half() -> None:
    assert midmean([9.0, 1.0, 2.0, 4.0]) == 3.0
    assert midmean([5.0]) == 5.0
    with pytest.raises(ValueError, match=r"^no samples; a mean needs at least one$"):
        midmean([])


def test_one_wild_sample_of_four_moves_neither_center() -> None:
    for wild in (5.0, 1e6):
        assert midmean([1.0, 2.0, 3.0, wild]) == 2.5
        assert median([1.0, 2.0, 3.0, wild]) == 3.0


def test_the_center_is_the_engines_median_up_to_the_usual_number_of_samples() -> None:
    samples = [1.0, 2.0, 4.0, 8.0]
    assert center(samples, 4) == 4.0
    assert center(samples, 3) == 3.0


def test_the_standard_error_is_relative_and_falls_with_the_root_of_the_count() -> None:
    few = [98.0, 99.0, 100.0, 101.0, 102.0] * 4
    assert standard_error([10 * us for us in few]) == pytest.approx(standard_error(few))
    assert standard_error(few * 4) == pytest.approx(standard_error(few) / 2)
    assert standard_error([100.0] * 11) == 0.0
