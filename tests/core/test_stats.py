"""Statistics of samples."""

from __future__ import annotations

import pytest

from generator.core.stats import gain, median, noise


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
