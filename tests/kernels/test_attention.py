"""Plans of the attention keys: tiers, splits, launches, operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from generator.core.fill import Host, operand_bytes
from generator.core.route import I32, Ask, Buf, DeviceFacts, Given, Launch, Operand, RouteKey, Schedule
from kernels import find_families
from kernels.attention import SmallCall, SmallT, Tier, cache_operands, expect_rows, query_operand
from kernels.attn_i8_small import CODINGS, TIERS, row_tiles
from kernels.prompts import PromptCall, PromptFast, PvF16
from kernels.reference.kv import CODINGS as SIZES
from kernels.reference.kv import decode_keys, decode_values, page_offset, quantise_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from generator.core.route import Route

H200 = DeviceFacts(capability=90, multiprocessors=132)


def asker(**answers: str) -> Ask:
    """Return a dispatcher that knows ``answers`` by the key's last part."""
    return lambda key, _width: Schedule(answers.get(key.rsplit("/", 1)[-1], ""))


def attention_routes() -> list[Route]:
    return [route for family in find_families() if family.name.startswith("attn") for route in family.routes]


def template(launch: Launch) -> list[str]:
    return launch.kernel.partition("<")[2].removesuffix(">").split(", ")


def test_all_44_attention_keys_have_an_operation() -> None:
    routes = attention_routes()
    assert len(routes) == 44
    assert all(route.operation is not None for route in routes)


@pytest.mark.parametrize("tier", sorted({item.schedule for tiers in TIERS.values() for item in tiers}))
def test_a_tier_reaches_the_launch_as_written(tier: str) -> None:
    parsed = Tier.parse(tier)
    text = f"{parsed.warps}x{parsed.ctas}x{parsed.block}"
    text += "d" * (parsed.dynamic and not parsed.split_qk) + "q" * parsed.split_qk + "e" * parsed.early
    assert text == tier
    tokens = next(width for width in range(1, 9) if tier in {item.schedule for item in TIERS[row_tiles(width)]})
    main, _ = SmallCall(coding="rk8v4", tokens=tokens, envelope=65536, out="out").launches(
        asker(**{f"w{tokens}": tier}), H200
    )
    assert template(main) == [
        "kv::rk8v4",
        str(row_tiles(tokens)),
        str(parsed.warps),
        str(parsed.ctas),
        str(parsed.block),
        "2" if "q" in tier else "1",
        "true" if "e" in tier else "false",
        "true" if "q" in tier or "d" in tier else "false",
        "false",
    ]
    assert main.block == (32 * parsed.warps, 1, 1)
    assert (main.shared_bytes > 0) == parsed.dynamic


def test_a_text_that_is_no_tier_is_refused() -> None:
    with pytest.raises(ValueError, match="attention tier 'fast'") as caught:
        Tier.parse("fast")
    assert str(caught.value) == "attention tier 'fast': expected <warps>x<CTAs per SM>x<key block>[d][q][e]"


@pytest.mark.parametrize("coding", CODINGS)
def test_static_arenas_fit_48_kib_and_all_arenas_two_to_an_sm_of_100_kib_where_the_tier_asks_for_two(
    coding: str,
) -> None:
    for tiles, tiers in TIERS.items():
        for item in tiers:
            tier = Tier.parse(item.schedule)
            size = tier.shared_bytes(tiles, coding)
            assert tier.dynamic or size <= 48 * 1024
            assert min(tier.ctas, 2) * (size + 1024) <= 100 * 1024


def test_the_reduction_may_start_before_the_splits_end() -> None:
    main, reduce = SmallCall(coding="int8", tokens=1, envelope=8192, out="out").launches(asker(), H200)
    assert (main.dependent, reduce.dependent) == (False, True)


@pytest.mark.parametrize(
    ("envelope", "tokens", "splits"), [(8192, 1, 64), (8192, 8, 33), (65536, 5, 66), (262144, 1, 85)]
)
def test_compiled_split_counts_of_132_multiprocessors_are_those_of_the_table(
    envelope: int, tokens: int, splits: int
) -> None:
    main, reduce = SmallCall(coding="int8", tokens=tokens, envelope=envelope, out="out").launches(asker(), H200)
    assert main.grid == (4, splits, 1)
    assert reduce.args[-1] == I32(splits)


def test_a_tier_with_one_cta_an_sm_also_halves_the_wave() -> None:
    call = SmallCall(coding="int8", tokens=1, envelope=65536, out="out")
    main, _ = call.launches(asker(w1="16x1x32"), H200)
    assert (main.grid[1], main.args[-1]) == (33, I32(33))


@pytest.mark.parametrize("tokens", range(1, 9))
@pytest.mark.parametrize("envelope", [8192, 65536, 262144])
def test_both_calls_are_planned_for_the_envelope(tokens: int, envelope: int) -> None:
    plan = SmallT(coding="rk4v4", tokens=tokens).plan(envelope, asker(), H200)
    assert [launch.kernel.partition("<")[0] for launch in plan] == [
        "attn_i8_small_positions",
        "attn_i8_small",
        "attn_i8_small_reduce",
    ] * 2
    assert plan[0].args[1] == I32(envelope - tokens)
    assert plan[3].args[1] == I32(max(tokens + 1, envelope // 16) - tokens)
    assert plan[1].grid == plan[4].grid


def test_decode_and_prompt_heed_pv_f16_and_int8_prompts_do_not() -> None:
    on = asker(attn_pv_f16="on")
    plan = PvF16().plan(1, on, H200)
    assert [template(launch)[-1] for launch in plan if "<" in launch.kernel] == ["true", "true"]
    small, _ = SmallCall(coding="int8", tokens=1, envelope=8192, out="out").launches(on, H200)
    assert template(small)[-1] == "true"
    for coding, heeds in (("int8", "false"), ("rk2v4-e8", "false"), ("rk4v4-e8", "true")):
        assert template(PromptCall(coding=coding, tokens=64, out="out").launch(on, H200))[-1] == heeds


def test_packed_rows_share_a_kv_head_and_the_fast_kernel_comes_before_packing() -> None:
    call = PromptCall(coding="rk8v4", tokens=1024, out="out")
    assert call.launch(asker(), H200).grid == (16, 24, 1)
    assert call.launch(asker(attn_pack_gqa="on"), H200).grid == (96, 4, 1)
    fast = call.launch(asker(attn_pack_gqa="on", attn_prompt_fast="on"), H200)
    assert (fast.kernel, fast.grid) == ("attn_prompt_fast<kv::rk8v4, 8>", (24, 8, 1))


def test_the_fast_kernel_of_int8_with_8_warps_takes_100352_bytes() -> None:
    assert PromptCall(coding="int8", tokens=1, out="out").fast(8).shared_bytes == 100352


@pytest.mark.parametrize(("sms", "chunk"), [(82, 1280), (128, 1280), (170, 896)])
def test_the_fast_comparison_uses_a_wave_aligned_chunk_for_both_kernels(sms: int, chunk: int) -> None:
    device = DeviceFacts(capability=86, multiprocessors=sms)
    operation = PromptFast()
    assert operation.chunk(device) == chunk
    assert all(plane.elements <= chunk * 6144 for plane in operation.outputs(1))
    for answers in (asker(), asker(attn_prompt_fast="on")):
        assert operation.plan(1, answers, device)[1].args[-1] == I32(chunk)


def test_parallel_tiles_replace_serial_chunks_by_one_batch() -> None:
    (route,) = (route for route in attention_routes() if route.key == "attn_parallel_tiles")
    assert route.operation is not None
    serial = route.operation.plan(1, asker(), H200)
    tiles = route.operation.plan(1, asker(attn_parallel_tiles="on"), H200)
    assert [launch.grid for launch in serial if launch.kernel.startswith("attn_i8_small<")] == [(4, 85, 1)] * 12
    assert [launch.grid for launch in tiles if launch.kernel.startswith("attn_i8_small<")] == [
        (4, 67, 2),
        (4, 67, 4),
    ] * 2
    assert (len(serial), len(tiles)) == (4 + 2 * 12, 4 * 4)


def test_every_argument_of_every_plan_lies_inside_its_operand() -> None:
    for route in attention_routes():
        operation = route.operation
        assert operation is not None
        shapes = {item.name: int(np.prod(item.shape)) for item in operation.operands}
        for width in route.widths:
            for schedule in ("", *(item.schedule for item in route.candidates)):
                answer = {route.key.rsplit("/", 1)[-1]: schedule}
                for launch in operation.plan(width, asker(**answer), H200):
                    for arg in launch.args:
                        assert not isinstance(arg, Buf) or 0 <= arg.offset < shapes[arg.name]
            assert all(plane.elements <= shapes[plane.name] for plane in operation.outputs(width))


def test_operands_of_all_widths_of_a_coding_are_the_same_and_stay_under_8_gib() -> None:
    for coding in CODINGS:
        declared = {SmallT(coding=coding, tokens=tokens).operands[:-2] for tokens in (1, 8)}
        names = {tuple((item.name, item.shape) for item in operands) for operands in declared}
        assert len(names) == 1
        cache = SmallT(coding=coding, tokens=1).operands[:4]
        assert sum(operand_bytes(item) for item in cache) == 262144 * 4 * SIZES[coding].row_bytes
    total = {
        item.name: operand_bytes(item)
        for route in attention_routes()
        if route.operation
        for item in route.operation.operands
    }
    assert sum(total.values()) < 8 * 2**30


@pytest.mark.parametrize("coding", CODINGS)
def test_reference_agrees_with_a_loop_over_keys_through_a_shuffled_page_table(coding: str) -> None:
    table = np.array([2, 0, 3, 1], dtype=np.int32)
    shuffled = Operand(name="pages", dtype="i32", shape=(4,), fill=Given(make=lambda: table))
    cache = (shuffled if item.name == "pages" else item for item in cache_operands(coding, 256))
    host = Host([*cache, query_operand(2)])
    depth, head = 131, 2
    expected = expect_rows(host, coding, head, ((0, depth - 1), (1, depth)), group=3)
    assert expected.indices[256] == (24 + head * 6 + 3) * 256

    codes, scales = quantise_query(host("q").reshape(2, 24, 256)[1, head * 6 + 3])
    total, weight = np.zeros(256), 0.0
    for token in range(depth):

        def row(name: str, width: int, token: int = token) -> NDArray[Any]:
            return host(f"{coding}_{name}", page_offset(token, head, table, width), width)

        size = SIZES[coding]
        key = decode_keys(coding, row("key_codes", size.key_bytes), row("key_scales", 4)).astype(float)
        value = decode_values(coding, row("value_codes", size.value_bytes), row("value_scales", size.value_scales))
        score = sum(float(scales[dim // 64]) * int(codes[dim]) * key[dim] for dim in range(256)) / 16
        total += np.exp(score) * value.astype(float)
        weight += np.exp(score)
    assert np.allclose(expected.values.reshape(2, 256)[1], total / weight, rtol=1e-6, atol=1e-9)


def test_small_t_keys_ask_for_their_own_tier_at_the_envelope() -> None:
    asked: list[tuple[RouteKey, int]] = []

    def ask(key: RouteKey, width: int) -> Schedule:
        asked.append((key, width))
        return Schedule("")

    SmallT(coding="rk2v4-e8", tokens=3).plan(65536, ask, H200)
    assert set(asked) == {(RouteKey("attn_i8_small/h24/rk2v4-e8/w3"), 65536), (RouteKey("attn_pv_f16"), 1)}
