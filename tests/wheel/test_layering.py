"""Layering: every row of the spec's table, and what the rule means at every width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band, Bands, bands_from_points, layer_bands, schedule_at
from ninfer_device_profiles.document import Calibration, Profile
from ninfer_device_profiles.layering import layer


def make(*pairs: tuple[int, str]) -> Bands:
    return tuple(Band(*pair) for pair in pairs)


LONG = make((16, ""), (28, "unified"), (32, ""), (64, "unified"))
ROWS = [
    (
        make((16, ""), (32, "y")),
        make((8, "x"), (64, "y"), (1024, "z")),
        make((16, ""), (64, "y"), (1024, "z")),
    ),
    (make((32, "")), make((16, "x")), make((32, ""))),
    (make((32, "")), LONG, make((32, ""), (64, "unified"))),
    (make((64, "")), LONG, make((64, ""))),
    (
        make((8192, "16x1x32")),
        make((65536, "16x1x32"), (1048576, "4x2x32e")),
        make((65536, "16x1x32"), (1048576, "4x2x32e")),
    ),
    (make((16, "a")), make((8, "b"), (32, "a"), (64, "a"), (128, "b")), make((64, "a"), (128, "b"))),
    (
        make((12, "unified")),
        make((13, ""), (1024, "unified")),
        make((12, "unified"), (13, ""), (1024, "unified")),
    ),
    (make((2147483647, "")), LONG, make((2147483647, ""))),
    ((), LONG, ()),
]


@pytest.mark.parametrize(("upper", "lower", "expected"), ROWS)
def test_upper_answers_to_its_last_width_and_lower_past_it(upper: Bands, lower: Bands, expected: Bands) -> None:
    assert layer_bands(upper, lower) == expected


BANDS = st.dictionaries(st.integers(1, 60), st.sampled_from(["", "a", "b"]), min_size=1, max_size=6).map(
    lambda found: tuple(Band(last, found[last]) for last in sorted(found))
)


@given(BANDS, BANDS, st.integers(-1, 70))
def test_layered_bands_answer_as_the_two_layers_do(upper: Bands, lower: Bands, width: int) -> None:
    expected = schedule_at(upper if width <= upper[-1].last else lower, width)
    assert schedule_at(layer_bands(upper, lower), width) == expected


def test_keys_of_both_are_there_and_provenance_is_the_uppers() -> None:
    block = Calibration(route_catalog="d")
    upper = Profile(
        hardware_class="c",
        multiprocessors=28,
        origin="calibration",
        calibration=block,
        routes={"both": make((32, "")), "upper": make((4, "u"))},
    )
    lower = Profile(
        hardware_class="c",
        origin="built in: 3060",
        routes={"both": make((16, "x"), (64, "y")), "lower": make((8, "l"))},
    )
    assert layer(upper, lower) == Profile(
        hardware_class="c",
        multiprocessors=28,
        origin="calibration over built in: 3060",
        calibration=block,
        routes={"both": make((32, ""), (64, "y")), "lower": make((8, "l")), "upper": make((4, "u"))},
    )


def test_a_band_includes_its_last_width_and_nothing_answers_past_the_last_band() -> None:
    bands = make((4, "a"), (8, ""))
    assert [schedule_at(bands, width) for width in (-1, 4, 5, 8, 9)] == ["a", "a", "", "", ""]


def test_points_join_into_bands_that_end_on_measured_widths() -> None:
    assert bands_from_points([(1, "a"), (2, "a"), (4, ""), (8, "a")]) == make((2, "a"), (4, ""), (8, "a"))
    assert bands_from_points([]) == ()
