"""Q5 output and down projections added to the residual in place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from generator.core.route import I32, Buf, CompiledTable, Group, Launch, Route, RouteFamily, RouteKey
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q5
from kernels.tiles import Gemm, Shape, Sliced, SmallT, pick
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, limited

if TYPE_CHECKING:
    from collections.abc import Callable

    from generator.core.route import Ask, DeviceFacts

CANDIDATES = (
    *limited(split2_exact=10, small_t_mma=32),
    *any_width(
        "mma_r64_c16", "mma_r64_c24", "mma_r64_c32", "mma_r64_c64", "mma_r64_c32_s3", "mma_r64_c32_s4", "mma_r64_c128"
    ),
)

COMPILED = {
    6144: CompiledTable(
        default=(
            (2, "split2_exact"),
            (32, "small_t_mma"),
            (103, "mma_r64_c32_s3"),
            (127, "mma_r64_c64"),
            (512, "mma_r64_c128"),
            (None, "int:c128+tail"),
        )
    ),
    17408: CompiledTable(
        default=(
            (2, "split2_exact"),
            (32, "small_t_mma"),
            (64, "mma_r64_c32_s4"),
            (103, "mma_r64_c32_s3"),
            (127, "mma_r64_c64"),
            (512, "mma_r64_c128"),
            (None, "int:c128+tail"),
        )
    ),
}

ROWS = 5120
WEIGHTS = {k: Weights(name="w", form=Q5, rows=ROWS, k=k) for k in COMPILED}

TILES = {
    "mma_r64_c16": Gemm(64, 16, 64, 16, 8, 2, 3),
    "mma_r64_c24": Gemm(64, 24, 64, 16, 8, 2, 2),
    "mma_r64_c32": Gemm(64, 32, 64, 16, 8, 2, 2),
    "mma_r64_c64": Gemm(64, 64, 64, 32, 32, 2, 3, ping_pong=True, past_l1=False, scale_pair=False),
    "mma_r64_c32_s3": Gemm(64, 32, 64, 16, 16, 3, 2),
    "mma_r64_c32_s4": Gemm(64, 32, 64, 16, 16, 4, 2),
    "mma_r64_c128": Gemm(64, 128, 64, 64, 32, 2, 1),
}

SMALL_T = (
    (4, SmallT(4, 2, 8, 1, 4)),
    (8, SmallT(8, 1, 8, 1, 3)),
    (16, SmallT(16, 2, 4, 1, 3)),
    (32, SmallT(32, 1, 4, 1, 2)),
)

UNIFIED_SPLIT2 = 4
"""Last width of the unified table's split2."""

# The unified table from 5 columns on (engine-kernels 6.4).
_SLICED = (
    (8, Sliced(16, 8, 4, 2)),
    (16, Sliced(16, 16, 4, 2)),
    (24, Sliced(16, 24, 4, 2)),
    (32, Sliced(32, 32, 4, 2)),
    (48, Sliced(32, 24, 4, 2, pairwise=True)),
)
_WIDE = (
    (128, Sliced(32, 32, 2, 2)),
    (160, Sliced(32, 64, 2, 1)),
    (256, Gemm(32, 128, 64, 32, 32, 2, 1)),
    (512, TILES["mma_r64_c128"]),
)
UNIFIED_FORMS: dict[int, tuple[tuple[int, Gemm | Sliced], ...]] = {
    6144: (*_SLICED, (64, Sliced(32, 32, 4, 2)), (96, Gemm(32, 32, 128, 16, 16, 2, 2)), *_WIDE),
    17408: (*_SLICED, (96, Sliced(32, 32, 4, 1)), *_WIDE),
}

BLOCK_COLUMNS, LARGEST_TAIL = 512, 192
"""From 513 columns a remainder of 1 to 192 after whole blocks of 512 is a launch of its own (engine-kernels 6.4)."""


def plan(k: int, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the launches of one run; ``unified/*`` is asked before the family's own key (engine-profiles fact 17)."""
    if ask(RouteKey(f"unified/q5_linear_add/5120x{k}"), width) == "unified":
        return _blocks(width, lambda at, count: _unified(k, at, count))
    schedule = ask(RouteKey(f"q5_linear_add/5120x{k}"), width) or COMPILED[k].at(width, device.capability)
    if schedule == "int:c128+tail":
        return _blocks(width, lambda at, count: _scheduled(k, COMPILED[k].at(min(count, 512)), at, count))
    return (_scheduled(k, schedule, 0, width),)


def _blocks(width: int, launch: Callable[[int, int], Launch]) -> tuple[Launch, ...]:
    tail = width % BLOCK_COLUMNS
    if width < BLOCK_COLUMNS or tail == 0 or tail > LARGEST_TAIL:
        return (launch(0, width),)
    return (launch(0, width - tail), launch(width - tail, tail))


def _scheduled(k: int, schedule: str, at: int, count: int) -> Launch:
    if schedule == "split2_exact":
        return _split2(k, at, count)
    if schedule == "small_t_mma":
        form = pick(SMALL_T, count)
        return _launch(k, f"q5_linear_add_small_t<{form.name}>", (form.grid(ROWS), form.block), at, count)
    tile = TILES[schedule]
    return _launch(k, f"q5_linear_add_mma<{tile.name}, true>", (tile.grid(ROWS, count), tile.block), at, count)


def _unified(k: int, at: int, count: int) -> Launch:
    if count <= UNIFIED_SPLIT2:
        return _split2(k, at, count)
    form = pick(UNIFIED_FORMS[k], min(count, BLOCK_COLUMNS))
    if isinstance(form, Sliced):
        kernel = f"q5_linear_add_sliced<{form.name}>"
    else:
        kernel = f"q5_linear_add_mma<{form.name}, {str(form == TILES['mma_r64_c128']).lower()}>"
    return _launch(k, kernel, (form.grid(ROWS, count), form.block), at, count)


def _split2(k: int, at: int, count: int) -> Launch:
    # engine-kernels 5.6, but 12 where it says 16 for six columns: 64 registers spill there on sm_120.
    min_blocks = 8 if count > 6 or (k > 6144 and count > 3) else 12 if count == 6 else 16
    return _launch(k, f"q5_linear_add_split2<{count}, {min_blocks}>", ((ROWS, 1, 1), (64, 1, 1)), at, count)


def _launch(k: int, kernel: str, shape: Shape, at: int, count: int) -> Launch:
    args = (*WEIGHTS[k].args, Buf("x", at * k), Buf("residual", at * ROWS), I32(k), I32(count))
    return Launch(source="q5_linear_add", kernel=kernel, grid=shape[0], block=shape[1], args=args)


def _operation(k: int) -> GroupwiseOperation:
    return GroupwiseOperation(
        k=k,
        columns=max(GROUPWISE),
        results=(Output(name="residual", pieces=(Piece(weights=WEIGHTS[k], first=0, rows=ROWS),)),),
        planner=partial(plan, k),
        residual=True,
    )


FAMILY = RouteFamily(
    name="q5_linear_add",
    group=Group.GROUPWISE,
    source="q5_linear_add",
    routes=tuple(
        route
        for place, k in enumerate(COMPILED)
        for route in (
            Route(
                key=RouteKey(f"q5_linear_add/5120x{k}"),
                order=10 + place,
                widths=GROUPWISE,
                candidates=CANDIDATES,
                compiled=COMPILED[k],
                asked_after=RouteKey(f"unified/q5_linear_add/5120x{k}"),
                operation=_operation(k),
            ),
            Route(
                key=RouteKey(f"unified/q5_linear_add/5120x{k}"),
                order=18 + place,
                widths=GROUPWISE,
                candidates=UNIFIED,
                compiled=OFF,
                operation=_operation(k),
            ),
        )
    ),
)
