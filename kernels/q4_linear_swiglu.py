"""Q4 gate/up projection with SwiGLU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.route import (
    I32,
    Buf,
    Candidate,
    CompiledTable,
    Group,
    Launch,
    Route,
    RouteFamily,
    RouteKey,
    Schedule,
)
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q4
from kernels.tiles import Gemm, Shape, Sliced, SmallT, pick
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, upto

if TYPE_CHECKING:
    from generator.core.route import Ask, DeviceFacts

KEY = RouteKey("q4_linear_swiglu/34816x17408x5120")
UNIFIED_KEY = RouteKey("unified/q4_linear_swiglu")

HALF, K = 17408, 5120
WEIGHTS = Weights(name="w", form=Q4, rows=2 * HALF, k=K)

COMPILED = CompiledTable(
    default=(
        (1, "gemv_pair"),
        (32, "small_t_tiled"),
        (40, "split_half_pair_c40"),
        (48, "split_half_pair_c48"),
        (None, "split_half_pair_c128"),
    )
)

TILES = {
    "split_half_pair_c40": Gemm(64, 40, 64, 64, 8, 2, 1),
    "split_half_pair_c48": Gemm(64, 48, 64, 64, 8, 2, 1),
    "split_half_pair_c128": Gemm(64, 128, 64, 64, 16, 2, 1),
}
SMALL_T = (
    (8, SmallT(8, 1, 8, 1, 3)),
    (16, SmallT(16, 1, 4, 1, 3)),
    (24, SmallT(24, 2, 4, 2, 2)),
    (32, SmallT(32, 2, 2, 1, 2)),
)
SLICED = tuple(
    (columns, Sliced(16, columns, 8, 1, min_blocks, pairwise=True))
    for columns, min_blocks in ((8, 4), (16, 3), (24, 2), (32, 2))
)

BLOCK, LARGEST_TAIL = 128, 40
"""c128_tail: whole blocks of 128 columns, then a launch of its own for a remainder up to 40 (engine-kernels 6.6)."""


def plan(width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the launches of one run; the switch is asked inside small_t_tiled alone (engine-profiles fact 22)."""
    schedule = ask(KEY, width) or COMPILED.at(width, device.capability)
    tail = width % BLOCK
    if schedule != "split_half_pair_c128_tail":
        return (_launches(schedule, 0, width, unified=ask(UNIFIED_KEY, width) == "unified"),)
    if width < BLOCK or tail == 0 or tail > LARGEST_TAIL:
        return (_launches("split_half_pair_c128", 0, width),)
    last = "gemv_pair" if tail == 1 else "small_t_tiled" if tail <= 24 else "split_half_pair_c40"
    return (_launches("split_half_pair_c128", 0, width - tail), _launches(last, width - tail, tail))


def _launches(schedule: str, at: int, count: int, *, unified: bool = False) -> Launch:
    if schedule == "gemv_pair":
        return _launch("q4_linear_swiglu_gemv_pair", ((HALF // 4, 1, 1), (128, 1, 1)), at, count)
    if schedule == "small_t_tiled" and unified:
        form = pick(SLICED, count)
        return _launch(f"q4_linear_swiglu_sliced<{form.name}>", (form.grid(2 * HALF, count), form.block), at, count)
    if schedule == "small_t_tiled":
        small = pick(SMALL_T, count)
        return _launch(f"q4_linear_swiglu_small_t<{small.name}>", (small.grid(2 * HALF), small.block), at, count)
    tile = TILES[schedule]
    return _launch(f"q4_linear_swiglu_split_half<{tile.name}>", (tile.grid(2 * HALF, count), tile.block), at, count)


def _launch(kernel: str, shape: Shape, at: int, count: int) -> Launch:
    args = (*WEIGHTS.args, Buf("x", at * K), Buf("out", at * HALF), I32(HALF), I32(K), I32(count))
    return Launch(source="q4_linear_swiglu", kernel=kernel, grid=shape[0], block=shape[1], args=args)


OPERATION = GroupwiseOperation(
    k=K,
    columns=max(GROUPWISE),
    results=(Output(name="out", pieces=(Piece(weights=WEIGHTS, first=0, rows=HALF),)),),
    planner=plan,
    gated=True,
)

FAMILY = RouteFamily(
    name="q4_linear_swiglu",
    group=Group.GROUPWISE,
    source="q4_linear_swiglu",
    routes=(
        Route(
            key=KEY,
            order=12,
            widths=GROUPWISE,
            candidates=(
                Candidate(schedule=Schedule("gemv_pair"), max_width=1),
                Candidate(schedule=Schedule("small_t_tiled"), min_width=2, max_width=32),
                *any_width(
                    "split_half_pair_c40", "split_half_pair_c48", "split_half_pair_c128", "split_half_pair_c128_tail"
                ),
            ),
            compiled=COMPILED,
            operation=OPERATION,
        ),
        Route(
            key=UNIFIED_KEY,
            order=20,
            widths=upto(GROUPWISE, 32),
            candidates=UNIFIED,
            compiled=OFF,
            operation=OPERATION,
            acts_under=(KEY, Schedule("small_t_tiled")),
        ),
    ),
)
