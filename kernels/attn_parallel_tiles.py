"""Small-T attention of a wide single row as parallel query tiles instead of serial chunks."""

from __future__ import annotations

from generator.core.route import Candidate, Group, Route, RouteFamily, RouteKey, Schedule
from kernels.prompts import ParallelTiles
from kernels.widths import OFF, SWITCH

FAMILY = RouteFamily(
    name="attn_parallel_tiles",
    group=Group.ATTENTION,
    source="attn_parallel_tiles",
    routes=(
        Route(
            key=RouteKey("attn_parallel_tiles"),
            order=27,
            widths=SWITCH,
            candidates=(Candidate(schedule=Schedule("on")),),
            compiled=OFF,
            operation=ParallelTiles(),
        ),
    ),
)
