"""Q8 K/V pair: ``ninfer_linear_pair_bench``, text."""

from __future__ import annotations

from generator.core.bench_readers.program import EXECUTIONS, LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/q8_linear_pair")
_DEPTHS = ("2048", "5120")


def _point(row: Row) -> Point | LeftOut:
    case = Case(f"1024+1024x{row.text('k', _DEPTHS)}", "q8")
    return Point(_KEY, case, row.whole("t"), row.text("execution", EXECUTIONS))


PROGRAM = Program(
    name="ninfer_linear_pair_bench",
    point=_point,
    feeds={_KEY: tuple(Expected(case=Case(f"1024+1024x{k}", "q8"), execution="graph") for k in _DEPTHS)},
    settings=("k", "execution"),
    defaults={"execution": "graph"},
    has_execution=True,
    arguments="{options} --tokens {widths} > {out}",
    variants=tuple(Variant(options=f"--k {k}", settings={"k": k}) for k in _DEPTHS),
)
