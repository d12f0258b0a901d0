"""BF16 output projection with residual: ``ninfer_bf16_linear_add_bench``, CSV or text.

Rows of another route than ``production`` are private candidates.
"""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/bf16_linear_add")
_CASE = Case("5120x6144", "bf16")


def _point(row: Row) -> Point | LeftOut:
    if row.get("route") != "production":
        return LeftOut(f"private candidate, route {row.get('route')!r}")
    return Point(_KEY, _CASE, row.whole("t"), "eager")


PROGRAM = Program(
    name="ninfer_bf16_linear_add_bench",
    point=_point,
    feeds={_KEY: (Expected(case=_CASE),)},
    columns=(
        "route",
        "t",
        "median_us",
        "min_us",
        "p95_us",
        "logical_bytes",
        "useful_flops",
        "effective_gbs",
        "sustained_read_pct",
        "useful_tflops",
        "bf16_tc_pct",
        "memory_floor_us",
        "compute_floor_us",
        "roofline_pct",
        "warmup",
        "repeat",
        "flush_bytes",
    ),
    settings=("route",),
    defaults={"route": "production"},
    arguments="--t-sweep {widths} --csv-out {out}",
)
