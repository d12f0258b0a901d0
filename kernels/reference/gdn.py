"""Gated delta rule in float64, token after token, all heads of a token at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NORM_EPS = 1e-6
"""Inside the root of the query/key normalisation (engine-kernels 8.1)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GdnResult:
    """Outputs ``(tokens, value heads, value dim)`` and the state after the last token."""

    out: Floats
    state: Floats


def normalise(x: NDArray[np.floating]) -> Floats:
    """Return ``x * rsqrt(sum x^2 + 1e-6)`` over the last axis, in float64."""
    wide = np.asarray(x, dtype=np.float64)
    norm: Floats = np.sqrt(np.sum(wide * wide, axis=-1, keepdims=True) + NORM_EPS)
    return wide / norm


def gated_delta_rule(
    *,
    q: NDArray[np.floating],
    k: NDArray[np.floating],
    v: NDArray[np.floating],
    g: NDArray[np.floating],
    beta: NDArray[np.floating],
    state: NDArray[np.floating],
    scale: float,
) -> GdnResult:
    """Run the rule over all tokens.

    Args:
        q: ``(tokens, query/key heads, key dim)``, before normalisation.
        k: as q.
        v: ``(tokens, value heads, value dim)``; value head h reads query/key head ``h // (value heads / qk heads)``.
        g: log decay, ``(tokens, value heads)``, at most 0.
        beta: ``(tokens, value heads)``, 0 to 1.
        state: before the first token, ``(value heads, value dim, key dim)``.
        scale: of the outputs, after the product with q.

    Spec: engine-kernels 8.1.
    """
    tokens, heads, _ = v.shape
    group = heads // q.shape[1]
    keys = np.repeat(normalise(k), group, axis=1)
    queries = np.repeat(normalise(q), group, axis=1)
    decay = np.exp(np.asarray(g, dtype=np.float64))
    now: Floats = np.array(state, dtype=np.float64)
    out = np.empty(v.shape, dtype=np.float64)
    for token in range(tokens):
        key = keys[token][:, :, None]
        now *= decay[token][:, None, None]
        delta = beta[token][:, None] * (v[token] - (now @ key)[:, :, 0])
        now += delta[:, :, None] * keys[token][:, None, :]
        out[token] = scale * (now @ queries[token][:, :, None])[:, :, 0]
    return GdnResult(out=out, state=now)
