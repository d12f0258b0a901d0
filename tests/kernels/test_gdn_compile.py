from __future__ import annotations

import pytest

from generator.core.route import COMPILED, DeviceFacts, RouteKey, Schedule
from generator.gpu.compile import Compiled, compile_unit
from generator.gpu.nvrtc import find_toolkits
from kernels import ROOT
from kernels.gdn_two_stage import FAMILY

MOST_SPILLED_BYTES = 64
"""Of one thread: addresses set aside once, not what a loop works on."""


def compile_for(capability: int, multiprocessors: int) -> dict[str, Compiled]:
    facts = DeviceFacts(capability=capability, multiprocessors=multiprocessors)

    def forced(schedule: Schedule) -> set[tuple[str, str]]:
        def ask(_key: RouteKey, _width: int) -> Schedule:
            return schedule

        return {
            (launch.source, launch.kernel)
            for route in FAMILY.routes
            if route.operation is not None
            for launch in route.operation.plan(96, ask, facts)
        }

    arch = f"sm_{capability}"
    wanted = forced(COMPILED) | forced(Schedule("on"))
    return {
        source: compile_unit(ROOT, source, [kernel for name, kernel in sorted(wanted) if name == source], arch)
        for source in sorted({name for name, _ in wanted})
    }


def spilled(units: dict[str, Compiled]) -> dict[str, int]:
    return {
        kernel: report.spill_store_bytes
        for unit in units.values()
        for kernel, report in unit.reports.items()
        if report.spill_store_bytes > MOST_SPILLED_BYTES
    }


def test_kernels_of_both_routes_compile_without_spills_in_their_loops() -> None:
    if not any(toolkit.major >= 13 for toolkit in find_toolkits()):
        pytest.skip("NVRTC 13 is not installed (extra cuda13)")
    assert spilled(compile_for(86, 82)) == {}


def test_kernels_of_both_routes_compile_for_volta() -> None:
    if not any(toolkit.major == 12 for toolkit in find_toolkits()):
        pytest.skip("NVRTC 12.9 is not installed (extra cuda12), and later releases do not know sm_70")
    units = compile_for(70, 80)
    assert sorted(units) == ["gdn_pipeline", "gdn_two_stage"]
    assert spilled(units) == {}
