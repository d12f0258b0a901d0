"""Q5 output and down projections with residual: ``ninfer_q5_linear_add_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import EXECUTIONS, LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_DEPTHS = ("6144", "17408")


def _point(row: Row) -> Point | LeftOut:
    k = row.text("k", _DEPTHS)
    return Point(
        RouteKey(f"unified/q5_linear_add/5120x{k}"),
        Case(f"5120x{k}", "q5"),
        row.whole("t"),
        row.text("execution", EXECUTIONS),
    )


PROGRAM = Program(
    name="ninfer_q5_linear_add_bench",
    point=_point,
    feeds={RouteKey(f"unified/q5_linear_add/5120x{k}"): (Expected(case=Case(f"5120x{k}", "q5")),) for k in _DEPTHS},
    columns=(
        "op",
        "rows",
        "k",
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
        "workspace_used_bytes",
    ),
    settings=("k", "execution"),
    defaults={"execution": "eager"},
    has_execution=True,
    arguments="{options} --t-sweep {widths} --csv-out {out}",
    variants=tuple(Variant(options=f"--k {k}", settings={"k": k}) for k in _DEPTHS),
)
