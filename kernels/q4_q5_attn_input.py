"""Attention input of the 27B model: Q4 query/key and Q5 gate/value projections, fused."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, limited, upto

KEY = RouteKey("q4_q5_attn_input/5120x6144x1024")

FAMILY = RouteFamily(
    name="q4_q5_attn_input",
    group=Group.GROUPWISE,
    routes=(
        Route(
            key=KEY,
            order=8,
            widths=GROUPWISE,
            candidates=(
                *limited(parent_split_fixed=12, small_t_mma=32),
                *any_width(
                    "grouped_r32_c32_s4",
                    "grouped_r32_c64_s4",
                    "mixed_r32_c64_s3",
                    "pair_r32_c64_s3",
                    "mixed_r64_c128_s2",
                ),
            ),
            compiled=CompiledTable(
                default=(
                    (32, "small_t_mma"),
                    (64, "mixed_r32_c64_s3"),
                    (127, "mixed_r64_c128_s2"),
                    (192, "mixed_r32_c64_s3"),
                    (None, "mixed_r64_c128_s2"),
                )
            ),
        ),
        Route(
            key=RouteKey("unified/q4_q5_attn_input"),
            order=16,
            widths=upto(GROUPWISE, 12),
            candidates=UNIFIED,
            compiled=OFF,
            acts_under=(KEY, Schedule("parent_split_fixed")),
        ),
    ),
)
