"""Q8 gate/up with SwiGLU: ``ninfer_q8_linear_swiglu_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import EXECUTIONS, LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/q8_linear_swiglu")
_SHAPES = {"companion": "12288x2048", "dflash2": "34816x5120"}


def _point(row: Row) -> Point | LeftOut:
    problem = row.text("problem", tuple(_SHAPES))
    return Point(_KEY, Case(_SHAPES[problem], "q8", form=problem), row.whole("t"), row.text("execution", EXECUTIONS))


PROGRAM = Program(
    name="ninfer_q8_linear_swiglu_bench",
    point=_point,
    feeds={_KEY: tuple(Expected(case=Case(shape, "q8", form=problem)) for problem, shape in _SHAPES.items())},
    columns=(
        "problem",
        "entry",
        "t",
        "execution",
        "workspace_bytes",
        "graph_nodes",
        "median_us",
        "min_us",
        "p95_us",
        "warmup",
        "repeat",
        "flush_bytes",
    ),
    settings=("problem", "execution"),
    defaults={"execution": "eager"},
    has_execution=True,
    arguments="{options} --t-sweep {widths} --csv-out {out}",
    variants=tuple(Variant(options=f"--problem {name}") for name in _SHAPES),
)
