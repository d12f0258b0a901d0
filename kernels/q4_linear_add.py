"""Q4 output and down projections added to the residual in place."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey
from kernels.widths import DECODE, GROUPWISE, OFF, UNIFIED, limited

COMPILED = CompiledTable(
    default=(
        (4, "int:ksplit4"),
        (8, "int:ksplit8"),
        (24, "int:ksplit24"),
        (64, "int:r32_c32"),
        (80, "int:r64_c80"),
        (96, "int:r64_c96"),
        (128, "int:r64_c64"),
        (160, "int:r64_c80"),
        (192, "int:r64_c96"),
        (None, "int:r64_c128"),
    )
)

FAMILY = RouteFamily(
    name="q4_linear_add",
    group=Group.GROUPWISE,
    routes=(
        *(
            Route(
                key=RouteKey(f"q4_linear_add/5120x{k}"),
                order=13 + place,
                widths=DECODE,
                candidates=limited(small_t_c8=8, small_t_c16=16, small_t_c32=32),
                compiled=COMPILED,
            )
            for place, k in enumerate((6144, 17408))
        ),
        Route(
            key=RouteKey("unified/q4_linear_add"),
            order=21,
            widths=GROUPWISE,
            candidates=UNIFIED,
            compiled=OFF,
            asked_after=RouteKey("q4_linear_add/5120x6144"),
        ),
    ),
)
