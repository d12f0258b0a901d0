"""Attention input projections: ``ninfer_attn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import input_program
from generator.core.route import RouteKey

_FORMS = {
    fmt: (RouteKey(f"unified/{name}_attn_input"), shape)
    for fmt, name, shape in (
        ("q4q5", "q4_q5", "7168+7168x5120"),
        ("q8-qgkv", "q8", "9216x2048"),
        ("q8-qkv", "q8", "6144x2048"),
        ("q8-dflash2-qkv", "q8", "6144x5120"),
        ("bf16", "bf16", "14336x5120"),
        ("nvfp4", "nvfp4", "14336x5120"),
        ("fp8", "fp8", "14336x5120"),
    )
}

PROGRAM = input_program("ninfer_attn_input_proj_bench", _FORMS, ("workspace_capacity_bytes", "workspace_peak_bytes"))
