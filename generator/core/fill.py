"""Operands on the host, bit for bit as the device fill kernels make them, any slice at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from generator.core.route import Given, Operand, Poison, Uniform, Words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike, NDArray

DTYPES: dict[str, DTypeLike] = {
    "u8": np.uint8,
    "i8": np.int8,
    "u32": np.uint32,
    "i32": np.int32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}
"""NumPy type of each operand dtype."""


def word_hash(index: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """Return the engine's word hash of each ``index`` (engine-kernels 1.5)."""
    h: NDArray[np.uint32] = index * np.uint32(0x9E3779B9) ^ np.uint32(seed)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return h


def operand_elements(operand: Operand) -> int:
    """Return the number of elements of ``operand``."""
    return int(np.prod(operand.shape, dtype=np.int64))


def operand_bytes(operand: Operand) -> int:
    """Return the size of ``operand`` in bytes."""
    return operand_elements(operand) * np.dtype(DTYPES[operand.dtype]).itemsize


def host_values(operand: Operand, start: int = 0, count: int | None = None) -> NDArray[Any]:
    """Return elements ``start`` to ``start + count`` of ``operand`` in its own type."""
    dtype = np.dtype(DTYPES[operand.dtype])
    total = operand_elements(operand)
    count = total - start if count is None else count
    fill = operand.fill
    if isinstance(fill, Given):
        return np.ascontiguousarray(fill.make(), dtype=dtype).reshape(-1)[start : start + count]
    if isinstance(fill, Poison):
        return np.full(count * dtype.itemsize, 0xFF, dtype=np.uint8).view(dtype)
    if isinstance(fill, Words):
        first = start * dtype.itemsize // 4
        last = -(-(start + count) * dtype.itemsize // 4)
        words = word_hash(np.arange(first, last, dtype=np.int64).astype(np.uint32), fill.seed)
        skip = start * dtype.itemsize - first * 4
        return words.view(np.uint8)[skip : skip + count * dtype.itemsize].view(dtype)
    assert isinstance(fill, Uniform)
    index = np.arange(start, start + count, dtype=np.int64).astype(np.uint32)
    unit = (word_hash(index, fill.seed) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    low, high = np.float32(fill.low), np.float32(fill.high)
    return (low + (high - low) * unit).astype(dtype)


class Host:
    """Answer `HostOperands` from declarations: what the device holds before a run, bf16 and f16 as float32."""

    def __init__(self, operands: Iterable[Operand]) -> None:
        self._operands = {operand.name: operand for operand in operands}

    def __call__(self, name: str, start: int = 0, count: int | None = None) -> NDArray[Any]:
        """Return ``count`` elements of operand ``name`` from flat index ``start``."""
        values = host_values(self._operands[name], start, count)
        return values.astype(np.float32) if self._operands[name].dtype in {"bf16", "f16"} else values
