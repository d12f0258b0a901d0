"""Q8 projection with residual: ``ninfer_q8_linear_add_bench``, CSV.

The output does not say the depth, so ``k`` is given with the file. Without ``--production-only`` the program times
private candidates too; only the rows of the path ``production`` are what the operation runs.
"""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/q8_linear_add")
_DEPTHS = ("4096", "6144")


def _point(row: Row) -> Point | LeftOut:
    if row.get("path") != "production":
        return LeftOut(f"private candidate, path {row.get('path')!r}")
    return Point(_KEY, Case(f"2048x{row.text('k', _DEPTHS)}", "q8"), row.whole("t"), "eager")


PROGRAM = Program(
    name="ninfer_q8_linear_add_bench",
    point=_point,
    feeds={_KEY: tuple(Expected(case=Case(f"2048x{k}", "q8")) for k in _DEPTHS)},
    columns=("path", "t", "median_us", "min_us", "p95_us", "warmup", "repeat"),
    settings=("k",),
    arguments="{options} --t-sweep {widths} --production-only --csv-out {out}",
    variants=tuple(Variant(options=f"--k {k}", settings={"k": k}) for k in _DEPTHS),
)
