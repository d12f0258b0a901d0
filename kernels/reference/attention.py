"""Attention over a quantised paged cache in float64, for sampled query rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.reference.kv import CODINGS, KV_HEADS, PAGE_TOKENS, decode_keys, decode_values, quantise_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from generator.core.route import HostOperands

GROUP = 6
"""Query heads of a KV head."""

QUERY_HEADS = 24
SCALE = 0.0625


def query(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return query rows ``(..., 256)`` rotated, quantised per 64 dims and scaled back, in float64."""
    codes, scales = quantise_query(rows)
    wide = codes.astype(np.float64).reshape(*scales.shape, 64) * scales.astype(np.float64)[..., None]
    return wide.reshape(rows.shape)


def read_head(host: HostOperands, coding: str, head: int, keys: int) -> tuple[NDArray[np.float32], NDArray[np.float16]]:
    """Return decoded keys and values ``(keys, 256)`` of one KV head, through the page table.

    The operands are named ``<coding>_key_codes`` and so on, and ``pages``.
    """
    sizes = CODINGS[coding]
    table = host("pages")
    decoded_keys = np.empty((keys, 256), dtype=np.float32)
    decoded_values = np.empty((keys, 256), dtype=np.float16)
    for first in range(0, keys, PAGE_TOKENS):
        count = min(PAGE_TOKENS, keys - first)
        row = (int(table[first // PAGE_TOKENS]) * KV_HEADS + head) * PAGE_TOKENS

        def plane(name: str, width: int, row: int = row, count: int = count) -> NDArray[Any]:
            return host(f"{coding}_{name}", row * width, count * width).reshape(count, width)

        part = slice(first, first + count)
        codes, scales = plane("key_codes", sizes.key_bytes), plane("key_scales", sizes.key_scales)
        decoded_keys[part] = decode_keys(coding, codes, scales)
        codes, scales = plane("value_codes", sizes.value_bytes), plane("value_scales", sizes.value_scales)
        decoded_values[part] = decode_values(coding, codes, scales)
    return decoded_keys, decoded_values


def attend(
    queries: NDArray[Any], visible: Sequence[int], keys: NDArray[np.float32], values: NDArray[np.float16]
) -> NDArray[np.float64]:
    """Return ``(n, 256)``: row i attends to the first ``visible[i]`` keys of one KV head."""
    wide = query(queries)
    out = np.empty(wide.shape, dtype=np.float64)
    for row, (vector, count) in enumerate(zip(wide, visible, strict=True)):
        scores = SCALE * (keys[:count].astype(np.float64) @ vector)
        weights = np.exp(scores - scores.max())
        out[row] = (weights @ values[:count].astype(np.float64)) / weights.sum()
    return out
