"""GDN input projections: ``ninfer_gdn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import (
    CACHES,
    EXECUTIONS,
    LeftOut,
    Point,
    Program,
    Row,
    format_variants,
    policy_case,
)
from generator.core.rounds import Case
from generator.core.route import RouteKey

SHAPES = {"q4q5": "4096+12288x5120", "q8": "12288x2048", "nvfp4": "16384x5120", "fp8": "16384x5120"}
KEYS = {
    fmt: RouteKey(f"unified/{'q4_q5' if fmt == 'q4q5' else fmt}_gdn_input") for fmt in ("q4q5", "q8", "nvfp4", "fp8")
}
_POLICIES = {"nvfp4": ("a16", "a4"), "fp8": ("a16", "a8")}


def _point(row: Row) -> Point | LeftOut:
    fmt = row.text("format", tuple(SHAPES))
    policy = row.text("policy", _POLICIES[fmt]) if fmt in _POLICIES else ""
    return Point(
        KEYS[fmt],
        Case(SHAPES[fmt], fmt, policy),
        row.whole("t"),
        row.text("execution", EXECUTIONS),
        row.text("cache", CACHES),
    )


PROGRAM = Program(
    name="ninfer_gdn_input_proj_bench",
    point=_point,
    feeds={
        KEYS[fmt]: tuple(policy_case(shape, fmt, policy) for policy in _POLICIES.get(fmt, ("",)))
        for fmt, shape in SHAPES.items()
    },
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
    variants=format_variants(SHAPES, _POLICIES),
)
