"""Attention input projections: ``ninfer_attn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import Program, format_variants, input_feeds, input_point
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
_POLICIES = {"nvfp4": ("a16", "a4"), "fp8": ("a16", "a8")}

PROGRAM = Program(
    name="ninfer_attn_input_proj_bench",
    point=input_point(_FORMS, _POLICIES),
    feeds=input_feeds(_FORMS, _POLICIES),
    columns=(
        "entry",
        "format",
        "policy",
        "cache",
        "t",
        "workspace_bytes",
        "logical_bytes",
        "useful_flops",
        "median_us",
        "min_us",
        "p95_us",
        "execution",
        "graph_nodes",
        "workspace_capacity_bytes",
        "workspace_peak_bytes",
    ),
    settings=("format", "policy", "execution", "cache"),
    defaults={"execution": "eager", "cache": "cold"},
    has_execution=True,
    arguments="{options} --tokens {widths} --csv-out {out}",
    variants=format_variants(_FORMS, _POLICIES),
)
