"""Every form of the GDN kernels against the float64 recurrence; the Volta form too, since it runs on every device."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from generator.core.route import DeviceFacts, Given, Plane, Poison, RouteKey
from kernels import ROOT
from kernels.gdn_plan import SCALE, GdnPrefill, value_dims
from kernels.reference.gdn import gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from generator.core.route import Launch

pytestmark = pytest.mark.gpu

WIDTHS = (1, 15, 16, 17, 33, 63, 64, 65, 100, 128, 130, 191, 320)
"""One token, both sides of a chunk of 16 and of 64, whole chunks, tails of every kind."""

MOST_ERROR = 1e-2
TOKENS = 384


def gates(kind: str, random: np.random.Generator, heads: int) -> dict[str, NDArray[Any]]:
    shape = (WIDTHS[-1], heads)
    if kind == "extreme":
        return {
            "g": random.choice(np.array([0, -50, -0.01, -1e-6, -5], np.float32), shape),
            "beta": random.choice(np.array([0, 1, 0.5], np.float32), shape),
        }
    return {
        "g": -np.exp(random.uniform(np.log(0.001), np.log(0.2), shape)).astype(np.float32),
        "beta": random.uniform(0.05, 0.95, shape).astype(np.float32),
    }


@cache
def inputs(heads: int, kind: str) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(heads)
    tokens = WIDTHS[-1]

    def rows(count: int) -> NDArray[Any]:
        return random.standard_normal((tokens, count, 128)).astype(ml_dtypes.bfloat16)

    values = {"q": rows(16), "k": rows(16), "v": rows(heads), **gates(kind, random, heads)}
    values["state_in"] = (random.standard_normal((heads, 128, 128)) * 0.3).astype(np.float32)
    if kind == "extreme":
        values["q"][5::11] = values["k"][3::7] = values["v"][4::13] = 0
    return values


@cache
def wanted(heads: int, kind: str) -> tuple[NDArray[np.float64], dict[int, NDArray[np.float64]]]:
    case = dict(inputs(heads, kind))
    state, outs, states, first = case.pop("state_in"), [], {}, 0
    for width in WIDTHS:
        part = {name: np.asarray(x[first:width], np.float64) for name, x in case.items()}
        result = gated_delta_rule(**part, state=state, scale=SCALE)
        state, first = result.state, width
        outs.append(result.out)
        states[width] = result.state
    return np.concatenate(outs), states


def plans(operation: GdnPrefill, width: int, facts: DeviceFacts) -> Iterator[tuple[str, tuple[Launch, ...]]]:
    volta = dataclasses.replace(facts, capability=70)
    yield "recurrent", (operation.recurrent(0, width),)
    for name, device in (("", facts), (", Volta", volta)):
        yield f"pipeline{name}", operation.pipeline(width, device)
        if width >= 16:
            dims = value_dims(operation.heads, device.multiprocessors)
            yield f"two stages{name}", operation.two_stage(width, device, dims=dims)
    for dims in (8, 16, 32, 64):
        for roles in (1, 2):
            if width >= 16:
                yield f"two stages of {dims}, {roles}", operation.two_stage(width, facts, dims=dims, roles=roles)


def relative(found: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))


@pytest.mark.parametrize("kind", ["realistic", "extreme"])
@pytest.mark.parametrize("heads", [48, 32])
@pytest.mark.timeout(300)
def test_every_form_agrees_with_the_recurrence_and_writes_no_further(heads: int, kind: str) -> None:
    import cupy

    from generator.gpu.arena import Arena, Kernels
    from generator.gpu.compile import compile_unit

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    facts = DeviceFacts(
        capability=properties["major"] * 10 + properties["minor"],
        multiprocessors=properties["multiProcessorCount"],
        shared_per_block_bytes=properties["sharedMemPerBlockOptin"],
    )
    arch = f"sm_{facts.capability}"
    operation = GdnPrefill(key=RouteKey(f"gdn_two_stage/h{heads}"), heads=heads, widest=TOKENS)
    given = inputs(heads, kind)

    def filled(name: str) -> Given:
        values = given[name]
        if name != "state_in":  # what lies past the last token must not matter
            rest = np.full((TOKENS - len(values), *values.shape[1:]), np.nan, values.dtype)
            values = np.concatenate([values, rest])
        return Given(make=lambda: values)

    operands = [
        dataclasses.replace(item, fill=filled(item.name)) if item.name in given else item for item in operation.operands
    ]
    arena, kernels = Arena(operands, arch), Kernels()
    scratch = [item.name for item in operands if isinstance(item.fill, Poison)]
    every = {
        (item.source, item.kernel) for width in WIDTHS for _, plan in plans(operation, width, facts) for item in plan
    }
    for source in sorted({name for name, _ in every}):
        names = sorted(kernel for name, kernel in every if name == source)
        kernels.load(source, compile_unit(ROOT, source, names, arch))
    outs, states = wanted(heads, kind)
    failures: list[str] = []
    for width in WIDTHS:
        for name, plan in plans(operation, width, facts):
            arena.restore(scratch)
            arena.run(plan, kernels)
            out = arena.read(Plane("out", width * heads * 128)).astype(np.float64).reshape(width, heads, 128)
            state = arena.read(Plane("state_out", heads * 128 * 128)).astype(np.float64).reshape(heads, 128, 128)
            errors = relative(out, outs[:width]), relative(state, states[width])
            if not max(errors) <= MOST_ERROR:
                failures.append(f"{name} at {width}: out {errors[0]:.2e} state {errors[1]:.2e}")
            if arena.strays(operation.outputs(width)):
                failures.append(f"{name} at {width}: wrote outside its outputs")
    assert failures == []
