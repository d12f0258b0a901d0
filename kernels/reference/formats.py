"""Row-split weight formats: planes, encoding and decoding (engine-kernels 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLANE_ALIGNMENT = 256
_K_MULTIPLE = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSplitFormat:
    """One row-split format: ``group`` elements share a scale; bytes are per group."""

    name: str
    group: int
    bits: int
    code_bytes: int
    high_bytes: int = 0

    @property
    def largest(self) -> int:
        """Largest code that the encoder gives an element as large as its group's largest."""
        return (1 << self.bits - 1) - 1

    @property
    def smallest(self) -> int:
        """Smallest legal code."""
        return -self.largest if self.bits in {2, 8} else -self.largest - 1


T2 = RowSplitFormat(name="T2_G128_FP16", group=128, bits=2, code_bytes=32)
Q4 = RowSplitFormat(name="Q4_G64_FP16", group=64, bits=4, code_bytes=32)
Q5 = RowSplitFormat(name="Q5_G64_FP16", group=64, bits=5, code_bytes=32, high_bytes=8)
Q6 = RowSplitFormat(name="Q6_G64_FP16", group=64, bits=6, code_bytes=32, high_bytes=16)
Q8 = RowSplitFormat(name="Q8_G32_FP16", group=32, bits=8, code_bytes=32)
FORMATS = (T2, Q4, Q5, Q6, Q8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Byte sizes and offsets of the planes of one matrix in its payload."""

    groups_per_row: int
    code_bytes: int
    high_bytes: int
    scale_bytes: int
    high_offset: int
    scale_offset: int

    @property
    def total_bytes(self) -> int:
        """Size of the payload, alignment gaps included."""
        return self.scale_offset + self.scale_bytes

    @property
    def packed_bytes(self) -> int:
        """Bytes of codes, high bits and scales: the least that reading the matrix moves."""
        return self.code_bytes + self.high_bytes + self.scale_bytes


def layout(form: RowSplitFormat, rows: int, k: int) -> Layout:
    """Return where the planes of a (rows, k) matrix lie; k is padded to a multiple of 128."""
    groups_per_row = -(-k // _K_MULTIPLE) * _K_MULTIPLE // form.group
    groups = rows * groups_per_row
    high_offset = _aligned(groups * form.code_bytes)
    return Layout(
        groups_per_row=groups_per_row,
        code_bytes=groups * form.code_bytes,
        high_bytes=groups * form.high_bytes,
        scale_bytes=groups * 2,
        high_offset=high_offset,
        scale_offset=high_offset + _aligned(groups * form.high_bytes),
    )


def _aligned(size: int) -> int:
    return -(-size // _PLANE_ALIGNMENT) * _PLANE_ALIGNMENT


def decode(form: RowSplitFormat, codes: NDArray[np.uint8], high: NDArray[np.uint8] | None = None) -> NDArray[np.int8]:
    """Return the codes of whole groups, flat in k order.

    Args:
        form: format of the planes.
        codes: code bytes of the groups, any shape.
        high: high bytes of the same groups; needed for Q5 and Q6 alone.
    """
    per_byte = {2: 4, 8: 1}.get(form.bits, 2)
    width = 8 // per_byte
    low = _fields(codes, per_byte, width)
    bits = width
    if form.high_bytes:
        assert high is not None, f"{form.name} has a high plane"
        extra = form.bits - width
        low = low | _fields(high, 8 // extra, extra) << np.uint8(width)
        bits = form.bits
    shift = np.int8(8 - bits)
    return (low << np.uint8(shift)).view(np.int8) >> shift


def encode(form: RowSplitFormat, codes: NDArray[np.int8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
    """Return the code bytes and high bytes (or None) of whole groups of ``codes``, flat in k order."""
    raw = codes.reshape(-1).view(np.uint8)
    per_byte = {2: 4, 8: 1}.get(form.bits, 2)
    width = 8 // per_byte
    low = _pack(raw & np.uint8(2**width - 1), per_byte, width)
    if not form.high_bytes:
        return low, None
    extra = form.bits - width
    return low, _pack(raw >> np.uint8(width) & np.uint8(2**extra - 1), 8 // extra, extra)


def _fields(data: NDArray[np.uint8], per_byte: int, width: int) -> NDArray[np.uint8]:
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(width)
    return (data.reshape(-1, 1) >> shifts & np.uint8(2**width - 1)).reshape(-1)


def _pack(fields: NDArray[np.uint8], per_byte: int, width: int) -> NDArray[np.uint8]:
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(width)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(fields.reshape(-1, per_byte) << shifts, axis=1)
    return packed


def quantise(form: RowSplitFormat, weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return codes and scales of ``weights`` (rows, k), k a multiple of the group.

    Raises:
        ValueError: T2 has no encoder; its source values are scale times -1, 0 or +1 already.

    Spec: engine-kernels 3.1, "Reference encoder".
    """
    if form is T2:
        raise ValueError("T2 has no encoder: its source values are scale times -1, 0 or +1")
    groups = weights.astype(np.float32).reshape(weights.shape[0], -1, form.group)
    amax = np.abs(groups).max(axis=2)
    scales = (amax / np.float32(form.largest)).astype(np.float16)
    scales[(scales == 0) & (amax > 0)] = np.float16(2.0**-24)
    wide = scales.astype(np.float64)
    inverse = np.divide(1.0, wide, out=np.zeros_like(wide), where=wide > 0).astype(np.float32)
    codes = np.clip(np.rint(groups * inverse[:, :, None]), form.smallest, form.largest)
    return codes.astype(np.int8).reshape(weights.shape), scales


def dequantise(form: RowSplitFormat, codes: NDArray[np.int8], scales: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``scale * code`` of (rows, k) codes and (rows, groups) scales in float64."""
    grouped = codes.reshape(*scales.shape, form.group).astype(np.float64)
    return (grouped * scales[..., None].astype(np.float64)).reshape(codes.shape)
