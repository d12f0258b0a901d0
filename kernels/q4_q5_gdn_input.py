"""GDN input of the 27B model: Q4 query/key and Q5 value/z projections, fused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generator.core.route import Buf, CompiledTable, RouteKey, Schedule
from kernels.dual_parent import Branch, DualParent, Keys, input_family, legacy_split4
from kernels.groupwise import GroupwiseOperation, Output, Piece, Weights
from kernels.reference.formats import Q4, Q5
from kernels.tiles import Gemm, SmallT
from kernels.widths import GROUPWISE, any_width, limited

if TYPE_CHECKING:
    from generator.core.route import Ask, DeviceFacts, Launch

KEY = RouteKey("q4_q5_gdn_input/5120x4096x12288")
UNIFIED_KEY = RouteKey("unified/q4_q5_gdn_input")

QK = Weights(name="qk", form=Q4, rows=4096, k=5120)
VZ = Weights(name="vz", form=Q5, rows=12288, k=5120)
PARENTS = DualParent(
    stem="q4_q5_gdn_input",
    q4=Branch(weights=QK, first=Buf("qkv"), first_rows=10240, split=4096, second=Buf("qkv"), second_rows=10240),
    q5=Branch(weights=VZ, first=Buf("qkv", 4096), first_rows=10240, split=6144, second=Buf("z"), second_rows=6144),
)

COMPILED = CompiledTable(default=((32, "small_t_mma"), (64, "grouped_r64_c64"), (None, "grouped_r64_c128")))

GROUPED = {
    "grouped_r64_c8": Gemm(64, 8, 64, 16, 8, 2, 2),
    "grouped_r64_c16": Gemm(64, 16, 64, 16, 8, 2, 2),
    "grouped_r64_c32": Gemm(64, 32, 64, 16, 8, 2, 2),
    "grouped_r64_c64": Gemm(64, 64, 64, 16, 16, 2, 2),
    "grouped_r64_c128": Gemm(64, 128, 64, 64, 16, 2, 1),
    "grouped_r32_c32_s2": Gemm(32, 32, 64, 16, 16, 2, 1),
    "grouped_r32_c64_s4": Gemm(32, 64, 64, 16, 16, 4, 1),
}
SMALL_T_Q5 = (
    (4, SmallT(4, 2, 8, 1, 4)),
    (8, SmallT(8, 1, 8, 1, 4)),
    (16, SmallT(16, 3, 4, 1, 3)),
    (32, SmallT(32, 1, 4, 1, 2)),
)
SMALL_T_Q4 = ((8, SmallT(8, 1, 8, 1, 3)), (16, SmallT(16, 2, 4, 1, 3)), (32, SmallT(32, 2, 4, 1, 2)))


def plan(width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
    """Return the launches of one run; the switch is asked inside independent_direct alone (engine-profiles fact 22)."""
    schedule = ask(KEY, width) or COMPILED.at(width, device.capability)
    if schedule == "independent_direct":
        return _direct(width, unified=ask(UNIFIED_KEY, width) == "unified")
    if schedule == "small_t_mma":
        return PARENTS.small_t(SMALL_T_Q4, SMALL_T_Q5, width)
    return (PARENTS.mixed(GROUPED[schedule], width),)


def _direct(width: int, *, unified: bool) -> tuple[Launch, ...]:
    q4, q5 = _direct_q4(width, unified=unified), _direct_q5(width, unified=unified)
    return (q5, replace(q4, dependent=True)) if width == OVERLAPPED else (q4, q5)


def _direct_q4(width: int, *, unified: bool) -> Launch:
    if width == 1:
        return PARENTS.gemv(1, 8)
    if width <= 4:
        return PARENTS.simt(PARENTS.q4, 4, width)
    if 7 <= width <= 12:
        return PARENTS.k_split(width, unified=unified)
    return PARENTS.simt(PARENTS.q4, 8, width)


def _direct_q5(width: int, *, unified: bool) -> Launch:
    if width == 1:
        return PARENTS.gemv_staged()
    if width <= (10 if unified else 8):
        return PARENTS.split4(width, *((1, 10) if unified else legacy_split4(width)))
    return PARENTS.simt(PARENTS.q5, 4 if width <= 12 else 8, width)


OVERLAPPED = 4
"""The width at which Q5 goes first and Q4 is its programmatic dependent (engine-kernels 6.3)."""

OPERATION = GroupwiseOperation(
    k=5120,
    columns=max(GROUPWISE),
    results=(
        Output(
            name="qkv",
            pieces=(
                Piece(weights=QK, first=0, rows=4096),
                Piece(weights=VZ, first=0, rows=6144, at=4096),
            ),
        ),
        Output(name="z", pieces=(Piece(weights=VZ, first=6144, rows=6144),)),
    ),
    planner=plan,
)

CANDIDATES = (
    *limited(independent_direct=15, small_t_mma=32),
    *any_width(
        "grouped_r64_c8",
        "grouped_r64_c16",
        "grouped_r64_c32",
        "grouped_r64_c64",
        "grouped_r64_c128",
        "grouped_r32_c32_s2",
        "grouped_r32_c64_s4",
    ),
)

KEYS = Keys(
    own=KEY,
    order=9,
    switch=UNIFIED_KEY,
    switch_order=17,
    direct=Schedule("independent_direct"),
    last=15,
)

FAMILY = input_family(PARENTS.stem, KEYS, CANDIDATES, COMPILED, OPERATION)
