from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.reference.gdn import GdnResult, gated_delta_rule, normalise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def inputs(tokens: int, *, seed: int = 0) -> dict[str, Floats]:
    qk_heads, heads, keys, values = 2, 6, 8, 5
    random = np.random.default_rng(seed)
    return {
        "q": random.standard_normal((tokens, qk_heads, keys)),
        "k": random.standard_normal((tokens, qk_heads, keys)),
        "v": random.standard_normal((tokens, heads, values)),
        "g": -random.uniform(0.001, 0.2, (tokens, heads)),
        "beta": random.uniform(0.1, 0.9, (tokens, heads)),
        "state": random.standard_normal((heads, values, keys)),
    }


def naive(given_inputs: dict[str, Floats], scale: float) -> GdnResult:
    q, k, v = given_inputs["q"], given_inputs["k"], given_inputs["v"]
    tokens, heads, values = v.shape
    keys = q.shape[2]
    group = heads // q.shape[1]
    out = np.zeros(v.shape)
    state = given_inputs["state"].copy()
    for h in range(heads):
        for t in range(tokens):
            norm_k = math.sqrt(sum(x * x for x in k[t, h // group]) + 1e-6)
            norm_q = math.sqrt(sum(x * x for x in q[t, h // group]) + 1e-6)
            decay = math.exp(given_inputs["g"][t, h])
            for i in range(values):
                past = sum(decay * state[h, i, j] * k[t, h // group, j] / norm_k for j in range(keys))
                d = given_inputs["beta"][t, h] * (v[t, h, i] - past)
                for j in range(keys):
                    state[h, i, j] = decay * state[h, i, j] + d * k[t, h // group, j] / norm_k
                out[t, h, i] = scale * sum(state[h, i, j] * q[t, h // group, j] / norm_q for j in range(keys))
    return GdnResult(out=out, state=state)


@pytest.mark.parametrize("tokens", [1, 7, 17])
def test_recurrence_equals_a_loop_over_scalars(tokens: int) -> None:
    case = inputs(tokens)
    found, wanted = gated_delta_rule(**case, scale=0.25), naive(case, 0.25)
    np.testing.assert_allclose(found.out, wanted.out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.state, wanted.state, rtol=1e-12, atol=1e-14)


@given(split=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_prompt_in_two_calls_equals_one_call(split: int, seed: int) -> None:
    case = inputs(13, seed=seed)
    whole = gated_delta_rule(**case, scale=1.0)
    state, parts = case.pop("state"), []
    for piece in (slice(0, split), slice(split, 13)):
        result = gated_delta_rule(**{name: x[piece] for name, x in case.items()}, state=state, scale=1.0)
        state = result.state
        parts.append(result.out)
    np.testing.assert_allclose(np.concatenate(parts), whole.out, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(state, whole.state, rtol=1e-12, atol=1e-14)


def test_no_tokens_leave_the_state_as_it_was() -> None:
    case = inputs(0)
    result = gated_delta_rule(**case, scale=1.0)
    assert result.out.shape == (0, 6, 5)
    np.testing.assert_array_equal(result.state, case["state"])


def test_caller_keeps_its_state() -> None:
    case = inputs(3)
    before = case["state"].copy()
    gated_delta_rule(**case, scale=1.0)
    np.testing.assert_array_equal(case["state"], before)


def test_zero_beta_only_decays_and_full_beta_stores_the_value() -> None:
    case = inputs(1)
    case["beta"][:] = 0.0
    kept = gated_delta_rule(**case, scale=1.0)
    np.testing.assert_allclose(kept.state, case["state"] * np.exp(case["g"][0])[:, None, None], rtol=1e-12)
    case["beta"][:] = 1.0
    stored = gated_delta_rule(**case, scale=1.0)
    keys = np.repeat(normalise(case["k"][0]), 3, axis=0)
    np.testing.assert_allclose((stored.state @ keys[:, :, None])[:, :, 0], case["v"][0], atol=1e-5)


def test_zero_key_normalises_to_zero_and_not_to_nan() -> None:
    assert not normalise(np.zeros((2, 128))).any()
