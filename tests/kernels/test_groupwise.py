"""Groupwise projections: references against a naive loop, and what their plans launch."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from generator.core.fill import Host
from generator.core.route import I32, DeviceFacts, Schedule
from kernels import ROOT
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.q4_linear_add import FAMILY as Q4_ADD
from kernels.q4_linear_swiglu import FAMILY as SWIGLU
from kernels.q4_q5_attn_input import FAMILY as ATTN
from kernels.q4_q5_gdn_input import FAMILY as GDN
from kernels.q5_linear_add import FAMILY as Q5_ADD
from kernels.reference.formats import Q4, Q5, Q6

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from generator.core.route import Launch, Route
    from kernels.reference.formats import RowSplitFormat

FAMILIES = (Q4_ADD, SWIGLU, ATTN, GDN, Q5_ADD)
ROUTES = [route for family in FAMILIES for route in family.routes]
RTX_3090 = DeviceFacts(capability=86, multiprocessors=82)
ATTN_KEY, ATTN_SWITCH = (route.key for route in ATTN.routes)
GDN_KEY, GDN_SWITCH = (route.key for route in GDN.routes)
SWIGLU_KEY, SWIGLU_SWITCH = (route.key for route in SWIGLU.routes)


def plan(route: Route, width: int, schedules: Mapping[Any, str]) -> tuple[Launch, ...]:
    assert route.operation is not None
    return route.operation.plan(width, lambda key, _: Schedule(schedules.get(key, "")), RTX_3090)


def all_plans() -> Iterator[tuple[Route, int, str, tuple[Launch, ...]]]:
    for route in ROUTES:
        under: dict[Any, str] = {} if route.acts_under is None else {route.acts_under[0]: route.acts_under[1]}
        for width in route.widths:
            for candidate in route.candidates:
                if candidate.legal(width):
                    schedules = {**under, route.key: candidate.schedule}
                    yield route, width, candidate.schedule, plan(route, width, schedules)


def code(form: RowSplitFormat, low: int, high: np.ndarray, index: int) -> int:
    """Return the code at ``index`` of a group, bit by bit as engine-kernels 3.1 states it."""
    nibble = low >> 4 * (index % 2) & 15
    if form is Q5:
        nibble |= (int(high[index // 8]) >> index % 8 & 1) << 4
    if form is Q6:
        nibble |= (int(high[index // 4]) >> 2 * (index % 4) & 3) << 4
    return nibble - (1 << form.bits if nibble >> form.bits - 1 else 0)


@pytest.mark.parametrize("form", [Q4, Q5, Q6])
@pytest.mark.parametrize("kind", ["store", "residual", "gated"])
def test_reference_agrees_with_a_naive_loop(form: RowSplitFormat, kind: str) -> None:
    rows, k, width = 4, 128, 2
    weights = Weights(name="w", form=form, rows=rows * (2 if kind == "gated" else 1), k=k)
    operation = GroupwiseOperation(
        k=k,
        columns=width,
        results=(Output(name="out", pieces=(Piece(weights=weights, first=0, rows=rows),)),),
        planner=lambda _width, _ask, _device: (),
        residual=kind == "residual",
        gated=kind == "gated",
    )
    host = Host(operation.operands)
    codes = host("w.codes").reshape(weights.rows, k // 64, 32)
    high = (
        host("w.high").reshape(weights.rows, k // 64, -1) if form.high_bytes else np.zeros((weights.rows, k // 64, 1))
    )
    scales, x = host("w.scales").reshape(weights.rows, -1), host("x").reshape(width, k)

    def dot(row: int, token: int) -> float:
        total = 0.0
        for i in range(k):
            value = code(form, int(codes[row, i // 64, i % 64 // 2]), high[row, i // 64], i % 64)
            total += float(scales[row, i // 64]) * value * float(x[token, i])
        return total

    expected = operation.reference(width, host)["out"]
    assert sorted(expected.indices.tolist()) == list(range(width * rows))
    for index, value in zip(expected.indices.tolist(), expected.values.tolist(), strict=True):
        token, row = divmod(index, rows)
        want = dot(row, token)
        if kind == "residual":
            want += float(host("out")[index])
        if kind == "gated":
            want = want / (1 + math.exp(-want)) * dot(row + rows, token)
        assert value == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_packed_bytes_are_those_of_the_specification() -> None:
    sizes = {
        weights.rows * weights.k * weights.form.bits: weights.bytes
        for route in ROUTES
        if isinstance(route.operation, GroupwiseOperation)
        for weights in route.operation.weights
    }
    assert sorted(sizes.values()) == [
        11_141_120,
        16_711_680,
        19_496_960,
        20_643_840,
        24_084_480,
        41_287_680,
        47_349_760,
        58_490_880,
        94_699_520,
    ]


def test_every_plan_names_a_kernel_of_its_source_and_existing_operands() -> None:
    shared = (ROOT / "include/dual_parent.cuh").read_text()
    texts = {}
    for family in FAMILIES:
        text = (ROOT / f"{family.source}.cu").read_text()
        if '#include "dual_parent.cuh"' in text:
            text += re.sub(r"DUAL_PARENT\((\w+)\)", rf"{family.source}_\1", shared)
        texts[family.source] = text
    for route, width, schedule, launches in all_plans():
        assert route.operation is not None
        names = {operand.name for operand in route.operation.operands}
        for launch in launches:
            kernel = launch.kernel.split("<")[0]
            assert f" {kernel}(" in texts[launch.source], (route.key, width, schedule)
            assert {arg.name for arg in launch.args if hasattr(arg, "name")} <= names
            assert I32(width) in launch.args


def test_the_compiled_route_covers_every_width_and_is_the_schedule_it_names() -> None:
    for route in ROUTES:
        if route.key.startswith("unified/"):
            continue
        for width in (*route.widths, 65, 96, 104, 127, 128, 129, 160, 192, 512, 600, 1024, 1100):
            named = route.compiled.at(width, 86)
            compiled = plan(route, width, {})
            if route.candidate(named) is not None:
                assert compiled == plan(route, width, {route.key: named})


def test_a_remainder_up_to_192_columns_is_a_launch_of_its_own() -> None:
    route = Q5_ADD.routes[0]
    assert [launch.args[-1] for launch in plan(route, 1100, {})] == [I32(1024), I32(76)]
    assert [launch.args[-1] for launch in plan(route, 1217, {})] == [I32(1217)]
    assert [launch.args[-1] for launch in plan(route, 1024, {})] == [I32(1024)]
    unified = {"unified/q5_linear_add/5120x6144": "unified"}
    assert [launch.args[-1] for launch in plan(route, 514, unified)] == [I32(512), I32(2)]


def test_the_unified_switch_of_q5_is_asked_before_the_schedule() -> None:
    route = Q5_ADD.routes[0]
    both = {route.key: "mma_r64_c16", "unified/q5_linear_add/5120x6144": "unified"}
    assert plan(route, 16, both) == plan(route, 16, {"unified/q5_linear_add/5120x6144": "unified"})


def test_the_schedule_of_q4_is_asked_before_the_unified_switch() -> None:
    route = Q4_ADD.routes[0]
    both = {route.key: "small_t_c16", "unified/q4_linear_add": "unified"}
    assert plan(route, 16, both) == plan(route, 16, {route.key: "small_t_c16"})
    assert plan(route, 16, {"unified/q4_linear_add": "unified"}) != plan(route, 16, {})


def test_the_unified_switch_of_q4_acts_on_6144_alone() -> None:
    wide = Q4_ADD.routes[1]
    assert plan(wide, 16, {"unified/q4_linear_add": "unified"}) == plan(wide, 16, {})


@pytest.mark.parametrize("route", [ATTN.routes[1], GDN.routes[1]])
def test_an_input_switch_changes_nothing_under_the_compiled_schedule(route: Route) -> None:
    for width in route.widths:
        assert plan(route, width, {route.key: "unified"}) == plan(route, width, {})


def test_the_swiglu_switch_acts_under_small_t_tiled_alone() -> None:
    route = SWIGLU.routes[1]
    assert plan(route, 1, {SWIGLU_SWITCH: "unified"}) == plan(route, 1, {})
    assert plan(route, 8, {SWIGLU_SWITCH: "unified"}) != plan(route, 8, {})
    other = {SWIGLU_KEY: "split_half_pair_c40"}
    assert plan(route, 8, {**other, SWIGLU_SWITCH: "unified"}) == plan(route, 8, other)


def test_c128_tail_is_c128_below_128_columns_and_where_the_remainder_is_wide() -> None:
    route = SWIGLU.routes[0]
    for width in (1, 32, 64, 127, 128, 169, 256):
        tail = plan(route, width, {SWIGLU_KEY: "split_half_pair_c128_tail"})
        assert tail == plan(route, width, {SWIGLU_KEY: "split_half_pair_c128"})
    kernels = [launch.kernel.split("<")[0] for launch in plan(route, 129, {SWIGLU_KEY: "split_half_pair_c128_tail"})]
    assert kernels == ["q4_linear_swiglu_split_half", "q4_linear_swiglu_gemv_pair"]


def test_both_direct_forms_overlap_their_launches_at_four_columns_alone() -> None:
    for switch in ("", "unified"):
        for width in GDN.routes[1].widths:
            launches = plan(GDN.routes[0], width, {GDN_KEY: "independent_direct", GDN_SWITCH: switch})
            assert [launch.dependent for launch in launches] == [False, width == 4]
            assert launches[0].args[0] == plan(GDN.routes[0], 1, {})[0 if width == 4 else 1].args[0]


def test_grids_are_those_of_the_specification() -> None:
    def grids(route: Route, width: int, schedule: str) -> list[tuple[int, int]]:
        return [launch.grid[:2] for launch in plan(route, width, {route.key: schedule})]

    assert grids(ATTN.routes[0], 64, "mixed_r32_c64_s3") == [(448, 1)]
    assert grids(GDN.routes[0], 64, "grouped_r64_c64") == [(256, 1)]
    assert grids(GDN.routes[0], 64, "grouped_r32_c32_s2") == [(512, 2)]
    assert grids(Q5_ADD.routes[0], 64, "mma_r64_c24") == [(80, 3)]
    assert grids(Q5_ADD.routes[0], 8, "small_t_mma") == [(320, 1)]
    assert grids(Q5_ADD.routes[0], 16, "small_t_mma") == [(160, 1)]
    assert grids(Q5_ADD.routes[0], 2, "split2_exact") == [(5120, 1)]
    assert grids(Q4_ADD.routes[0], 8, "small_t_c8") == [(320, 1)]
    assert grids(SWIGLU.routes[0], 1, "gemv_pair") == [(4352, 1)]
    assert [grids(SWIGLU.routes[0], width, "small_t_tiled")[0][0] for width in (8, 16, 24, 32)] == [
        2176,
        1088,
        544,
        544,
    ]
    assert grids(SWIGLU.routes[0], 40, "split_half_pair_c40") == [(544, 1)]
