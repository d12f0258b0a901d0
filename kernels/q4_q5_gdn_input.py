"""GDN input of the 27B model: Q4 query/key and Q5 value/z projections, fused."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, limited, upto

KEY = RouteKey("q4_q5_gdn_input/5120x4096x12288")

FAMILY = RouteFamily(
    name="q4_q5_gdn_input",
    group=Group.GROUPWISE,
    routes=(
        Route(
            key=KEY,
            order=9,
            widths=GROUPWISE,
            candidates=(
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
            ),
            compiled=CompiledTable(default=((32, "small_t_mma"), (64, "grouped_r64_c64"), (None, "grouped_r64_c128"))),
        ),
        Route(
            key=RouteKey("unified/q4_q5_gdn_input"),
            order=17,
            widths=upto(GROUPWISE, 15),
            candidates=UNIFIED,
            compiled=OFF,
            acts_under=(KEY, Schedule("independent_direct")),
        ),
    ),
)
