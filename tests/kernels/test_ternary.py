"""Ternary projections: reference against a naive loop, and what their plans launch."""

from __future__ import annotations

import numpy as np
import pytest

from generator.core.route import COMPILED, I32, Buf, DeviceFacts, RouteKey, Schedule
from kernels import ROOT
from kernels.reference.ternary import project, quantise_small, quantise_tile
from kernels.t2_i8_route import FAMILY as ROUTE
from kernels.t2_i8_small import FAMILY as SMALL
from kernels.ternary import SMALL_TILES

H200 = DeviceFacts(capability=90, multiprocessors=132)
GDN, ATTN, OUT = (route.operation for route in SMALL.routes[:3])
LAYER = ROUTE.routes[0].operation


def compiled(_key: RouteKey, _width: int) -> Schedule:
    return COMPILED


@pytest.mark.parametrize("group", [64, 128])
def test_reference_agrees_with_a_naive_loop(group: int) -> None:
    rng = np.random.default_rng(group)
    x = rng.uniform(-1, 1, (2, 256)).astype(np.float32)
    x_codes, x_scales = quantise_small(x) if group == 64 else quantise_tile(x)
    codes = rng.integers(-2, 2, (3, 256)).astype(np.int8)
    scales = rng.uniform(-0.02, 0.02, (3, 2)).astype(np.float32)
    got = project(codes, scales, x_codes, x_scales)
    for t in range(2):
        for n in range(3):
            want = 0.0
            for k in range(256):
                w = float(scales[n, k // 128]) * int(codes[n, k])
                want += w * float(x_scales[t, k // group]) * int(x_codes[t, k])
            assert got[t, n] == pytest.approx(want, rel=1e-12)


def test_quantised_activations_are_within_half_a_step() -> None:
    x = np.random.default_rng(3).normal(size=(2, 256)).astype(np.float32)
    for codes, scales, group in ((*quantise_small(x), 64), (*quantise_tile(x), 128)):
        step = np.repeat(scales.astype(np.float32), group, axis=1)
        assert np.all(np.abs(codes * step - x) <= 0.55 * step)


def test_a_zero_group_has_zero_codes_on_both_routes() -> None:
    for quantise in (quantise_small, quantise_tile):
        codes, scales = quantise(np.zeros((1, 128), np.float32))
        assert not codes.any()
        assert not scales.any()


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("r16c8", 16, 8), ("r32c32", 32, 32), ("r32c8k4", 32, 8), ("r32c16k8", 32, 16), ("r16c32", 16, 32)],
)
def test_a_schedule_names_its_tile(name: str, rows: int, columns: int) -> None:
    assert (SMALL_TILES[name].rows, SMALL_TILES[name].columns) == (rows, columns)


def test_a_pair_is_one_quantisation_and_one_launch_over_both_parents() -> None:
    assert GDN is not None
    quantise, launch = GDN.plan(5, compiled, H200)
    assert (quantise.kernel, quantise.grid) == ("t2_a8_small", (10, 8, 1))
    assert (launch.kernel, launch.grid) == ("t2_i8_small<8, 1, 1, 2, 4, 2>", (1024, 1, 1))
    assert launch.args[6:10] == (Buf("gdn.qkv"), Buf("gdn.qkv"), Buf("gdn.qkv", 4096), Buf("gdn.z"))
    assert launch.args[10:] == tuple(map(I32, (5120, 4096, 4096, 6144, 10240, 10240, 10240, 6144, 5, 0)))


def test_a_schedule_too_narrow_for_its_span_runs_the_compiled_one() -> None:
    assert OUT is not None
    assert OUT.plan(9, lambda _key, _width: Schedule("r16c8"), H200) == OUT.plan(9, compiled, H200)


def test_naming_the_compiled_schedule_is_the_same_plan() -> None:
    assert OUT is not None
    assert OUT.plan(8, lambda _key, _width: Schedule("r16c8"), H200) == OUT.plan(8, compiled, H200)
    assert OUT.plan(8, lambda _key, _width: Schedule("r16c8s3"), H200) != OUT.plan(8, compiled, H200)


def test_each_span_of_a_wide_small_route_asks_the_key_of_its_shape() -> None:
    assert LAYER is not None
    asked: list[tuple[str, int]] = []

    def ask(key: RouteKey, width: int) -> Schedule:
        asked.append((key, width))
        return COMPILED

    launches = LAYER.plan(48, ask, H200)
    assert asked[0] == ("t2_i8_route", 48)
    assert asked[1:3] == [("t2_i8_small/4096+12288x5120", 32), ("t2_i8_small/4096+12288x5120", 16)]
    assert asked[-1] == ("t2_i8_small/5120x17408", 16)
    assert len(launches) == 12
    assert launches[2].args[4:6] == (Buf("gdn.small_codes", 32 * 64), Buf("gdn.small_scales", 64))


def test_a_projection_that_fills_the_device_begins_while_the_kernel_before_it_runs() -> None:
    gate_up, down = (route.operation for route in SMALL.routes[3:5])
    assert gate_up is not None
    assert down is not None
    assert [launch.dependent for launch in gate_up.plan(1, compiled, H200)] == [False, True]
    assert [launch.dependent for launch in down.plan(1, compiled, H200)] == [False, False]
    for multiprocessors, dependent in ((320 // 3, True), (320 // 3 + 1, False)):
        device = DeviceFacts(capability=90, multiprocessors=multiprocessors)
        assert [launch.dependent for launch in down.plan(1, compiled, device)] == [False, dependent]


def test_the_tile_route_overlaps_nothing() -> None:
    assert LAYER is not None
    assert not any(launch.dependent for launch in LAYER.plan(192, lambda _key, _width: Schedule("tile"), H200))


def test_the_projection_reads_activations_after_the_kernel_before_has_ended() -> None:
    source = (ROOT / "t2_i8_small.cu").read_text()
    _, quantise, project_small = source.split("__launch_bounds__")
    assert "  allow_dependents();" in quantise
    assert "wait_for_kernel_before();" not in quantise
    steps = ("fetch(slab, slab);", "  allow_dependents();", "  wait_for_kernel_before();", "read_x(j, ", "store_tile(")
    places = [project_small.index(step) for step in steps]
    assert places == sorted(places)
    assert "x_codes" not in project_small[project_small.index("{") : places[2]]


def test_the_tile_route_launches_each_parent() -> None:
    assert LAYER is not None
    launches = LAYER.plan(65, compiled, H200)
    assert [launch.kernel for launch in launches] == [
        *("t2_a8_tile", "t2_i8_route", "t2_i8_route"),
        *("t2_a8_tile", "t2_i8_route") * 3,
    ]
    assert launches[2].grid == (2, 96, 1)


def test_small_is_ignored_beyond_its_columns() -> None:
    assert LAYER is not None
    assert LAYER.plan(193, lambda _key, _width: Schedule("small"), H200) == LAYER.plan(193, compiled, H200)


def test_the_compared_plane_comes_first() -> None:
    assert LAYER is not None
    assert ATTN is not None
    assert [plane.name for plane in ATTN.outputs(2)] == ["attn.q", "attn.k", "attn.gate", "attn.v"]
    assert LAYER.outputs(2)[0].name == "gate_up.gate_up"
    assert [plane.name for plane in LAYER.restored(2)] == ["out.residual", "down.down"]


def test_the_floor_counts_packed_weights_and_activations() -> None:
    assert OUT is not None
    assert OUT.floor_bytes(2) == 8_355_840 + 2 * 2 * (6144 + 2 * 5120)
