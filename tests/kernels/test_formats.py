"""Row-split formats: the specification's storage examples, and encoding against decoding."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.reference.formats import (
    FORMATS,
    Q4,
    Q5,
    Q6,
    T2,
    RowSplitFormat,
    decode,
    dequantise,
    encode,
    layout,
    quantise,
)

NAMES = [form.name for form in FORMATS]


def test_ternary_byte_0d_holds_plus_one_minus_one_zero_zero() -> None:
    assert decode(T2, np.array([0x0D], np.uint8)).tolist() == [1, -1, 0, 0]


def test_ternary_code_10_decodes_as_minus_two() -> None:
    assert decode(T2, np.array([0b10101010], np.uint8)).tolist() == [-2, -2, -2, -2]


def test_q4_holds_the_even_element_in_the_low_nibble() -> None:
    assert decode(Q4, np.array([0x8F], np.uint8)).tolist() == [-1, -8]


def test_q5_takes_bit_four_of_lane_nine_from_bit_one_of_the_second_high_byte() -> None:
    codes, high = np.zeros(32, np.uint8), np.zeros(8, np.uint8)
    high[1] = 0b10
    assert np.flatnonzero(decode(Q5, codes, high)).tolist() == [9]
    assert decode(Q5, codes, high)[9] == -16


def test_q6_takes_its_upper_two_bits_from_the_high_plane() -> None:
    codes, high = np.zeros(32, np.uint8), np.zeros(16, np.uint8)
    codes[2] = 0x50
    high[1] = 0b01_00 << 0
    assert decode(Q6, codes, high)[5] == 5 + 16


def test_q5_of_2_by_130_is_stored_as_the_specification_shows() -> None:
    shape = layout(Q5, 2, 130)
    assert (shape.groups_per_row, shape.code_bytes, shape.high_bytes, shape.scale_bytes) == (4, 256, 64, 16)
    assert (shape.high_offset, shape.scale_offset, shape.total_bytes) == (256, 512, 528)


@pytest.mark.parametrize(
    ("form", "rows", "k", "packed"),
    [
        (T2, 248320, 5120, 337_715_200),
        (Q4, 34816, 5120, 94_699_520),
        (Q5, 5120, 17408, 58_490_880),
        (Q6, 248320, 5120, 993_280_000),
    ],
)
def test_packed_bytes_are_the_specifications(form: RowSplitFormat, rows: int, k: int, packed: int) -> None:
    assert layout(form, rows, k).packed_bytes == packed


@pytest.mark.parametrize("form", FORMATS, ids=NAMES)
def test_decoding_gives_back_every_code(form: RowSplitFormat) -> None:
    lowest = -(1 << form.bits - 1)
    codes = np.random.default_rng(1).integers(lowest, -lowest, 4 * form.group).astype(np.int8)
    codes[: -2 * lowest] = np.arange(lowest, -lowest)[: codes.size]
    low, high = encode(form, codes)
    assert low.size == 4 * form.code_bytes
    assert (0 if high is None else high.size) == 4 * form.high_bytes
    assert np.array_equal(decode(form, low, high), codes)


@pytest.mark.parametrize("form", FORMATS[1:], ids=NAMES[1:])
def test_quantised_weights_are_within_half_a_step(form: RowSplitFormat) -> None:
    weights = np.random.default_rng(2).normal(size=(3, 256)).astype(np.float32)
    codes, scales = quantise(form, weights)
    step = np.repeat(scales.astype(np.float64), form.group, axis=1)
    assert np.all(np.abs(dequantise(form, codes, scales) - weights) <= 0.502 * step)
    assert codes.min() >= form.smallest
    assert codes.max() == form.largest


def test_a_zero_group_has_scale_zero_and_an_underflowing_one_the_smallest_scale() -> None:
    weights = np.zeros((1, 128), np.float32)
    weights[0, 64] = 1e-9
    codes, scales = quantise(Q4, weights)
    assert scales.tolist() == [[0.0, 2.0**-24]]
    assert not codes.any()


def test_ternary_weights_are_not_quantised() -> None:
    with pytest.raises(ValueError, match=r"^T2 has no encoder: its source values are scale times -1, 0 or \+1$"):
        quantise(T2, np.zeros((1, 128), np.float32))
