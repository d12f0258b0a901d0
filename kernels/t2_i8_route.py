"""Ternary projections: the small-T kernel or the prefill tile GEMM, per width."""

from __future__ import annotations

from generator.core.route import Candidate, CompiledTable, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.widths import T2_ROUTE

FAMILY = RouteFamily(
    name="t2_i8_route",
    group=Group.TERNARY,
    routes=(
        Route(
            key=RouteKey("t2_i8_route"),
            order=7,
            widths=T2_ROUTE,
            candidates=(Candidate(schedule=Schedule("small"), max_width=192), Candidate(schedule=Schedule("tile"))),
            compiled=CompiledTable(default=((64, "small"), (None, "tile"))),
        ),
    ),
)
