"""Q4 output and down projections added to the residual in place."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from generator.core.route import I32, Buf, CompiledTable, Group, Launch, Route, RouteFamily, RouteKey
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q4
from kernels.tiles import Gemm, Shape, Sliced, SmallT, pick
from kernels.widths import DECODE, GROUPWISE, OFF, UNIFIED, limited

if TYPE_CHECKING:
    from generator.core.route import Ask, DeviceFacts

COMPILED = CompiledTable(
    default=(
        (4, "int:ksplit4"),
        (8, "int:ksplit8"),
        (24, "int:ksplit24"),
        (64, "int:r32_c32"),
        (80, "int:r64_c80"),
        (96, "int:r64_c96"),
        (128, "int:r64_c64"),
        (160, "int:r64_c80"),
        (192, "int:r64_c96"),
        (None, "int:r64_c128"),
    )
)

ROWS = 5120
WEIGHTS = {k: Weights(name="w", form=Q4, rows=ROWS, k=k) for k in (6144, 17408)}
UNIFIED_KEY = RouteKey("unified/q4_linear_add")
UNIFIED_K = 6144
"""The only K whose operation asks the switch."""

KSPLIT = {
    "int:ksplit4": SmallT(8, 1, 8, 1, 3),  # capacity 4 is rounded to one tile of 8 columns
    "int:ksplit8": SmallT(8, 1, 8, 1, 3),
    "int:ksplit24": SmallT(24, 1, 8, 1, 2),
}
TILES = {
    "int:r32_c32": Gemm(32, 32, 64, 16, 16, 3, 2),
    "int:r64_c64": Gemm(64, 64, 64, 32, 16, 2, 2),
    "int:r64_c80": Gemm(64, 80, 64, 16, 40, 2, 1),
    "int:r64_c96": Gemm(64, 96, 64, 32, 16, 2, 1),
    "int:r64_c128": Gemm(64, 128, 64, 64, 32, 2, 1),
}
UNIFIED_FORMS: tuple[tuple[int, Gemm | Sliced], ...] = (
    *((columns, Sliced(16, columns, 8, 1)) for columns in (8, 16, 24, 32)),
    (96, TILES["int:r32_c32"]),
    (192, Gemm(32, 64, 64, 16, 32, 3, 2)),
)
DIRECT_COLUMNS = {"small_t_c8": 8, "small_t_c16": 16, "small_t_c32": 32}


def plan(k: int, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the launch of one run: the family's key, then for K = 6144 the switch, then the compiled table."""
    schedule = ask(RouteKey(f"q4_linear_add/5120x{k}"), width)
    if not schedule and k == UNIFIED_K and ask(UNIFIED_KEY, width) == "unified":
        return (_unified(k, width),)
    return (_scheduled(k, schedule or COMPILED.at(width, device.capability), width),)


def _scheduled(k: int, schedule: str, width: int) -> Launch:
    if schedule in DIRECT_COLUMNS:
        kernel = f"q4_linear_add_small_t<{DIRECT_COLUMNS[schedule]}>"
        return _launch(k, kernel, ((ROWS // 16, 1, 1), (256, 1, 1)), width)
    if schedule in KSPLIT:
        form = KSPLIT[schedule]
        return _launch(k, f"q4_linear_add_ksplit<{form.name}>", (form.grid(ROWS), form.block), width)
    return _tiled(k, TILES[schedule], width)


def _unified(k: int, width: int) -> Launch:
    if width == 1:
        return _launch(k, "q4_linear_add_gemv", ((ROWS, 1, 1), (256, 1, 1)), width)
    form = TILES["int:r64_c128"] if width > UNIFIED_FORMS[-1][0] else pick(UNIFIED_FORMS, width)
    if isinstance(form, Gemm):
        return _tiled(k, form, width)
    return _launch(k, f"q4_linear_add_sliced<{form.name}>", (form.grid(ROWS, width), form.block), width)


def _tiled(k: int, tile: Gemm, width: int) -> Launch:
    return _launch(k, f"q4_linear_add_mma<{tile.name}>", (tile.grid(ROWS, width), tile.block), width)


def _launch(k: int, kernel: str, shape: Shape, width: int) -> Launch:
    args = (*WEIGHTS[k].args, Buf("x"), Buf("residual"), I32(k), I32(width))
    return Launch(source="q4_linear_add", kernel=kernel, grid=shape[0], block=shape[1], args=args)


def _operation(k: int) -> GroupwiseOperation:
    return GroupwiseOperation(
        k=k,
        columns=max(GROUPWISE),
        results=(Output(name="residual", pieces=(Piece(weights=WEIGHTS[k], first=0, rows=ROWS),)),),
        planner=partial(plan, k),
        residual=True,
    )


FAMILY = RouteFamily(
    name="q4_linear_add",
    group=Group.GROUPWISE,
    source="q4_linear_add",
    routes=(
        *(
            Route(
                key=RouteKey(f"q4_linear_add/5120x{k}"),
                order=13 + place,
                widths=DECODE,
                candidates=limited(small_t_c8=8, small_t_c16=16, small_t_c32=32),
                compiled=COMPILED,
                operation=_operation(k),
            )
            for place, k in enumerate(WEIGHTS)
        ),
        Route(
            key=UNIFIED_KEY,
            order=21,
            widths=GROUPWISE,
            candidates=UNIFIED,
            compiled=OFF,
            operation=_operation(UNIFIED_K),
            asked_after=RouteKey("q4_linear_add/5120x6144"),
        ),
    ),
)
