from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from generator.core.fill import Host, operand_bytes
from generator.core.route import COMPILED, Buf, DeviceFacts, Launch, RouteKey, Schedule
from kernels.gdn_plan import GdnPrefill, value_dims
from kernels.gdn_two_stage import FAMILY

if TYPE_CHECKING:
    from generator.core.route import Route

H200 = DeviceFacts(capability=90, multiprocessors=132, shared_per_block_bytes=232448, l2_bytes=60 << 20)
RTX_3090 = DeviceFacts(capability=86, multiprocessors=82)
V100 = DeviceFacts(capability=70, multiprocessors=80, shared_per_block_bytes=98304)
H48 = GdnPrefill(key=RouteKey("gdn_two_stage/h48"), heads=48, widest=8192)
H32 = GdnPrefill(key=RouteKey("gdn_two_stage/h32"), heads=32, widest=8192)


def compiled(_key: RouteKey, _width: int) -> Schedule:
    return COMPILED


def switched_on(_key: RouteKey, _width: int) -> Schedule:
    return Schedule("on")


def names(plan: tuple[Launch, ...]) -> list[str]:
    return [launch.kernel.split("<")[0] for launch in plan]


@pytest.mark.parametrize(
    ("heads", "multiprocessors", "dims"),
    [
        (48, 82, 32),
        (48, 128, 64),
        (48, 132, 64),
        (48, 170, 64),
        (32, 132, 32),
        (32, 80, 64),
        (32, 512, 8),
        (48, 768, 8),
    ],
)
def test_value_dims_take_the_fewest_waves_times_cost(heads: int, multiprocessors: int, dims: int) -> None:
    assert value_dims(heads, multiprocessors) == dims


@pytest.mark.parametrize("width", [1, 15, 16, 48])
def test_short_prompts_run_the_recurrence_alone(width: int) -> None:
    plan = H48.plan(width, compiled, H200)
    assert names(plan) == ["gdn_recurrent"]
    assert plan[0].args[5] == Buf("state_in")


def test_one_chunk_and_a_tail_take_six_launches() -> None:
    plan = H48.plan(96, compiled, H200)
    assert names(plan) == ["gdn_l2", "gdn_l2", "gdn_wy_prepare", "gdn_state_passing", "gdn_output", "gdn_recurrent"]
    assert plan[-1].args[5] == Buf("state_out")


def test_whole_chunks_need_no_tail() -> None:
    assert names(H32.plan(128, compiled, H200))[-1] == "gdn_output"


def test_output_grid_follows_the_wave_counts() -> None:
    output = H48.plan(8192, compiled, DeviceFacts(capability=86, multiprocessors=82))[4]
    assert (output.kernel, output.grid) == ("gdn_output<48, false>", (7, 48, 1))


def test_two_stages_are_two_launches_over_sixteen_token_chunks() -> None:
    prepare, recurrence = H48.plan(17, switched_on, H200)
    assert prepare.grid == (48, 2, 1)
    assert recurrence.grid == (2, 48, 1)
    assert recurrence.kernel.startswith("gdn_two_stage_recurrence<48, 64, ")


def test_outputs_get_warps_of_their_own_where_an_sm_has_schedulers_to_spare() -> None:
    wide, narrow = H48.plan(64, switched_on, H200)[1], H32.plan(64, switched_on, H200)[1]
    assert (wide.kernel, wide.block) == ("gdn_two_stage_recurrence<48, 64, 1, true, 4, false>", (160, 1, 1))
    assert (narrow.kernel, narrow.block) == ("gdn_two_stage_recurrence<32, 32, 2, true, 4, false>", (160, 1, 1))
    crowded = H48.plan(64, switched_on, RTX_3090)[1]
    assert (crowded.kernel, crowded.grid) == ("gdn_two_stage_recurrence<48, 32, 1, true, 4, false>", (4, 48, 1))


def test_fewer_than_sixteen_tokens_never_take_the_two_stages() -> None:
    assert H48.plan(15, switched_on, H200) == H48.plan(15, compiled, H200)


def test_volta_takes_the_form_without_sm_80_instructions() -> None:
    for plan in (H32.plan(96, compiled, V100), H32.plan(96, switched_on, V100)):
        assert {launch.kernel.rsplit(", ", 1)[-1] for launch in plan if ", " in launch.kernel} == {"true>"}


@pytest.mark.parametrize("device", [H200, RTX_3090, V100], ids=["sm_90", "sm_86", "sm_70"])
@pytest.mark.parametrize("operation", [H48, H32], ids=["h48", "h32"])
def test_shared_memory_fits_the_device(operation: GdnPrefill, device: DeviceFacts) -> None:
    for width in (16, 96, 8192):
        for ask in (compiled, switched_on):
            for launch in operation.plan(width, ask, device):
                assert launch.shared_bytes <= device.shared_per_block_bytes


def test_outputs_come_first_and_the_state_second() -> None:
    assert [(plane.name, plane.elements) for plane in H32.outputs(64)] == [
        ("out", 64 * 32 * 128),
        ("state_out", 32 * 128 * 128),
    ]


def test_runs_repeat_because_no_launch_writes_what_the_first_reads() -> None:
    inputs = {"q", "k", "v", "g", "beta", "state_in"}
    written = {"gdn_l2": {1}, "gdn_wy_prepare": {4, 5, 6}, "gdn_state_passing": {6, 7, 8}, "gdn_output": {8}}
    written |= {"gdn_recurrent": {9, 10}, "gdn_two_stage_prepare": {5, 6}, "gdn_two_stage_recurrence": {6, 7}}
    for ask in (compiled, switched_on):
        for launch in H48.plan(100, ask, H200):
            for place in written[launch.kernel.split("<")[0]]:
                target = launch.args[place]
                assert isinstance(target, Buf)
                assert target.name not in inputs


def test_every_buffer_that_a_launch_names_is_declared() -> None:
    declared = {operand.name for operand in H48.operands}
    for ask in (compiled, switched_on):
        for launch in H48.plan(100, ask, H200):
            assert {arg.name for arg in launch.args if isinstance(arg, Buf)} <= declared


def test_floor_counts_inputs_and_outputs_once() -> None:
    moved = {"q", "k", "v", "g", "beta", "state_in", "out", "state_out"}
    total = sum(operand_bytes(operand) for operand in H48.operands if operand.name in moved)
    assert H48.floor_bytes(8192) == total


def route_of(heads: int) -> Route:
    return next(route for route in FAMILY.routes if route.key == f"gdn_two_stage/h{heads}")


def test_both_keys_carry_their_operation() -> None:
    assert route_of(48).operation == H48
    assert route_of(32).operation == H32


def test_reference_samples_start_end_and_state() -> None:
    small = GdnPrefill(key=RouteKey("gdn_two_stage/h32"), heads=32, widest=1024)
    expected = small.reference(1024, Host(small.operands))
    tokens = np.unique(expected["out"].indices // (32 * 128))
    assert (tokens[0], tokens[-1], len(tokens)) == (0, 1023, 192)
    assert len(expected["state_out"].indices) == 2 * 128 * 128
    assert all(np.isfinite(item.values).all() for item in expected.values())


def test_reference_that_starts_late_equals_the_one_from_the_first_token() -> None:
    small = GdnPrefill(key=RouteKey("gdn_two_stage/h32"), heads=32, widest=768)
    host = Host(small.operands)
    late, _ = small._head(0, 0, 768, host)
    expected = small.reference(768, host)["out"]
    tail = expected.values[: 96 * 128].reshape(96, 128)
    np.testing.assert_allclose(tail, late[-96:], atol=1e-12)
