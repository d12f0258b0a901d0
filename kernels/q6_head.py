"""Q6 vocabulary head: per-row GEMV or small-T MMA."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey
from kernels.widths import DECODE, limited

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

FAMILY = RouteFamily(
    name="q6_head",
    group=Group.GROUPWISE,
    routes=(
        Route(
            key=RouteKey("q6_head/248320x5120"),
            order=15,
            widths=DECODE,
            candidates=limited(gemv=2, small_t=32),
            compiled=CompiledTable(
                default=_LEGACY,
                # The unified plain-Linear table answers inside these widths (engine-kernels 6.7): 8.6 at 4-18, 21-40
                # and 56-96; 8.9 at 7-32 and 56-96; 12.x at 4-32 and 56-96.
                by_capability={
                    86: (
                        (3, "int:simt_r8t4"),
                        (8, "int:sliced_r16t8w4s2"),
                        (16, "int:sliced_r32t16w4s2"),
                        (18, "int:sliced_r32t32w4s1"),
                        (20, "int:mma_t24"),
                        (32, "int:sliced_r32t32w4s1"),
                        (48, "int:mma_t48"),
                        (55, "int:mma_t128"),
                        (56, "int:mma_t56"),
                        (64, "int:mma_t64"),
                        (80, "int:mma_t80"),
                        (96, "int:mma_t96"),
                        (None, "int:mma_t128"),
                    ),
                    89: (
                        (4, "int:simt_r8t4"),
                        (5, "int:simt_r8t5"),
                        (6, "int:simt_r8t6"),
                        (8, "int:sliced_r16t8w4s2"),
                        (16, "int:sliced_r32t16w4s2"),
                        (32, "int:sliced_r32t32w4s1"),
                        (48, "int:mma_t48"),
                        (55, "int:mma_t128"),
                        (56, "int:mma_t56"),
                        (64, "int:mma_t64"),
                        (80, "int:mma_t80"),
                        (96, "int:mma_t96"),
                        (None, "int:mma_t128"),
                    ),
                    120: (
                        (3, "int:simt_r8t4"),
                        (8, "int:sliced_r16t8w4s2"),
                        (16, "int:sliced_r32t16w4s2"),
                        (32, "int:sliced_r32t32w4s1"),
                        (48, "int:mma_t48"),
                        (55, "int:mma_t128"),
                        (56, "int:mma_t56"),
                        (64, "int:mma_t64"),
                        (80, "int:mma_t80"),
                        (96, "int:mma_t96"),
                        (None, "int:mma_t128"),
                    ),
                },
            ),
        ),
    ),
)
