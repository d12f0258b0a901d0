"""Launches of the two fused input projections: a Q4 and a Q5 parent over the same activations, split outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.route import I32, Buf, Group, Launch, Route, RouteFamily, Schedule
from kernels.tiles import Sliced, SmallT, pick
from kernels.widths import GROUPWISE, OFF, UNIFIED, upto

if TYPE_CHECKING:
    from generator.core.route import Arg, Candidate, CompiledTable, Operation, RouteKey
    from kernels.groupwise import Weights
    from kernels.tiles import Gemm, Shape

    Steps = tuple[tuple[int, SmallT], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One parent and its two destinations: rows below ``split`` go to ``first``, the rest to ``second``.

    The leading dimensions are the planes' row counts.
    """

    weights: Weights
    first: Buf
    first_rows: int
    split: int
    second: Buf
    second_rows: int

    @property
    def planes(self) -> tuple[Arg, ...]:
        """Codes, high bytes (Q4: the scales again, never read), scales."""
        args = self.weights.args
        return (args[0], args[-1], args[-1]) if len(args) == 2 else args

    @property
    def output(self) -> tuple[Arg, ...]:
        """The destinations in the kernels' order."""
        return (self.first, I32(self.first_rows), I32(self.split), self.second, I32(self.second_rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class DualParent:
    """The two branches of one operation; ``stem`` is the ``.cu`` file and the prefix of its kernels."""

    stem: str
    q4: Branch
    q5: Branch

    def mixed(self, tile: Gemm, width: int) -> Launch:
        """Return both parents' row tiles in one grid, Q4 first."""
        q4, q5 = self.q4, self.q5
        rows = q4.weights.rows + q5.weights.rows
        shape = (tile.grid(rows, width), tile.block)
        args = (*q4.weights.args, *q5.weights.args, Buf("x"), *q4.output, *q5.output, I32(q4.weights.rows))
        return self.launch(f"{self.stem}_mixed<{tile.name}>", shape, (*args, I32(q4.weights.k), I32(width)))

    def gemm(self, branch: Branch, tile: Gemm, width: int) -> Launch:
        """Return one parent by tiled GEMM."""
        return self.one(
            branch, f"gemm<{tile.name}, {_format(branch)}>", (tile.grid(branch.weights.rows, width), tile.block), width
        )

    def small(self, branch: Branch, form: SmallT | Sliced, width: int) -> Launch:
        """Return one parent by small-T MMA or sliced K."""
        rows = branch.weights.rows
        if isinstance(form, Sliced):
            name, grid = f"sliced<{form.name}, {_format(branch)}>", form.grid(rows, width)
        else:
            name, grid = f"small_t<{form.name}, {_format(branch)}>", form.grid(rows)
        return self.one(branch, name, (grid, form.block), width)

    def small_t(self, q4: Steps, q5: Steps, width: int) -> tuple[Launch, Launch]:
        """Return small_t_mma, each parent by its form of the width, Q5 first (engine-kernels 6.2)."""
        return self.small(self.q5, pick(q5, width), width), self.small(self.q4, pick(q4, width), width)

    def k_split(self, width: int, *, unified: bool) -> Launch:
        """Return the Q4 parent of the direct forms at 7 to 12 columns: K-split, or sliced K if ``unified``."""
        columns = 8 if width <= 8 else 16
        form = Sliced(16, columns, 8, 1) if unified else SmallT(columns, 1, 8, 1, 3 if columns == 8 else 2)
        return self.small(self.q4, form, width)

    def simt(self, branch: Branch, columns: int, width: int) -> Launch:
        """Return one parent by SIMT, 8 rows a CTA, tiles of ``columns`` columns."""
        grid = (branch.weights.rows // 8, -(-width // columns), 1)
        return self.one(branch, f"simt<{_format(branch)}, {columns}>", (grid, (256, 1, 1)), width)

    def gemv(self, rows: int, warps: int) -> Launch:
        """Return the Q4 parent's GEMV: ``rows`` rows a CTA, ``warps`` warps a row."""
        shape = ((self.q4.weights.rows // rows, 1, 1), (32 * rows * warps, 1, 1))
        return self.one(self.q4, f"gemv<{rows}, {warps}>", shape, 1)

    def gemv_staged(self) -> Launch:
        """Return the Q5 parent's GEMV R16W1."""
        return self.one(self.q5, "gemv_staged", ((self.q5.weights.rows // 16, 1, 1), (512, 1, 1)), 1)

    def split4(self, width: int, rows: int, min_blocks: int) -> Launch:
        """Return the Q5 parent's split4: ``rows`` rows a CTA."""
        shape = ((self.q5.weights.rows // rows, 1, 1), (128, 1, 1))
        return self.one(self.q5, f"split4<{width}, {rows}, {min_blocks}>", shape, width)

    def one(self, branch: Branch, kernel: str, shape: Shape, width: int) -> Launch:
        """Return a launch of ``stem_kernel`` over one parent."""
        args = (*branch.planes, Buf("x"), *branch.output, I32(branch.weights.k), I32(width))
        return self.launch(f"{self.stem}_{kernel}", shape, args)

    def launch(self, kernel: str, shape: Shape, args: tuple[Arg, ...]) -> Launch:
        """Return a launch of ``kernel``."""
        return Launch(source=self.stem, kernel=kernel, grid=shape[0], block=shape[1], args=args)


def _format(branch: Branch) -> str:
    return f"Q{branch.weights.form.bits}"


def legacy_split4(width: int) -> tuple[int, int]:
    """Return rows a CTA and least CTAs per multiprocessor of the legacy split4 (engine-kernels 5.6)."""
    if width >= 8:
        return 2, 6
    return (1, 10) if width <= 5 else (1, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """The keys of an input projection: its own, and the switch, which acts inside ``direct`` up to ``last`` columns."""

    own: RouteKey
    order: int
    switch: RouteKey
    switch_order: int
    direct: Schedule
    last: int


def input_family(
    stem: str, keys: Keys, candidates: tuple[Candidate, ...], compiled: CompiledTable, operation: Operation
) -> RouteFamily:
    """Return the family of source ``stem``."""
    return RouteFamily(
        name=stem,
        group=Group.GROUPWISE,
        source=stem,
        routes=(
            Route(
                key=keys.own,
                order=keys.order,
                widths=GROUPWISE,
                candidates=candidates,
                compiled=compiled,
                operation=operation,
            ),
            Route(
                key=keys.switch,
                order=keys.switch_order,
                widths=upto(GROUPWISE, keys.last),
                candidates=UNIFIED,
                compiled=OFF,
                operation=operation,
                acts_under=(keys.own, keys.direct),
            ),
        ),
    )
