"""KV codings of the INT8 family: rotation, encoders, decoders, page layout.

Rows are one token of one KV head, 256 dims. Encoders take unrotated keys and values in float32 and return code bytes
``(..., bytes)`` and FP16 scales ``(..., groups)``; key decoders return rotated keys, value decoders plain values.

Source of every rule: engine-kernels 7.2 and 7.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMS = 256
PAGE_TOKENS = 64
KV_HEADS = 4
KEY_GROUP = 64

LLOYD_CODES = np.array([6, 18, 31, 44, 58, 75, 96, 127], dtype=np.int8)
"""Integer magnitudes of rk4v4 keys: the Lloyd-Max levels of a normal distribution times 127 / 2.7326, rounded."""

LLOYD_LEVELS = (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326)
LLOYD_THRESHOLDS = np.array([0.25825, 0.52245, 0.7996, 1.0993, 1.43715, 1.84355, 2.4008], dtype=np.float32)
"""Midpoints of the levels; a magnitude that reaches a threshold counts as past it."""

RADIUS_FACTORS = np.array(
    [0.0, 0.0992, 0.125, 0.1575, 0.1984, 0.25, 0.315, 0.3969, 0.5, 0.63, 0.7937, 1.0, 1.2599, 1.5874, 2.0, 2.5198],
    dtype=np.float64,
)
"""2^((k - 11) / 3) to four decimals for radius k = 1..15; radius 0 is the zero block."""

RADIUS_BOUNDS = 2.0 ** ((np.arange(2, 16) - 8.5) / 3.0)
"""Relative norms at which the radius of an rk2v4-e8 block steps up, from 0.22272 to 4.48985."""

PAIR_ROOTS = 112
ROOTS = 240


@dataclass(frozen=True, kw_only=True, slots=True)
class Coding:
    """Sizes of one KV coding, per token and KV head. Codes in bytes, scales in FP16 values."""

    name: str
    key_bytes: int
    value_bytes: int
    value_scales: int
    key_scales: int = 4

    @property
    def row_bytes(self) -> int:
        """Bytes of one token of one KV head: codes and scales of key and value."""
        return self.key_bytes + self.value_bytes + 2 * (self.key_scales + self.value_scales)


CODINGS = {
    item.name: item
    for item in (
        Coding(name="int8", key_bytes=256, value_bytes=256, value_scales=4),
        Coding(name="rk8v4", key_bytes=256, value_bytes=128, value_scales=8),
        Coding(name="rk4v4", key_bytes=128, value_bytes=128, value_scales=8),
        Coding(name="rk4v4-e8", key_bytes=128, value_bytes=128, value_scales=8),
        Coding(name="rk2v4-e8", key_bytes=64, value_bytes=128, value_scales=8),
    )
}
"""Codings by name."""


def rotate(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return ``rows`` ``(..., 256)`` times the normalised Hadamard matrix: FP32 butterflies, strides 1 to 128."""
    x = np.array(rows, dtype=np.float32)
    stride = 1
    while stride < DIMS:
        halves = x.reshape(*x.shape[:-1], DIMS // (2 * stride), 2, stride)
        low, high = halves[..., 0, :], halves[..., 1, :]
        x = np.stack((low + high, low - high), axis=-2).reshape(x.shape)
        stride *= 2
    return x * np.float32(1 / 16)


def quantise_query(rows: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 codes ``(..., 256)`` and FP32 scales ``(..., 4)`` of rotated query rows; scales stay FP32."""
    groups = rotate(rows).reshape(*rows.shape[:-1], 4, KEY_GROUP)
    scales = np.abs(groups).max(axis=-1) / np.float32(127)
    codes = np.clip(np.rint(groups * _inverse(scales)[..., None]), -127, 127).astype(np.int8)
    return codes.reshape(rows.shape), scales


def encode_keys(name: str, keys: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return code bytes and scales of ``keys`` ``(..., 256)``, rotated first."""
    groups = rotate(keys).reshape(*keys.shape[:-1], 4, KEY_GROUP)
    if name in {"int8", "rk8v4"}:
        codes, scales = _absmax_codes(groups, 127)
        return _bytes(codes, keys.shape), scales
    if name == "rk4v4":
        return _encode_lloyd(groups, keys.shape)
    if name == "rk4v4-e8":
        scales = _absmax_scale(groups, 7)
        points = snap_e8(_scaled_blocks(groups, scales))
        codes = np.clip(np.rint(points), -8, 7).astype(np.int8)
        return _nibbles(codes.reshape(keys.shape)), scales
    assert name == "rk2v4-e8", name
    scales = _absmax_scale(groups, 7)
    blocks = groups.reshape(*groups.shape[:-1], 8, 8)
    return _encode_roots(blocks, scales).reshape(*keys.shape[:-1], 64), scales


def encode_values(name: str, values: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return code bytes and scales of ``values`` ``(..., 256)``; values are never rotated."""
    count = CODINGS[name].value_scales
    groups = np.asarray(values, dtype=np.float32).reshape(*values.shape[:-1], count, DIMS // count)
    codes, scales = _absmax_codes(groups, 127 if name == "int8" else 7)
    codes = codes.reshape(values.shape)
    return (_bytes(codes, values.shape) if name == "int8" else _nibbles(codes)), scales


def key_codes(name: str, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Return the int8 codes ``(..., 256)`` that key code bytes ``(..., key bytes)`` expand to."""
    if name in {"int8", "rk8v4"}:
        return codes.view(np.int8)
    if name == "rk4v4":
        nibbles = _unpack(codes)
        magnitude = LLOYD_CODES[nibbles & 7]
        signed: NDArray[np.int8] = np.where(nibbles & 8, -magnitude, magnitude).astype(np.int8)
        return signed
    if name == "rk4v4-e8":
        return _signed(_unpack(codes))
    assert name == "rk2v4-e8", name
    return _root_codes(codes)


def decode_keys(name: str, codes: NDArray[np.uint8], scales: NDArray[Any]) -> NDArray[np.float32]:
    """Return rotated keys ``(..., 256)``: code times scale."""
    groups = key_codes(name, codes).astype(np.float32).reshape(*scales.shape, KEY_GROUP)
    decoded: NDArray[np.float32] = (groups * scales.astype(np.float32)[..., None]).reshape(*codes.shape[:-1], DIMS)
    return decoded


def value_codes(name: str, codes: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Return the int8 codes ``(..., 256)`` of value code bytes."""
    return codes.view(np.int8) if name == "int8" else _signed(_unpack(codes))


def decode_values(name: str, codes: NDArray[np.uint8], scales: NDArray[Any]) -> NDArray[np.float16]:
    """Return values ``(..., 256)`` as FP16: code times scale with one rounding."""
    groups = value_codes(name, codes).astype(np.float32).reshape(*scales.shape, DIMS // scales.shape[-1])
    return (groups * scales.astype(np.float32)[..., None]).astype(np.float16).reshape(*codes.shape[:-1], DIMS)


def page_offset(token: int, head: int, table: NDArray[np.int32], row_elements: int) -> int:
    """Return the element offset of a row in a plane of ``row_elements`` a row."""
    page = int(table[token // PAGE_TOKENS])
    return row_elements * (token % PAGE_TOKENS + PAGE_TOKENS * (head + KV_HEADS * page))


def to_pages(rows: NDArray[Any], table: NDArray[np.int32], pages: int) -> NDArray[Any]:
    """Return a plane ``(pages, heads, 64, row)`` that holds ``rows`` ``(tokens, heads, row)``; the rest is 0."""
    plane = np.zeros((pages, KV_HEADS, PAGE_TOKENS, rows.shape[-1]), dtype=rows.dtype)
    tokens = np.arange(rows.shape[0])
    plane[table[tokens // PAGE_TOKENS], :, tokens % PAGE_TOKENS] = rows
    return plane


def snap_e8(points: NDArray[Any]) -> NDArray[np.float32]:
    """Return the nearest E8 lattice point of each ``(..., 8)``: D8 or D8 + 1/2, D8 on ties."""
    points = np.asarray(points, dtype=np.float32)
    whole = _snap_d8(points)
    half = _snap_d8(points - np.float32(0.5)) + np.float32(0.5)
    whole_distance = ((points - whole) ** 2).sum(axis=-1)
    half_distance = ((points - half) ** 2).sum(axis=-1)
    return np.where((half_distance < whole_distance)[..., None], half, whole)


def root_table() -> NDArray[np.int8]:
    """Return ``(256, 8)``: the E8 roots times 4; rows 240 and later are zeros (invalid bytes)."""
    table = np.zeros((256, 8), dtype=np.int8)
    row = 0
    for i in range(8):
        for j in range(i + 1, 8):
            for signs in range(4):
                table[row, i] = 4 if signs & 2 else -4
                table[row, j] = 4 if signs & 1 else -4
                row += 1
    for bits in range(128):
        row_signs = [1 if bits >> d & 1 else -1 for d in range(7)]
        last = 1 if row_signs.count(-1) % 2 == 0 else -1
        table[PAIR_ROOTS + bits] = [2 * sign for sign in (*row_signs, last)]
    return table


def _inverse(scales: NDArray[Any]) -> NDArray[np.float32]:
    scales = scales.astype(np.float32)
    with np.errstate(divide="ignore"):
        return np.where(scales > 0, np.float32(1) / scales, np.float32(0)).astype(np.float32)


def _absmax_scale(groups: NDArray[np.float32], most: int) -> NDArray[np.float16]:
    scales: NDArray[np.float16] = (np.abs(groups).max(axis=-1) / np.float32(most)).astype(np.float16)
    return scales


def _absmax_codes(groups: NDArray[np.float32], most: int) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    scales = _absmax_scale(groups, most)
    codes = np.clip(np.rint(groups * _inverse(scales)[..., None]), -most, most).astype(np.int8)
    return codes, scales


def _bytes(codes: NDArray[np.int8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(codes.reshape(shape)).view(np.uint8)


def _nibbles(codes: NDArray[Any]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = codes.astype(np.uint8) & np.uint8(15)
    packed: NDArray[np.uint8] = (bits[..., 0::2] | bits[..., 1::2] << np.uint8(4)).astype(np.uint8)
    return packed


def _unpack(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack((codes & 15, codes >> 4), axis=-1).reshape(*codes.shape[:-1], codes.shape[-1] * 2)


def _signed(nibbles: NDArray[np.uint8]) -> NDArray[np.int8]:
    return ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)


def _encode_lloyd(groups: NDArray[np.float32], shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    rms = np.sqrt((groups**2).mean(axis=-1, dtype=np.float32))
    reach = np.abs(groups) * _inverse(rms)[..., None]
    magnitude = np.searchsorted(LLOYD_THRESHOLDS, reach, side="right")
    negative = groups < 0
    codes = np.where(negative, -1, 1) * LLOYD_CODES[magnitude].astype(np.float32)
    scales = ((groups * codes).sum(axis=-1) / (codes**2).sum(axis=-1)).astype(np.float16)
    return _nibbles((negative.astype(np.uint8) << 3 | magnitude.astype(np.uint8)).reshape(shape)), scales


def _scaled_blocks(groups: NDArray[np.float32], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    return (groups * _inverse(scales)[..., None]).reshape(*groups.shape[:-1], 8, 8)


def _snap_d8(points: NDArray[np.float32]) -> NDArray[np.float32]:
    nearest = np.rint(points)
    error = points - nearest
    worst = np.abs(error).argmax(axis=-1)[..., None]
    step = np.where(np.take_along_axis(error, worst, -1) >= 0, np.float32(1), np.float32(-1))
    moved = nearest.copy()
    np.put_along_axis(moved, worst, np.take_along_axis(nearest, worst, -1) + step, -1)
    odd = (nearest.sum(axis=-1) % 2 != 0)[..., None]
    return np.where(odd, moved, nearest)


def _at(rows: NDArray[Any], dim: NDArray[np.int64]) -> NDArray[Any]:
    picked: NDArray[Any] = np.take_along_axis(rows, dim[..., None], -1)[..., 0]
    return picked


def _encode_roots(blocks: NDArray[np.float32], scales: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Return ``(..., 8 blocks, 2)`` code bytes of ``(..., 8 blocks, 8)`` rotated keys, a scale per 8 blocks."""
    norm = np.sqrt((blocks**2).sum(axis=-1, dtype=np.float32))
    size = scales.astype(np.float32)[..., None] * np.float32(np.sqrt(8)) + np.float32(1e-8)
    relative = norm / size
    radius = 1 + (relative[..., None] >= RADIUS_BOUNDS).sum(axis=-1)
    unit = blocks / (norm + np.float32(1e-8))[..., None]
    plus = unit >= 0
    size_of = np.abs(unit)
    order = np.argsort(-size_of, axis=-1, kind="stable")
    i, j = np.sort(order[..., :2], axis=-1)[..., 0], np.sort(order[..., :2], axis=-1)[..., 1]
    pair_score = np.take_along_axis(size_of, order[..., :2], -1).sum(axis=-1)
    odd = (~plus).sum(axis=-1) % 2 == 1
    smallest = size_of.argmin(axis=-1)
    half_score = 0.5 * size_of.sum(axis=-1) - np.where(odd, size_of.min(axis=-1), 0)
    pair = 4 * (i * (15 - i) // 2 + (j - i - 1)) + 2 * _at(plus, i) + _at(plus, j)
    flipped = plus ^ (odd[..., None] & (np.arange(8) == smallest[..., None]))
    half = PAIR_ROOTS + (flipped[..., :7] << np.arange(7)).sum(axis=-1)
    root = np.where(pair_score >= half_score, pair, half)
    direction = root_table()[root] / np.float32(np.sqrt(32))
    rest = unit - (unit * direction).sum(axis=-1, keepdims=True) * direction
    axis = np.abs(rest).argmax(axis=-1)
    minus = _at(rest, axis) < 0
    second = radius << 4 | axis << 1 | minus
    zero = relative < np.float32(0.08)
    return np.where(zero[..., None], 0, np.stack((root, second), axis=-1)).astype(np.uint8)


def _root_codes(codes: NDArray[np.uint8]) -> NDArray[np.int8]:
    blocks = codes.reshape(*codes.shape[:-1], 32, 2)
    root, second = blocks[..., 0], blocks[..., 1]
    sum_of = root_table()[root].astype(np.float64)
    axis = np.arange(8) == (second >> 1 & 7)[..., None]
    sum_of += np.where(axis, np.where(second & 1, -1.0, 1.0)[..., None], 0.0)
    factor = np.where(root < ROOTS, RADIUS_FACTORS[second >> 4], 0.0)
    return np.rint(sum_of * factor[..., None]).astype(np.int8).reshape(*codes.shape[:-1], DIMS)
