"""Attention: FP16 accumulation of the probability-times-value product per key tile."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.prompts import PvF16
from kernels.widths import OFF, SWITCH

FAMILY = RouteFamily(
    name="attn_pv_f16",
    group=Group.ATTENTION,
    source="attn_prompt",
    routes=(
        Route(
            key=RouteKey("attn_pv_f16"),
            order=24,
            widths=SWITCH,
            candidates=(Candidate(schedule=Schedule("on"), rounding="fp16 accumulation"),),
            compiled=OFF,
            operation=PvF16(),
        ),
    ),
)
