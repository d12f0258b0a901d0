"""Attention kernels against float64 over quantised caches: shuffled pages, odd depths, a NaN behind the last token."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ninfer_device_profiles import sizes

from generator.core.fill import Host
from generator.core.route import COMPILED, Ask, DeviceFacts, Given, Launch, Operand, Plane, Poison, RouteKey
from generator.gpu.compile import compile_unit
from kernels import ROOT
from kernels.attention import (
    PV_F16,
    ROW,
    SmallCall,
    cache_operands,
    output_operand,
    partial_operands,
    query_operand,
    upload_positions,
)
from kernels.attn_i8_small import CODINGS, TIERS, row_tiles
from kernels.prompts import PromptCall, tile_metadata
from kernels.reference.attention import query, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from generator.core.route import Schedule
    from generator.gpu.arena import Arena, Kernels

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(600)]

WINDOW = 8192
TOKENS = 256
DEPTHS = (1, 3, 8, 33, 64, 129, 150, 333, 1000, 5003, 8191)
"""Around pages, key blocks, splits and the split rule's steps; 1 and 3 leave most of eight columns without a key."""

PROMPTS = ((1, 1), (17, 17), (64, 129), (200, 1003), (256, 2050), (65, 8191))
"""(tokens, depth)."""

FP16_DEPTHS = (150, 5003)
"""Depths at which every third tier runs with FP16 sums too."""

ERROR = 6e-3
"""Bound of |got - wanted| / |wanted|: BF16 results, FP16 probabilities."""


def asker(tier: str, *, pv_f16: bool) -> Ask:
    """Return a dispatcher with one tier for all keys."""

    def ask(key: RouteKey, _width: int) -> Schedule:
        return type(COMPILED)(("on" if pv_f16 else "") if key == PV_F16 else tier)

    return ask


@dataclass(frozen=True, kw_only=True)
class Bed:
    """A device with one coding's cache of `WINDOW` tokens, its page table shuffled."""

    coding: str
    device: DeviceFacts
    arch: str
    arena: Arena
    kernels: Kernels
    queries: NDArray[Any]
    heads: list[tuple[NDArray[Any], NDArray[Any]]]

    def load(self, plans: Iterable[tuple[Launch, ...]]) -> None:
        """Compile and load what ``plans`` name, on all cores."""
        missing = sorted(set().union(*(self.kernels.missing(plan) for plan in plans)))
        units = [(ROOT, source, (name,), self.arch) for source, name in missing]
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            for unit, compiled in zip(units, pool.map(compile_unit, *zip(*units, strict=True)), strict=True):
                self.kernels.load(unit[1], compiled)

    def expected(self, tokens: int, depth: int) -> NDArray[np.float64]:
        """Return what the last ``tokens`` of ``depth`` keys give, ``(tokens, 24, 256)``; NaN where none is visible."""
        out = np.full((tokens, 24, 256), np.nan)
        visible = depth - tokens + np.arange(tokens * 6) // 6
        for head, (keys, values) in enumerate(self.heads):
            rows = query(self.queries[:tokens, 6 * head : 6 * head + 6]).reshape(-1, 256)
            scores = 0.0625 * rows @ keys[:depth].T
            scores[np.arange(depth) > visible[:, None]] = -np.inf
            seen = visible >= 0
            weights = np.exp(scores[seen] - scores[seen].max(axis=1, keepdims=True))
            result = (weights / weights.sum(axis=1, keepdims=True)) @ values[:depth]
            block = np.full((tokens * 6, 256), np.nan)
            block[seen] = result
            out[:, 6 * head : 6 * head + 6] = block.reshape(tokens, 6, 256)
        return out

    def run(self, plan: tuple[Launch, ...], tokens: int = TOKENS) -> NDArray[np.float64]:
        """Run ``plan`` on poisoned outputs and return the first ``tokens`` tokens of ``out``."""
        self.arena.restore(self.arena.poisoned())
        self.arena.run(plan, self.kernels)
        return self.arena.read(Plane("out", tokens * ROW)).astype(np.float64).reshape(tokens, 24, 256)


@pytest.fixture(scope="module", params=CODINGS)
def bed(request: pytest.FixtureRequest) -> Bed:
    cupy = pytest.importorskip("cupy")
    from generator.gpu.arena import Arena, Kernels

    coding: str = request.param
    table = np.random.default_rng(5).permutation(WINDOW // 64).astype(np.int32)
    operands = []
    for item in cache_operands(coding, WINDOW):
        fill = item.fill
        if item.name == "pages":
            fill = Given(make=lambda: table)
        if item.name.endswith("_scales"):
            scales = Host([item])(item.name).reshape(item.shape).astype(np.float16)
            scales[table[-1], :, 63] = np.nan  # the token behind the deepest window
            fill = Given(make=partial(np.array, scales))
        operands.append(replace(item, fill=fill))
    operands += [
        query_operand(TOKENS),
        Operand(name="positions", dtype="i32", shape=(TOKENS,), fill=Poison()),
        Operand(name="tile_positions", dtype="i32", shape=(TOKENS,), fill=Poison()),
        *partial_operands(32 * sizes.SPLIT_LIMIT),
        output_operand("out", TOKENS),
    ]
    host = Host(operands)
    attributes = cupy.cuda.Device().attributes
    device = DeviceFacts(
        capability=int(cupy.cuda.Device().compute_capability), multiprocessors=attributes["MultiProcessorCount"]
    )
    heads = [read_head(host, coding, head, WINDOW - 1) for head in range(4)]
    arch = f"sm_{device.capability}"
    return Bed(
        coding=coding,
        device=device,
        arch=arch,
        arena=Arena(operands, arch),
        kernels=Kernels(),
        queries=host("q").reshape(TOKENS, 24, 256),
        heads=[(keys.astype(np.float64), values.astype(np.float64)) for keys, values in heads],
    )


def _error(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def test_every_tier_agrees_at_every_depth_with_and_without_fp16_sums(bed: Bed) -> None:
    runs = {}
    for depth in DEPTHS:
        for tokens in range(1, min(depth, 8) + 1):
            for place, tier in enumerate(TIERS[row_tiles(tokens)]):
                for pv_f16 in (False, True)[: 2 if depth in FP16_DEPTHS and place % 3 == 0 else 1]:
                    call = SmallCall(
                        coding=bed.coding, tokens=tokens, envelope=WINDOW, out="out", first_token=8 - tokens
                    )
                    launches = call.launches(asker(tier.schedule, pv_f16=pv_f16), bed.device)
                    runs[depth, tokens, tier.schedule, pv_f16] = (upload_positions(depth - 8, 8), *launches)
    bed.load(runs.values())
    wanted = {depth: bed.expected(8, depth) for depth in DEPTHS}
    wrong = {}
    for case, plan in runs.items():
        depth, tokens = case[:2]
        error = _error(bed.run(plan, 8)[8 - tokens :], wanted[depth][8 - tokens :])
        if not error < ERROR:
            wrong[case] = error
    assert wrong == {}


def test_the_prompt_kernels_agree_at_odd_sizes(bed: Bed) -> None:
    plans = {}
    for tokens, depth in PROMPTS:
        call = PromptCall(coding=bed.coding, tokens=tokens, out="out")
        launches = {f"pack {pack}": call.standard(pack=pack, pv_f16=False) for pack in (False, True)}
        if bed.coding not in {"int8", "rk2v4-e8"}:
            launches |= {f"pack {pack} pv_f16": call.standard(pack=pack, pv_f16=True) for pack in (False, True)}
        launches |= {f"fast {warps}": call.fast(warps) for warps in (4, 8)}
        for name, launch in launches.items():
            plans[tokens, depth, name] = (upload_positions(depth - tokens, tokens), launch)
    bed.load(plans.values())
    wanted = {(tokens, depth): bed.expected(tokens, depth) for tokens, depth in PROMPTS}
    wrong = {}
    for (tokens, depth, name), plan in plans.items():
        got = bed.run(plan)
        error = _error(got[:tokens], wanted[tokens, depth])
        if not error < ERROR or not np.isnan(got[tokens:]).all():
            wrong[tokens, depth, name] = error
    assert wrong == {}


@pytest.mark.parametrize("columns", [16, 32])
def test_parallel_tiles_agree(bed: Bed, columns: int) -> None:
    tile = sizes.parallel_tile(width=columns)
    assert tile == 8
    call = SmallCall(
        coding=bed.coding,
        tokens=tile,
        envelope=262144,
        out="out",
        batch=columns // tile,
        positions="tile_positions",
    )
    depth = 5003
    upload = upload_positions(depth - columns, columns), tile_metadata(columns // tile, tile)
    plan = (*upload, *call.launches(asker("", pv_f16=False), bed.device))
    bed.load([plan])
    assert _error(bed.run(plan, columns), bed.expected(columns, depth)) < ERROR


@pytest.mark.parametrize(("depth", "splits"), [(150, 4), (1000, 16), (4097, 33), (8191, 64)])
def test_the_device_counts_splits_as_the_planner_does(bed: Bed, depth: int, splits: int) -> None:
    call = SmallCall(coding=bed.coding, tokens=1, envelope=WINDOW, out="out")
    main, reduce = call.launches(asker("8x2x32", pv_f16=False), bed.device)
    bed.load([(main, reduce, upload_positions(0, 1))])
    bed.run((upload_positions(depth - 1, 1), main, reduce))
    written = np.isfinite(bed.arena.read(Plane("l", main.grid[1] * 24))).reshape(-1, 24)
    planned = sizes.small_t_splits(
        window=depth,
        captured_window=WINDOW,
        width=1,
        sms=bed.device.multiprocessors,
        kv_storage=bed.coding,
        tier="8x2x32",
    )
    assert written.all(axis=1).sum() == planned
    assert bed.device.multiprocessors != 132 or planned == splits
