"""Q4 gate/up projection with SwiGLU."""

from __future__ import annotations

from generator.core.route import Candidate, CompiledTable, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, upto

KEY = RouteKey("q4_linear_swiglu/34816x17408x5120")

FAMILY = RouteFamily(
    name="q4_linear_swiglu",
    group=Group.GROUPWISE,
    routes=(
        Route(
            key=KEY,
            order=12,
            widths=GROUPWISE,
            candidates=(
                Candidate(schedule=Schedule("gemv_pair"), max_width=1),
                Candidate(schedule=Schedule("small_t_tiled"), min_width=2, max_width=32),
                *any_width(
                    "split_half_pair_c40", "split_half_pair_c48", "split_half_pair_c128", "split_half_pair_c128_tail"
                ),
            ),
            compiled=CompiledTable(
                default=(
                    (1, "gemv_pair"),
                    (32, "small_t_tiled"),
                    (40, "split_half_pair_c40"),
                    (48, "split_half_pair_c48"),
                    (None, "split_half_pair_c128"),
                )
            ),
        ),
        Route(
            key=RouteKey("unified/q4_linear_swiglu"),
            order=20,
            widths=upto(GROUPWISE, 32),
            candidates=UNIFIED,
            compiled=OFF,
            acts_under=(KEY, Schedule("small_t_tiled")),
        ),
    ),
)
