"""Prompt attention: the fast kernel, query rows kept in registers, FP16 accumulation per key tile."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.prompts import PromptFast
from kernels.widths import OFF, SWITCH

FAMILY = RouteFamily(
    name="attn_prompt_fast",
    group=Group.ATTENTION,
    source="attn_prompt_fast",
    routes=(
        Route(
            key=RouteKey("attn_prompt_fast"),
            order=26,
            widths=SWITCH,
            candidates=(Candidate(schedule=Schedule("on"), rounding="fp16 accumulation"),),
            compiled=OFF,
            operation=PromptFast(),
        ),
    ),
)
