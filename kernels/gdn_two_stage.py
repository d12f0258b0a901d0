"""Gated delta net prefill: two stages (on) or the WY, state-passing and output pipeline (compiled)."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.widths import GDN, OFF

FAMILY = RouteFamily(
    name="gdn_two_stage",
    group=Group.LINEAR_ATTENTION,
    routes=tuple(
        Route(
            key=RouteKey(f"gdn_two_stage/h{heads}"),
            order=order,
            widths=GDN,
            candidates=(Candidate(schedule=Schedule("on"), min_width=16),),
            compiled=OFF,
            stretch={8192: 2147483647},
        )
        for order, heads in ((22, 48), (23, 32))
    ),
)
