"""Q5 output and down projections added to the residual in place."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey
from kernels.widths import GROUPWISE, OFF, UNIFIED, any_width, limited

CANDIDATES = (
    *limited(split2_exact=10, small_t_mma=32),
    *any_width(
        "mma_r64_c16", "mma_r64_c24", "mma_r64_c32", "mma_r64_c64", "mma_r64_c32_s3", "mma_r64_c32_s4", "mma_r64_c128"
    ),
)

COMPILED = {
    6144: CompiledTable(
        default=(
            (2, "split2_exact"),
            (32, "small_t_mma"),
            (103, "mma_r64_c32_s3"),
            (127, "mma_r64_c64"),
            (512, "mma_r64_c128"),
            (None, "int:c128+tail"),
        )
    ),
    17408: CompiledTable(
        default=(
            (2, "split2_exact"),
            (32, "small_t_mma"),
            (64, "mma_r64_c32_s4"),
            (103, "mma_r64_c32_s3"),
            (127, "mma_r64_c64"),
            (512, "mma_r64_c128"),
            (None, "int:c128+tail"),
        )
    ),
}

FAMILY = RouteFamily(
    name="q5_linear_add",
    group=Group.GROUPWISE,
    routes=tuple(
        route
        for place, k in enumerate((6144, 17408))
        for route in (
            Route(
                key=RouteKey(f"q5_linear_add/5120x{k}"),
                order=10 + place,
                widths=GROUPWISE,
                candidates=CANDIDATES,
                compiled=COMPILED[k],
                asked_after=RouteKey(f"unified/q5_linear_add/5120x{k}"),
            ),
            Route(
                key=RouteKey(f"unified/q5_linear_add/5120x{k}"),
                order=18 + place,
                widths=GROUPWISE,
                candidates=UNIFIED,
                compiled=OFF,
            ),
        )
    ),
)
