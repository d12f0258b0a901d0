"""Gated delta net prefill: two stages (on) or the WY, state-passing and output pipeline (compiled)."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.gdn_plan import SMALL_CHUNK, GdnPrefill
from kernels.widths import GDN, OFF

FAMILY = RouteFamily(
    name="gdn_two_stage",
    group=Group.LINEAR_ATTENTION,
    source="gdn_two_stage",
    routes=tuple(
        Route(
            key=RouteKey(f"gdn_two_stage/h{heads}"),
            order=order,
            widths=GDN,
            candidates=(Candidate(schedule=Schedule("on"), min_width=SMALL_CHUNK),),
            compiled=OFF,
            stretch={8192: 2147483647},
            operation=GdnPrefill(key=RouteKey(f"gdn_two_stage/h{heads}"), heads=heads, widest=GDN[-1]),
        )
        for order, heads in ((22, 48), (23, 32))
    ),
)
