"""Attention input of the 27B model: Q4 query/key and Q5 gate/value projections, fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.route import Buf, CompiledTable, RouteKey, Schedule
from kernels.dual_parent import Branch, DualParent, Keys, input_family, legacy_split4
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q4, Q5
from kernels.tiles import Gemm, SmallT
from kernels.widths import GROUPWISE, any_width, limited

if TYPE_CHECKING:
    from generator.core.route import Ask, DeviceFacts, Launch

KEY = RouteKey("q4_q5_attn_input/5120x6144x1024")
UNIFIED_KEY = RouteKey("unified/q4_q5_attn_input")

QK = Weights(name="qk", form=Q4, rows=7168, k=5120)
GV = Weights(name="gv", form=Q5, rows=7168, k=5120)
PARENTS = DualParent(
    stem="q4_q5_attn_input",
    q4=Branch(weights=QK, first=Buf("q"), first_rows=6144, split=6144, second=Buf("k"), second_rows=1024),
    q5=Branch(weights=GV, first=Buf("gate"), first_rows=6144, split=6144, second=Buf("v"), second_rows=1024),
)

COMPILED = CompiledTable(
    default=(
        (32, "small_t_mma"),
        (64, "mixed_r32_c64_s3"),
        (127, "mixed_r64_c128_s2"),
        (192, "mixed_r32_c64_s3"),
        (None, "mixed_r64_c128_s2"),
    )
)

MIXED = {
    "mixed_r32_c64_s3": Gemm(32, 64, 64, 16, 16, 3, 3),
    "mixed_r64_c128_s2": Gemm(64, 128, 64, 64, 16, 2, 2),
}
PAIRED = {
    "grouped_r32_c32_s4": Gemm(32, 32, 64, 16, 16, 4, 1),
    "grouped_r32_c64_s4": Gemm(32, 64, 64, 16, 16, 4, 1),
    "pair_r32_c64_s3": Gemm(32, 64, 64, 32, 16, 3, 2),
}
SMALL_T_Q5 = (
    (4, SmallT(4, 2, 8, 1, 4)),
    (8, SmallT(8, 1, 8, 1, 4)),
    (16, SmallT(16, 1, 8, 1, 2)),
    (32, SmallT(32, 2, 2, 1, 2)),
)
SMALL_T_Q4 = ((8, SmallT(8, 1, 8, 1, 3)), (16, SmallT(16, 1, 4, 1, 2)), (32, SmallT(32, 2, 2, 1, 2)))


def plan(width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the launches of one run; the switch is asked inside parent_split_fixed alone (engine-profiles fact 22)."""
    schedule = ask(KEY, width) or COMPILED.at(width, device.capability)
    q4, q5 = PARENTS.q4, PARENTS.q5
    if schedule == "parent_split_fixed":
        return _split_fixed(width, unified=ask(UNIFIED_KEY, width) == "unified")
    if schedule == "small_t_mma":
        return PARENTS.small_t(SMALL_T_Q4, SMALL_T_Q5, width)
    if schedule in MIXED:
        return (PARENTS.mixed(MIXED[schedule], width),)
    tile = PAIRED[schedule]
    return (PARENTS.gemm(q4, tile, width), PARENTS.gemm(q5, tile, width))


def _split_fixed(width: int, *, unified: bool) -> tuple[Launch, ...]:
    return _split_fixed_q4(width, unified=unified), _split_fixed_q5(width, unified=unified)


def _split_fixed_q4(width: int, *, unified: bool) -> Launch:
    if width == 1:
        # The legacy GEMV's shape is not stated; R4W1 is the shape of engine-kernels 5.6 that no other operation names.
        return PARENTS.gemv(1, 8) if unified else PARENTS.gemv(4, 1)
    if width <= 6:
        return PARENTS.simt(PARENTS.q4, 4, width)
    return PARENTS.k_split(width, unified=unified)


def _split_fixed_q5(width: int, *, unified: bool) -> Launch:
    if width == 1:
        return PARENTS.gemv_staged()
    if width <= (9 if unified else 6):
        return PARENTS.split4(width, *((1, 10) if unified else legacy_split4(width)))
    if width <= 8:
        return PARENTS.one(PARENTS.q5, "row_block", ((PARENTS.q5.weights.rows // 8, 1, 1), (256, 1, 1)), width)
    return PARENTS.simt(PARENTS.q5, 4, width)


OPERATION = GroupwiseOperation(
    k=5120,
    columns=max(GROUPWISE),
    results=tuple(
        Output(name=name, pieces=(Piece(weights=weights, first=first, rows=rows),))
        for name, weights, first, rows in (
            ("q", QK, 0, 6144),
            ("k", QK, 6144, 1024),
            ("gate", GV, 0, 6144),
            ("v", GV, 6144, 1024),
        )
    ),
    planner=plan,
)

CANDIDATES = (
    *limited(parent_split_fixed=12, small_t_mma=32),
    *any_width(
        "grouped_r32_c32_s4",
        "grouped_r32_c64_s4",
        "mixed_r32_c64_s3",
        "pair_r32_c64_s3",
        "mixed_r64_c128_s2",
    ),
)

KEYS = Keys(
    own=KEY,
    order=8,
    switch=UNIFIED_KEY,
    switch_order=16,
    direct=Schedule("parent_split_fixed"),
    last=12,
)

FAMILY = input_family(PARENTS.stem, KEYS, CANDIDATES, COMPILED, OPERATION)
