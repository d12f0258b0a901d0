"""Q4 gate/up with SwiGLU: ``ninfer_q4_linear_swiglu_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import EXECUTIONS, LeftOut, Point, Program, Row
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/q4_linear_swiglu")
_CASE = Case("34816x5120", "q4")


def _point(row: Row) -> Point | LeftOut:
    return Point(_KEY, _CASE, row.whole("t"), row.text("execution", EXECUTIONS))


PROGRAM = Program(
    name="ninfer_q4_linear_swiglu_bench",
    point=_point,
    feeds={_KEY: (Expected(case=_CASE, first=2, last=32),)},
    columns=(
        "t",
        "execution",
        "graph_nodes",
        "median_us",
        "min_us",
        "p95_us",
        "weight_bytes",
        "logical_bytes",
        "projection_flops",
        "effective_gbs",
        "dram_spec_pct",
        "useful_tflops",
        "workspace_sweep_bytes",
        "workspace_exact_bytes",
    ),
    settings=("execution",),
    defaults={"execution": "eager"},
    has_execution=True,
    arguments="{options} --t-sweep {widths} --csv-out {out}",
)
