"""Launch sizes that follow the device: every row of the spec's tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles import sizes
from ninfer_device_profiles.errors import SizesError

# sms, query heads, rows, then for requests of 1024, 2048 and 4096: (aligned chunk, fill of request, fill of result)
ALIGNED = [
    (28, 24, 64, (896, 0.980, 1.000), (1792, 0.980, 1.000), (3584, 0.997, 1.000)),
    (80, 24, 64, (1280, 0.960, 1.000), (1920, 0.960, 1.000), (3840, 0.960, 1.000)),
    (82, 24, 64, (1280, 0.937, 0.976), (2176, 0.937, 0.995), (3712, 0.986, 0.999)),
    (128, 24, 64, (1024, 1.000, 1.000), (2048, 1.000, 1.000), (4096, 1.000, 1.000)),
    (170, 24, 64, (896, 0.753, 0.988), (1792, 0.904, 0.988), (3584, 0.904, 0.988)),
    (188, 24, 64, (896, 0.681, 0.894), (1920, 0.817, 0.957), (3968, 0.908, 0.989)),
    (82, 24, 128, (1280, 0.780, 0.976), (2176, 0.937, 0.995), (4352, 0.937, 0.995)),
    (128, 24, 128, (1280, 0.750, 0.938), (2048, 1.000, 1.000), (4096, 1.000, 1.000)),
    (170, 24, 128, (896, 0.565, 0.988), (1792, 0.753, 0.988), (3584, 0.904, 0.988)),
    (82, 16, 64, (1280, 0.780, 0.976), (1920, 0.892, 0.976), (2944, 0.961, 0.997)),
    (170, 16, 128, (1280, 0.753, 0.941), (1280, 0.753, 0.941), (2688, 0.753, 0.988)),
]


def chunk(requested: int, **changes: object) -> int:
    options: dict[str, object] = {
        "max_context": 262144,
        "sms": 82,
        "query_heads": 24,
        "fast_kernel": False,
        "kv_storage": "int8",
    }
    return sizes.aligned_prefill_chunk(requested=requested, **{**options, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sms", "heads", "rows", "request_tokens", "expected"),
    [
        pytest.param(*row[:3], tokens, row[place], id=f"{row[0]}-sms-{row[1]}-heads-{row[2]}-rows-{tokens}")
        for row in ALIGNED
        for place, tokens in ((3, 1024), (4, 2048), (5, 4096))
    ],
)
def test_prefill_chunk_aligns_to_the_best_filled_grid(
    sms: int, heads: int, rows: int, request_tokens: int, expected: tuple[int, float, float]
) -> None:
    aligned = chunk(request_tokens, sms=sms, query_heads=heads, fast_kernel=rows == 128)
    before, after = (
        sizes.prompt_grid_fill(tokens, rows=rows, query_heads=heads, sms=sms) for tokens in (request_tokens, aligned)
    )
    assert (aligned, round(before, 3), round(after, 3)) == expected


def test_of_two_equally_filled_chunks_the_nearer_one_is_taken() -> None:
    fills = [round(sizes.prompt_grid_fill(c, rows=64, query_heads=24, sms=82), 3) for c in range(512, 1281, 128)]
    assert fills == [0.780, 0.976, 0.878, 0.820, 0.937, 0.878, 0.976]
    assert chunk(1024) == 1280


def test_a_request_that_is_no_multiple_of_128_may_go_down() -> None:
    assert chunk(1000) == 640


def test_the_request_stays_when_alignment_is_off_or_small_or_not_int8() -> None:
    assert chunk(1024, align=False) == 1024
    assert chunk(255) == 255
    assert chunk(1024, kv_storage="bf16") == 1024
    assert chunk(1024, kv_storage="nvfp4") == 1024
    assert chunk(256) != 256


def test_max_context_bounds_request_and_result() -> None:
    assert chunk(1024, max_context=1100) == 1100
    assert chunk(4096, max_context=200) == 200


@given(
    requested=st.integers(1, 20000),
    sms=st.integers(1, 300),
    heads=st.sampled_from([24, 16]),
    fast=st.booleans(),
    context=st.integers(1, 300000),
)
def test_an_aligned_chunk_never_fills_worse_and_stays_in_reach(
    requested: int, sms: int, heads: int, fast: bool, context: int
) -> None:
    aligned = chunk(requested, sms=sms, query_heads=heads, fast_kernel=fast, max_context=context)
    bounded = min(requested, context)
    assert bounded // 2 - 128 <= aligned <= min(bounded + 256, context)
    if aligned not in {bounded, context}:
        rows = 128 if fast else 64
        fill = [sizes.prompt_grid_fill(c, rows=rows, query_heads=heads, sms=sms) for c in (aligned, bounded)]
        assert fill[0] > fill[1] - 1e-9
        assert aligned % 128 == 0


def test_one_wave_of_the_fast_kernel_is_whole_row_blocks() -> None:
    assert sizes.fast_kernel_wave_tokens(sms=82, query_heads=24) == 384
    assert sizes.fast_kernel_wave_tokens(sms=170, query_heads=24) == 896
    assert sizes.fast_kernel_wave_tokens(sms=16, query_heads=24) == 128


@pytest.mark.parametrize(
    ("tokens", "sms", "warps"),
    [
        (64, 82, 4),  # one wave of each form
        (128, 82, 4),
        (512, 82, 8),  # 3 waves of 64 rows against 2 of 128: 216 is not under 200
        (1280, 82, 8),  # 6 against 3
        (448, 46, 4),  # 4 against 3: 288 is under 300
    ],
)
def test_fast_kernel_takes_four_warps_where_its_waves_cost_less(tokens: int, sms: int, warps: int) -> None:
    assert sizes.fast_kernel_warps(tokens=tokens, query_heads=24, sms=sms) == warps


def test_gdn_output_kernel_walks_nineteen_chunks_a_block_on_a_3090() -> None:
    assert sizes.gdn_output_grid(tokens=8192, value_heads=48, sms=82, ctas_per_sm=4) == sizes.GdnOutputGrid(
        chunks=128, jobs=6144, target=328, per_block=19, blocks=7 * 48
    )


def test_gdn_output_kernel_aims_for_680_blocks_when_occupancy_is_unknown() -> None:
    grid = sizes.gdn_output_grid(tokens=8192, value_heads=48, sms=82, ctas_per_sm=None)
    assert (grid.target, grid.per_block, grid.blocks) == (680, 10, 13 * 48)


def test_gdn_output_kernel_has_no_grid_under_one_chunk() -> None:
    assert sizes.gdn_output_grid(tokens=63, value_heads=32, sms=82, ctas_per_sm=4).blocks == 0


# window, widths, then active splits by SM count
ACTIVE = [
    (8192, (1, 2, 3, 4, 5), {28: 14, 82: 41, 128: 64, 132: 64, 170: 64, 188: 64}),
    (8192, (6, 7, 8), {28: 7, 82: 20, 128: 32, 132: 33, 170: 42, 188: 42}),
    (65536, (1, 2, 3, 4, 5, 6, 7, 8), {28: 28, 82: 41, 128: 64, 132: 66, 170: 85, 188: 85}),
    (262144, (1, 2, 3, 4, 5, 6, 7, 8), {28: 70, 82: 82, 128: 85, 132: 85, 170: 85, 188: 85}),
]


@pytest.mark.parametrize("storage", sizes.INT8_FAMILY)
@pytest.mark.parametrize(("window", "widths", "by_sms"), ACTIVE)
def test_small_t_attention_splits_a_full_window(
    window: int, widths: tuple[int, ...], by_sms: dict[int, int], storage: str
) -> None:
    for width in widths:
        found = {
            sms: sizes.small_t_splits(window=window, captured_window=window, width=width, sms=sms, kv_storage=storage)
            for sms in by_sms
        }
        assert found == by_sms


def test_the_grid_equals_the_active_splits_except_on_188_sms() -> None:
    for window, widths, by_sms in ACTIVE:
        for width in widths:
            for sms, active in by_sms.items():
                wave = sizes.small_t_wave(sms=sms, width=width, captured_window=window)
                grid = sizes.small_t_capacity(high=window, width=width, wave=wave)
                expected = 47 if (sms, window) == (188, 8192) and width >= 6 else active
                assert (sms, window, width, grid) == (sms, window, width, expected)


@pytest.mark.parametrize(("window", "capacity"), [(8192, 64), (65536, 85), (262144, 85), (8198, 65), (16390, 65)])
def test_capacity_before_the_wave_cap(window: int, capacity: int) -> None:
    widths = (1, 8) if window in {8192, 65536, 262144, 16390} else (1,)
    for width in widths:
        assert sizes.small_t_capacity(high=window, width=width) == capacity


def test_a_window_past_a_tier_counts_the_full_tier_in_the_capacity_alone() -> None:
    assert sizes.small_t_base_splits(window=4200, width=1) == 33
    assert sizes.small_t_capacity(low=4200, high=4200, width=1) == 64
    assert sizes.small_t_splits(window=4200, captured_window=4200, width=1, sms=188) == 33


@pytest.mark.parametrize(
    ("captured", "window", "width", "base", "capped"),
    [
        (8192, 512, 1, 8, [8, 8]),
        (8192, 512, 5, 16, [14, 16]),
        (65536, 4096, 1, 64, [14, 41]),
        (262144, 16384, 1, 64, [14, 41]),
        (65536, 4096, 5, 64, [14, 41]),
        (262144, 16384, 5, 64, [14, 41]),
    ],
)
def test_second_calibration_depth(captured: int, window: int, width: int, base: int, capped: list[int]) -> None:
    assert sizes.small_t_base_splits(window=window, width=width) == base
    found = [sizes.small_t_splits(window=window, captured_window=captured, width=width, sms=s) for s in (28, 82)]
    assert found == capped


@pytest.mark.parametrize(
    ("window", "width", "heads", "splits"),
    [
        (1, 1, 24, 4),
        (4096, 1, 24, 64),
        (4097, 1, 24, 33),
        (8198, 1, 24, 65),
        (8199, 1, 24, 33),
        (16390, 1, 24, 65),
        (16391, 1, 24, 35),
        (1048576, 1, 24, 85),
        (128, 5, 24, 4),
        (129, 5, 24, 5),
        (512, 5, 24, 16),
        (513, 5, 24, 9),
        (128, 6, 24, 4),
        (129, 6, 24, 6),
        (160, 8, 24, 7),
        (161, 8, 24, 4),
        (5000, 6, 24, 40),
        (5001, 6, 24, 27),
        (8198, 8, 24, 42),
        (1, 1, 16, 8),
        (4096, 1, 16, 128),
        (512, 5, 16, 32),
        (160, 6, 16, 10),
        (8198, 6, 16, 84),
        (1048576, 8, 16, 170),
    ],
)
def test_base_split_count_by_window_and_width(window: int, width: int, heads: int, splits: int) -> None:
    assert sizes.small_t_base_splits(window=window, width=width, query_heads=heads) == splits


def test_other_caches_have_no_denser_short_windows_and_no_wave_rule() -> None:
    assert sizes.small_t_base_splits(window=512, width=5, kv_storage="bf16") == 8
    assert sizes.small_t_splits(window=65536, captured_window=65536, width=1, sms=28, kv_storage="bf16") == 85


def test_an_unknown_sm_count_switches_the_wave_rule_off() -> None:
    assert sizes.small_t_wave(sms=0, width=1, captured_window=8192) == 0
    assert sizes.small_t_splits(window=65536, captured_window=65536, width=1, sms=0) == 85


@pytest.mark.parametrize(
    ("tier", "ctas"),
    [
        ("8x2x32", 2),
        ("16x1x32", 1),
        ("2x4x32", 4),
        ("12x1x64d", 1),
        ("4x2x32qe", 2),
        ("99x8xwhatever", 8),
        ("4x9x32", None),
        ("4x0x32", None),
        ("4x12x32", None),
        ("4x2", None),
        ("on", None),
        ("", None),
        ("x", None),
    ],
)
def test_ctas_per_sm_come_from_the_text_of_the_tier(tier: str, ctas: int | None) -> None:
    assert sizes.tier_ctas_per_sm(tier) == ctas


def test_a_tier_with_other_ctas_per_sm_changes_the_splits() -> None:
    found = [
        sizes.small_t_splits(window=8192, captured_window=8192, width=1, sms=82, tier=tier)
        for tier in ("", "16x1x32", "2x4x32", "no tier")
    ]
    assert found == [41, 20, 64, 41]


@pytest.mark.parametrize(
    ("width", "captured", "heads", "ctas"),
    [
        (3, 1, 24, 2),
        (4, 1029, 24, 1),
        (4, 1030, 24, 2),
        (5, 1029, 24, 1),
        (5, 1030, 24, 2),
        (5, 4096, 16, 1),
        (5, 4097, 16, 2),
        (6, 8198, 24, 1),
        (8, 8199, 24, 2),
    ],
)
def test_compiled_ctas_per_sm(width: int, captured: int, heads: int, ctas: int) -> None:
    assert sizes.compiled_ctas_per_sm(width=width, captured_window=captured, query_heads=heads) == ctas


@pytest.mark.parametrize(
    ("storage", "width", "batch", "window", "splits"),
    [
        ("int8", 5, 2, 4096, 39),  # 2 x 154 over 8
        ("int8", 6, 2, 4096, 20),  # 154 over 8
        ("int8", 6, 2, 4097, 39),
        ("rk8v4", 1, 2, 262144, 67),
        ("rk4v4-e8", 1, 2, 4096, 20),
        ("bf16", 8, 5, 4096, 16),  # 308 over 20
        ("bf16", 8, 4, 4096, 10),
        ("nvfp4", 5, 2, 4096, 39),
        ("nvfp4", 6, 2, 65536, 20),
        ("fp8", 1, 2, 4096, 20),
        ("int8", 1, 64, 4096, 4),
    ],
)
def test_batches_are_held_to_one_or_two_waves(storage: str, width: int, batch: int, window: int, splits: int) -> None:
    args = {"batch": batch, "width": width, "window": window, "kv_storage": storage}
    assert sizes.batch_splits(sms=164, **args) == splits  # type: ignore[arg-type]


def test_a_batch_of_unknown_sms_assumes_170_and_16_heads_take_the_capacity() -> None:
    assert sizes.batch_splits(batch=2, width=1, window=4096, sms=0, kv_storage="rk8v4") == 20
    heads_16 = sizes.batch_splits(batch=2, width=1, window=65536, sms=82, kv_storage="int8", query_heads=16)
    assert heads_16 == 170


@pytest.mark.parametrize("tiles", [2, 4])
def test_parallel_tiles_split_as_a_batch(tiles: int) -> None:
    wave = 82 - 82 // 16
    expected = min(85, max(4, -(-2 * wave // (4 * tiles)), 67))
    assert sizes.batch_splits(batch=tiles, width=8, window=262144, sms=82, kv_storage="int8") == expected


@pytest.mark.parametrize(
    ("width", "heads", "tile"),
    [(16, 24, 8), (32, 24, 8), (9, 24, 3), (10, 24, 5), (12, 24, 6), (14, 24, 7), (11, 24, None), (8, 24, 4),
     (16, 16, 4), (12, 16, 6), (14, 16, 2), (2, 24, None), (1, 24, None), (4, 24, 2)],
)  # fmt: skip
def test_parallel_tile_is_the_widest_divisor_with_two_tiles(width: int, heads: int, tile: int | None) -> None:
    assert sizes.parallel_tile(width=width, query_heads=heads) == tile


@pytest.mark.parametrize(
    ("tokens", "changes", "blocks"),
    [
        (1, {}, 256),  # 0 whole jobs + 256 experts
        (512, {}, (128 + 256)),
        (512, {"wide": True}, (64 + 256)),
        (512, {"nvfp4": True}, (64 + 256)),
        (1, {"nvfp4": True}, 8),
        (1024, {"row_blocks": 16}, 32 * 82),
        (1024, {"row_blocks": 16, "sms": 0}, 32 * 170),
    ],
)
def test_sparse_moe_prefill_grid(tokens: int, changes: dict[str, int], blocks: int) -> None:
    options = {"experts": 256, "row_blocks": 1, "sms": 82, **changes}
    assert sizes.moe_prefill_blocks(tokens=tokens, **options) == blocks  # type: ignore[arg-type]


def test_an_argument_without_a_size_is_refused_by_name() -> None:
    with pytest.raises(SizesError) as caught:
        sizes.parallel_tile(width=0)
    assert str(caught.value) == ("width: 0; a size is computed from positive counts. Pass a count of 1 or more.")
    with pytest.raises(SizesError) as caught:
        sizes.gdn_output_grid(tokens=-1, value_heads=48, sms=82, ctas_per_sm=4)
    assert str(caught.value) == ("tokens: -1; a count of prompt tokens is 0 or more. Pass the call's token count.")
    with pytest.raises(SizesError) as caught:
        chunk(1024, query_heads=32)
    assert str(caught.value) == (
        "query_heads: 32; attention geometries have 24 query heads over 4 KV heads or 16 over 2. Pass one of the two."
    )
    with pytest.raises(SizesError) as caught:
        sizes.small_t_capacity(low=9, high=8, width=1)
    assert str(caught.value) == (
        "captured windows 9 to 8: the lower end is above the upper; intervals ascend. Pass the two ends in order."
    )
