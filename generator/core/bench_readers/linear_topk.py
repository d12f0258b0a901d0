"""Heads with top-16: ``ninfer_linear_topk_bench``, CSV on stdout."""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_PROFILES = {
    "q8-full": (RouteKey("unified/q8_linear_topk"), Case("248320x5120", "q8")),
    "fp8-full": (RouteKey("unified/fp8_linear_topk"), Case("248320x5120", "fp8")),
    "q4-optimized": (RouteKey("unified/q4_linear_topk"), Case("131072x5120", "q4")),
}


def _point(row: Row) -> Point | LeftOut:
    key, case = _PROFILES[row.text("profile", tuple(_PROFILES))]
    return Point(key, case, row.whole("u"), "graph")


PROGRAM = Program(
    name="ninfer_linear_topk_bench",
    point=_point,
    feeds={key: (Expected(case=case, execution="graph"),) for key, case in _PROFILES.values()},
    columns=(
        "profile",
        "u",
        "median_us",
        "min_us",
        "p95_us",
        "logical_weight_gbs",
        "useful_tflops",
        "workspace_bytes",
        "graph_nodes",
    ),
    arguments="{options} --columns {widths} > {out}",
    variants=tuple(Variant(options=f"--profile {name}", format=case.format) for name, (_, case) in _PROFILES.items()),
)
