"""Q6 vocabulary head: per-row GEMV or small-T MMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.route import COMPILED, I32, Buf, CompiledTable, Group, Launch, Route, RouteFamily, RouteKey
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q6
from kernels.tiles import Gemm, Sliced
from kernels.widths import DECODE, limited

if TYPE_CHECKING:
    from generator.core.route import Ask, DeviceFacts

KEY = RouteKey("q6_head/248320x5120")
ROWS, K = 248320, 5120

# The compiled route: (last width, schedule), None for no upper end. ``int:`` marks an internal schedule: the compiled
# route runs it, but no key can name it, so it is no candidate and not in the digest (`CompiledTable`). `_compiled`
# takes the prefix off and reads the rest: simt_r8tT covers T columns a CTA, sliced_* and mma_* name rows of _SLICED and
# _TILES.
_LEGACY = (
    (4, "int:simt_r8t4"),
    (5, "int:simt_r8t5"),
    (6, "int:simt_r8t6"),
    (7, "int:simt_r8t7"),
    (16, "int:mma_t16"),
    (24, "int:mma_t24"),
    (32, "int:mma_t32"),
    (48, "int:mma_t48"),
    (None, "int:mma_t128"),
)

_UNIFIED = CompiledTable(
    default=(
        (2, "int:simt_r8t4"),
        (8, "int:sliced_r16t8w4s2"),
        (16, "int:sliced_r32t16w4s2"),
        (32, "int:sliced_r32t32w4s1"),
        (48, "int:mma_t48"),
        (56, "int:mma_t56"),
        (64, "int:mma_t64"),
        (80, "int:mma_t80"),
        (96, "int:mma_t96"),
    )
)

_UNIFIED_WIDTHS = {86: ((4, 18), (21, 40), (56, 96)), 89: ((7, 32), (56, 96)), 120: ((4, 32), (56, 96))}
"""Widths at which the unified plain-Linear table answers, by capability (engine-kernels 6.7)."""


def _with_unified(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int | None, str], ...]:
    """Return the legacy table with the unified one inside ``ranges``, in ascending bands."""
    legacy = CompiledTable(default=_LEGACY)
    ends = {*(last for first, last in ranges), *(first - 1 for first, last in ranges)}
    ends |= {last for last, _ in (*_LEGACY, *_UNIFIED.default) if last is not None}
    bands: list[tuple[int | None, str]] = []
    for width in sorted(ends):
        inside = any(first <= width <= last for first, last in ranges)
        schedule = (_UNIFIED if inside else legacy).at(width)
        if bands and bands[-1][1] == schedule:
            bands.pop()
        bands.append((width, schedule))
    return (*bands, (None, _LEGACY[-1][1]))


TABLE = CompiledTable(
    default=_LEGACY, by_capability={capability: _with_unified(ranges) for capability, ranges in _UNIFIED_WIDTHS.items()}
)

# rows, columns, warps, stages, CTAs a multiprocessor (`Sliced` in tiles.py).
_SLICED = {
    "r16t8w4s2": Sliced(16, 8, 4, 2, 4),
    "r32t16w4s2": Sliced(32, 16, 4, 2, 2),
    "r32t32w4s1": Sliced(32, 32, 4, 1, 2),
}

# Rows and columns of the tiles are the engine's; how warps divide them was not read and is chosen here: eight warps a
# tile, but twelve for 24 and 96 columns and four for 56. By position: rows, columns, depth, warp rows, warp columns,
# stages, CTAs a multiprocessor (`Gemm` in tiles.py).
_TILES = {
    "t16": Gemm(64, 16, 128, 16, 8, 2, 2),
    "t24": Gemm(64, 24, 128, 16, 8, 2, 2),
    "t32": Gemm(64, 32, 128, 16, 16, 2, 2),
    "t48": Gemm(64, 48, 128, 16, 24, 2, 1),
    "t56": Gemm(64, 56, 128, 16, 56, 2, 1),
    "t64": Gemm(64, 64, 128, 32, 16, 2, 1),
    "t80": Gemm(64, 80, 64, 16, 40, 2, 1),
    "t96": Gemm(64, 96, 64, 32, 16, 2, 1),
    "t112": Gemm(64, 112, 64, 16, 56, 2, 1),
    "t128": Gemm(64, 128, 64, 64, 16, 2, 1),
}

_HEAD = Weights(name="head", form=Q6, rows=ROWS, k=K)
_CANDIDATES = limited(gemv=2, small_t=32)


def plan(width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the one launch of the head under the schedule in force."""
    schedule = ask(KEY, width)
    if schedule == COMPILED or not any(item.schedule == schedule and item.legal(width) for item in _CANDIDATES):
        return (_compiled(TABLE.at(width, device.capability).removeprefix("int:"), width),)
    if schedule == "gemv":
        return (_launch(f"simt<{width}, 3>", (ROWS // 8, 1, 1), (256, 1, 1), width),)
    tiles = next(count for count in (1, 2, 4) if width <= 8 * count)
    return (_launch(f"small_t<{tiles}>", (ROWS // 16, 1, 1), (256, 1, 1), width),)


def _compiled(name: str, width: int) -> Launch:
    kind, tile = name.split("_", 1)
    if kind == "simt":
        columns = int(tile.removeprefix("r8t"))
        return _launch(f"simt<{columns}, 2>", (ROWS // 8, -(-width // columns), 1), (256, 1, 1), width)
    if kind == "sliced":
        form = _SLICED[tile]
        return _launch(f"sliced<{form.name}>", form.grid(ROWS, width), form.block, width)
    cfg = _TILES[tile]
    return _launch(f"mma<{cfg.name}>", cfg.grid(ROWS, width), cfg.block, width, shared_bytes(cfg))


def shared_bytes(cfg: Gemm) -> int:
    """Return the shared memory of a tile: decoded weights and its stages, or the FP32 tile of the store if larger."""
    groups = cfg.rows * cfg.depth // 64
    stage = cfg.columns * cfg.depth * 2 + groups * (Q6.code_bytes + Q6.high_bytes) + cfg.rows * 4
    return max(cfg.rows * cfg.depth * 2 + cfg.stages * stage, (cfg.rows + 4) * cfg.columns * 4)


def _launch(
    kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], width: int, shared: int = 0
) -> Launch:
    return Launch(
        source="q6_head",
        kernel=f"q6_head_{kernel}",
        grid=grid,
        block=block,
        args=(*_HEAD.args, Buf("x"), Buf("logits"), I32(K), I32(width)),
        shared_bytes=shared,
    )


FAMILY = RouteFamily(
    name="q6_head",
    group=Group.GROUPWISE,
    source="q6_head",
    routes=(
        Route(
            key=KEY,
            order=15,
            widths=DECODE,
            candidates=_CANDIDATES,
            compiled=TABLE,
            operation=GroupwiseOperation(
                k=K,
                columns=DECODE[-1],
                results=(Output(name="logits", pieces=(Piece(weights=_HEAD, first=0, rows=ROWS),)),),
                planner=plan,
            ),
        ),
    ),
)
