"""The ``unified/*`` switches that no calibration measures: two benchmark rounds decide them."""

from __future__ import annotations

from generator.core.route import Group, Route, RouteFamily, RouteKey
from kernels.widths import OFF, UNIFIED, UNIFIED_GRID

NAMES = (
    "q4_linear_topk",
    "q8_attn_input",
    "q8_gdn_input",
    "q8_linear_add",
    "q8_linear_pair",
    "q8_linear_swiglu",
    "q8_linear_topk",
    "q8_dynamic_grouped_conv",
    "context_kv_materialize",
    "fp8_attn_input",
    "fp8_gdn_input",
    "fp8_linear_add",
    "fp8_linear_swiglu",
    "fp8_linear_topk",
    "nvfp4_attn_input",
    "nvfp4_gdn_input",
    "nvfp4_linear_add",
    "nvfp4_linear_swiglu",
    "bf16_attn_input",
    "bf16_linear_add",
)

FAMILY = RouteFamily(
    name="unified_switches",
    group=Group.BENCHMARKED,
    routes=tuple(
        Route(
            key=RouteKey(f"unified/{name}"),
            order=0,
            widths=UNIFIED_GRID,
            candidates=UNIFIED,
            compiled=OFF,
            calibrated=False,
        )
        for name in NAMES
    ),
)
