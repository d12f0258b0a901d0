"""Prompt attention: the query heads of each KV head packed into the tiles of the standard INT8 kernel."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.prompts import PackGqa
from kernels.widths import OFF, SWITCH

FAMILY = RouteFamily(
    name="attn_pack_gqa",
    group=Group.ATTENTION,
    source="attn_prompt",
    routes=(
        Route(
            key=RouteKey("attn_pack_gqa"),
            order=25,
            widths=SWITCH,
            candidates=(Candidate(schedule=Schedule("on")),),
            compiled=OFF,
            operation=PackGqa(),
        ),
    ),
)
