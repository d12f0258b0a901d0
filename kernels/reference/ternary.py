"""The ternary projection in float64: int8 activations, exact inner sums, scales a group (engine-kernels 4 and 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST = np.float32(127.0)


def quantise_small(x: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return codes (T, k) and scales (T, k / 64) of the small-T route (engine-kernels 4.1)."""
    groups = x.reshape(x.shape[0], -1, 64)
    amax = np.maximum(np.abs(groups).max(axis=2), np.float32(1e-20))
    codes = np.clip(np.rint(groups * (_LARGEST / amax)[:, :, None]), -127, 127).astype(np.int8)
    return codes.reshape(x.shape), (amax / _LARGEST).astype(np.float16)


def quantise_tile(x: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return codes (T, k) and scales (T, k / 128) of the tile route (engine-kernels 4.2)."""
    groups = x.reshape(x.shape[0], -1, 128)
    scales = (np.abs(groups).max(axis=2) / _LARGEST).astype(np.float16)
    wide = scales.astype(np.float32)
    inverse = np.divide(np.float32(1.0), wide, out=np.zeros_like(wide), where=wide > 0)
    codes = np.clip(np.rint(groups * inverse[:, :, None]), -127, 127).astype(np.int8)
    return codes.reshape(x.shape), scales


def project(
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    x_codes: NDArray[np.int8],
    x_scales: NDArray[np.float16],
) -> NDArray[np.float64]:
    """Return the product (T, rows) of weights (rows, k) with scales (rows, k / 128) and quantised activations.

    The inner group is the activations' own: k / 64 or k / 128 scales a token.
    """
    rows, k = codes.shape
    tokens, groups = x_scales.shape
    w = codes.reshape(rows, groups, k // groups).astype(np.float64)
    x = x_codes.reshape(tokens, groups, k // groups).astype(np.float64)
    sums = np.matmul(x.transpose(1, 0, 2), w.transpose(1, 2, 0))
    w_scales = np.repeat(scales.astype(np.float64), groups // scales.shape[1], axis=1)
    result: NDArray[np.float64] = np.einsum("gtr,rg,tg->tr", sums, w_scales, x_scales.astype(np.float64), optimize=True)
    return result
