"""Attention input projections: ``ninfer_attn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from generator.core.cases import Expected

_FORMATS = {
    "q4q5": ("q4_q5_attn_input", "7168+7168x5120"),
    "q8-qgkv": ("q8_attn_input", "9216x2048"),
    "q8-qkv": ("q8_attn_input", "6144x2048"),
    "q8-dflash2-qkv": ("q8_attn_input", "6144x5120"),
    "bf16": ("bf16_attn_input", "14336x5120"),
    "nvfp4": ("nvfp4_attn_input", "14336x5120"),
    "fp8": ("fp8_attn_input", "14336x5120"),
}
_POLICIES = {"nvfp4": ("a16", "a4"), "fp8": ("a16", "a8")}


def _point(row: Row) -> Point | LeftOut:
    fmt = row.text("format", tuple(_FORMATS))
    name, shape = _FORMATS[fmt]
    policy = row.text("policy", _POLICIES[fmt]) if fmt in _POLICIES else ""
    return Point(
        RouteKey(f"unified/{name}"),
        Case(shape, fmt, policy),
        row.whole("t"),
        row.text("execution", EXECUTIONS),
        row.text("cache", CACHES),
    )


def _cases(name: str) -> tuple[Expected, ...]:
    return tuple(
        policy_case(shape, fmt, policy)
        for fmt, (key, shape) in _FORMATS.items()
        if key == name
        for policy in _POLICIES.get(fmt, ("",))
    )


PROGRAM = Program(
    name="ninfer_attn_input_proj_bench",
    point=_point,
    feeds={RouteKey(f"unified/{name}"): _cases(name) for name, _ in _FORMATS.values()},
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
    variants=format_variants(_FORMATS, _POLICIES),
)
