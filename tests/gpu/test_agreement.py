"""On a GPU: every legal candidate at every measured width agrees with its operation's wide reference.

A reference covers the planes it can afford; every plane is compared with the compiled route's too.
Inputs are restored and outputs poisoned before each run; guard zones around every buffer stay as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from generator.core.catalog import build_catalog
from generator.core.dispatch import dispatcher
from generator.core.fill import Host
from generator.core.limits import LIMITS
from generator.core.route import COMPILED, DeviceFacts, Route
from kernels import ROOT, find_families

if TYPE_CHECKING:
    from generator.gpu.arena import Arena

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

CATALOG = build_catalog(find_families())


@pytest.mark.parametrize("route", CATALOG.calibrated, ids=lambda route: route.key)
def test_every_legal_candidate_agrees_with_the_reference(route: Route) -> None:
    if route.operation is None:
        pytest.skip("pending")
    import cupy

    from generator.gpu.arena import Arena, Kernels
    from generator.gpu.kernel_cache import KernelCache, cache_folder, wanted_kernels

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    device = DeviceFacts(
        capability=properties["major"] * 10 + properties["minor"],
        multiprocessors=properties["multiProcessorCount"],
        shared_per_block_bytes=properties["sharedMemPerBlockOptin"],
        l2_bytes=properties["l2CacheSize"],
    )
    arch = f"sm_{device.capability}"
    operation = route.operation
    plans = {
        (width, name): operation.plan(width, dispatcher(CATALOG, {}, force=(route.key, name)), device)
        for width in route.widths
        for name in (COMPILED, *(item.schedule for item in route.candidates if item.legal(width)))
    }
    kernels = Kernels()
    for stem, unit in KernelCache(cache_folder()).compile(ROOT, wanted_kernels(plans.values()), arch):
        kernels.load(stem, unit)
    arena = Arena(operation.operands, arch)
    host = Host(operation.operands)
    wrong: list[str] = []
    for width in route.widths:
        reference = operation.reference(width, host)
        restored = [*arena.poisoned(), *(plane.name for plane in operation.restored(width))]
        compiled: dict[str, object] = {}
        for (at, name), plan in plans.items():
            if at != width:
                continue
            arena.restore(restored)
            arena.run(plan, kernels)
            cupy.cuda.runtime.deviceSynchronize()
            if name == COMPILED:
                compiled = {plane.name: arena.copy(plane) for plane in operation.outputs(width)}
            found = [*faults(arena, route, width, reference), *differences(arena, route, width, compiled)]
            wrong += [f"w={width} {name or 'compiled'}: {text}" for text in found]
    assert wrong == []


def faults(arena: Arena, route: Route, width: int, reference: object) -> list[str]:
    assert route.operation is not None
    assert isinstance(reference, dict)
    found: list[str] = []
    stray = arena.strays(route.operation.outputs(width))
    if stray:
        found.append(f"{stray} bytes written outside the outputs")
    for plane in route.operation.outputs(width):
        if plane.name not in reference:
            continue
        expected = reference[plane.name]
        values = arena.sample(plane, expected.indices)
        if not np.isfinite(values).all():
            found.append(f"{plane.name} is not finite")
            continue
        scale = max(LIMITS.mismatch_floor, float(np.abs(expected.values).max()))
        error = float(np.abs(values - expected.values).max()) / scale
        if error > LIMITS.max_mismatch:
            found.append(f"{plane.name} differs by {error:.3g}")
    return found


def differences(arena: Arena, route: Route, width: int, compiled: dict[str, object]) -> list[str]:
    assert route.operation is not None
    found: list[str] = []
    for plane in route.operation.outputs(width):
        ratio = arena.compare(compiled[plane.name], plane).ratio(LIMITS.mismatch_floor)
        if ratio is None or ratio > LIMITS.max_mismatch:
            found.append(f"{plane.name} is {'not finite' if ratio is None else f'{ratio:.3g} from the compiled route'}")
    return found
