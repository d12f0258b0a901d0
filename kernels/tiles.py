"""Name expressions, grids and blocks of the three kernel forms that the groupwise families share.

The numbers are those of engine-kernels 5.1 (tiled GEMM), 5.5 (small-T MMA) and 5.7 (sliced K); the templates are in
``include/gemm_tile.cuh``, ``small_t_mma.cuh`` and ``sliced.cuh``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

Form = TypeVar("Form")

Shape = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Grid and block of a launch."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """``GemmCfg<rows, columns, depth, warp_rows, warp_columns, stages, min_blocks>`` and its three switches.

    Tables give the numbers by position, in this order: ``Gemm(64, 16, 128, 16, 8, 2, 2)``.

    Args:
        rows: weight rows of a CTA's tile.
        columns: columns (tokens) of a CTA's tile.
        depth: elements of K a step, 64 or 128.
        warp_rows: weight rows of a warp's part of the tile, a multiple of 16.
        warp_columns: columns of a warp's part, a multiple of 8; warps times parts cover the tile.
        stages: steps in flight, at least 2.
        min_blocks: CTAs a multiprocessor that the compiler must leave registers for.
        ping_pong: fragments of the next k16 are loaded before the products of this one.
        past_l1: 16-byte copies go past the L1.
        scale_pair: scales are copied as pairs of 4 bytes; needed for a depth of 128.
    """

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int
    min_blocks: int
    ping_pong: bool = False
    past_l1: bool = True
    scale_pair: bool = True

    @property
    def name(self) -> str:
        """The C++ type."""
        numbers = (self.rows, self.columns, self.depth, self.warp_rows, self.warp_columns, self.stages, self.min_blocks)
        switches = (self.ping_pong, self.past_l1, self.scale_pair)
        tail = "" if switches == (False, True, True) else f", {', '.join(str(switch).lower() for switch in switches)}"
        return f"GemmCfg<{', '.join(map(str, numbers))}{tail}>"

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA."""
        return (32 * (self.rows // self.warp_rows) * (self.columns // self.warp_columns), 1, 1)

    def grid(self, rows: int, width: int) -> tuple[int, int, int]:
        """Return the CTAs that cover ``rows`` weight rows and ``width`` columns."""
        return (rows // self.rows, -(-width // self.columns), 1)


@dataclass(frozen=True, slots=True)
class SmallT:
    """``SmallT<columns, stages, k_warps, tiles, min_blocks>``: 256 threads, one CTA a row block.

    Args:
        columns: most columns (tokens): 4, 8, 16, 24 or 32.
        stages: steps in flight, 1 to 3.
        k_warps: warps of the eight that share K: 2, 4 or 8.
        tiles: tiles of 16 weight rows a warp.
        min_blocks: CTAs a multiprocessor that the compiler must leave registers for.
    """

    columns: int
    stages: int
    k_warps: int
    tiles: int
    min_blocks: int

    @property
    def name(self) -> str:
        """The C++ type."""
        return f"SmallT<{self.columns}, {self.stages}, {self.k_warps}, {self.tiles}, {self.min_blocks}>"

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA."""
        return (256, 1, 1)

    def grid(self, rows: int) -> tuple[int, int, int]:
        """Return the CTAs that cover ``rows`` weight rows."""
        return (rows // (16 * (8 // self.k_warps) * self.tiles), 1, 1)


@dataclass(frozen=True, slots=True)
class Sliced:
    """``Sliced<rows, columns, warps, stages, min_blocks, pairwise>``, by position: ``Sliced(16, 8, 4, 2, 4)``.

    The engine's names spell the first four: R16T8W4S2.

    Args:
        rows: weight rows of a CTA's tile, a multiple of 16.
        columns: columns (tokens) of a CTA's tile, a multiple of 8.
        warps: warps that share K, each over the whole tile: 2, 4 or 8.
        stages: steps in flight.
        min_blocks: CTAs a multiprocessor that the compiler must leave registers for.
        pairwise: partial sums are added odd into even first, instead of in order.
    """

    rows: int
    columns: int
    warps: int
    stages: int
    min_blocks: int = 1
    pairwise: bool = False

    @property
    def name(self) -> str:
        """The C++ type."""
        numbers = (self.rows, self.columns, self.warps, self.stages, self.min_blocks)
        return f"Sliced<{', '.join(map(str, numbers))}{', true' if self.pairwise else ''}>"

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA."""
        return (32 * self.warps, 1, 1)

    def grid(self, rows: int, width: int) -> tuple[int, int, int]:
        """Return the CTAs that cover ``rows`` weight rows and ``width`` columns."""
        return (rows // self.rows, -(-width // self.columns), 1)


def pick(steps: tuple[tuple[int, Form], ...], width: int) -> Form:
    """Return the form of the first step whose last width is not below ``width``.

    Raises:
        KeyError: every step ends below ``width``.
    """
    for last, form in steps:
        if width <= last:
            return form
    raise KeyError(width)
