"""Five-layer context K/V build: ``ninfer_context_kv_materialize_bench``, CSV on stdout.

The key is asked with the number of columns, width times batch. Judged are the runs in which every row is full; rows of
zero counts have no time at all.
"""

from __future__ import annotations

from generator.core.bench_readers.program import EXECUTIONS, LeftOut, Point, Program, Row
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/context_kv_materialize")
_SHAPE = "5x6144x5120"
_WIDEST_ROW = 16


def _point(row: Row) -> Point | LeftOut:
    counts = row.text("counts", ("full", "one", "ragged", "zero"))
    if counts == "zero":
        return LeftOut("zero counts, nothing to time")
    return Point(
        _KEY,
        Case(_SHAPE, "q8", form=counts, batch=row.whole("batch")),
        row.whole("columns"),
        row.text("execution", EXECUTIONS),
    )


PROGRAM = Program(
    name="ninfer_context_kv_materialize_bench",
    point=_point,
    feeds={
        _KEY: tuple(
            Expected(
                case=Case(_SHAPE, "q8", form="full", batch=batch),
                execution="graph",
                first=batch,
                last=_WIDEST_ROW * batch,
                step=batch,
            )
            for batch in range(1, 9)
        )
    },
    columns=(
        "width",
        "batch",
        "columns",
        "counts",
        "min_count",
        "max_count",
        "median_us",
        "min_us",
        "p95_us",
        "nodes",
        "workspace_bytes",
        "workspace_peak_bytes",
    ),
    settings=("execution",),
    defaults={"execution": "graph"},
    has_execution=True,
    arguments="{options} --counts full > {out}",
)
