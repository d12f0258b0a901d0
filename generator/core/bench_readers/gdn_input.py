"""GDN input projections: ``ninfer_gdn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import Program, format_variants, input_feeds, input_point
from generator.core.route import RouteKey

FORMS = {
    fmt: (RouteKey(f"unified/{name}_gdn_input"), shape)
    for fmt, name, shape in (
        ("q4q5", "q4_q5", "4096+12288x5120"),
        ("q8", "q8", "12288x2048"),
        ("nvfp4", "nvfp4", "16384x5120"),
        ("fp8", "fp8", "16384x5120"),
    )
}
_POLICIES = {"nvfp4": ("a16", "a4"), "fp8": ("a16", "a8")}

PROGRAM = Program(
    name="ninfer_gdn_input_proj_bench",
    point=input_point(FORMS, _POLICIES),
    feeds=input_feeds(FORMS, _POLICIES),
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
    ),
    settings=("format", "policy", "execution", "cache"),
    defaults={"execution": "eager", "cache": "cold"},
    has_execution=True,
    arguments="{options} --tokens {widths} --csv-out {out}",
    variants=format_variants(FORMS, _POLICIES),
)
