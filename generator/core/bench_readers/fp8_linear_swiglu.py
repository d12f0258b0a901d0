"""FP8 gate/up with SwiGLU: ``ninfer_fp8_linear_swiglu_bench``, text."""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, policy_variants
from generator.core.cases import BLACKWELL, Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/fp8_linear_swiglu")
_SHAPE = "34816x5120"
_POLICIES = ("a16", "a8")


def _point(row: Row) -> Point | LeftOut:
    return Point(_KEY, Case(_SHAPE, "fp8", row.text("policy", _POLICIES)), row.whole("t"), "eager")


PROGRAM = Program(
    name="ninfer_fp8_linear_swiglu_bench",
    point=_point,
    feeds={
        _KEY: (
            Expected(case=Case(_SHAPE, "fp8", "a16")),
            Expected(case=Case(_SHAPE, "fp8", "a8"), capability=BLACKWELL),
        )
    },
    settings=("policy",),
    arguments="{options} --t-sweep {widths} > {out}",
    variants=policy_variants(_POLICIES),
)
