"""What the Q6 head launches."""

from __future__ import annotations

import pytest

from generator.core.route import COMPILED, DeviceFacts, Schedule
from kernels.q6_head import FAMILY, TABLE

ROUTE = FAMILY.routes[0]


def kernel(schedule: str, width: int, capability: int = 90) -> tuple[str, tuple[int, int, int]]:
    assert ROUTE.operation is not None
    device = DeviceFacts(capability=capability, multiprocessors=100)
    (launch,) = ROUTE.operation.plan(width, lambda _key, _width: Schedule(schedule), device)
    return launch.kernel, launch.grid


@pytest.mark.parametrize("width", [1, 2])
def test_gemv_has_one_instantiation_a_width(width: int) -> None:
    assert kernel("gemv", width) == (f"q6_head_simt<{width}, 3>", (31040, 1, 1))


@pytest.mark.parametrize(("width", "tiles"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (32, 4)])
def test_small_t_takes_as_many_column_tiles_as_the_width_needs(width: int, tiles: int) -> None:
    assert kernel("small_t", width) == (f"q6_head_small_t<{tiles}>", (15520, 1, 1))


def test_gemv_beyond_two_columns_runs_the_compiled_route() -> None:
    assert kernel("gemv", 3) == kernel(COMPILED, 3) == ("q6_head_simt<4, 2>", (31040, 1, 1))


def test_the_compiled_route_of_an_unknown_capability_is_the_legacy_table() -> None:
    assert kernel(COMPILED, 8) == ("q6_head_mma<GemmCfg<64, 16, 128, 16, 8, 2, 2>>", (3880, 1, 1))


@pytest.mark.parametrize(
    ("capability", "width", "sliced"),
    [(86, 3, False), (86, 4, True), (86, 19, False), (89, 6, False), (89, 7, True), (120, 4, True), (120, 32, True)],
)
def test_the_unified_table_answers_inside_its_widths(capability: int, width: int, sliced: bool) -> None:
    assert kernel(COMPILED, width, capability)[0].startswith("q6_head_sliced") == sliced


@pytest.mark.parametrize("width", [33, 60, 80, 96, 200])
def test_every_compiled_tile_is_declared(width: int) -> None:
    for capability in (86, 89, 90, 120):
        assert kernel(COMPILED, width, capability)[0].startswith("q6_head_mma<GemmCfg<64, ")


def test_reading_the_packed_weights_is_most_of_the_floor() -> None:
    assert ROUTE.operation is not None
    assert ROUTE.operation.floor_bytes(1) == 993_280_000 + 2 * (5120 + 248320)


def test_compiled_route_takes_the_unified_table_exactly_inside_each_capability_s_widths() -> None:
    inside: dict[int, set[int]] = {
        86: {*range(4, 19), *range(21, 41), *range(56, 97)},
        90: set(),
        120: {*range(4, 33), *range(56, 97)},
    }
    for capability, widths in inside.items():
        for width in range(1, 200):
            # Only these widths can tell the two tables apart by name.
            if width in {*range(3, 33), *range(49, 97)}:
                unified = TABLE.at(width, capability) != TABLE.at(width)
                assert unified == (width in widths), (capability, width)
