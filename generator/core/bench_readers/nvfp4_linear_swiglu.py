"""NVFP4 gate/up with SwiGLU: ``ninfer_nvfp4_linear_swiglu_bench``, CSV or text.

The A16 form exists to width 16; up to width 4 the A4 policy runs the A16 launches, so its cases begin at 5.
"""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, policy_variants
from generator.core.cases import BLACKWELL, Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/nvfp4_linear_swiglu")
_SHAPE = "34816x5120"
_POLICIES = ("a16", "a4")


def _point(row: Row) -> Point | LeftOut:
    return Point(_KEY, Case(_SHAPE, "nvfp4", row.text("policy", _POLICIES)), row.whole("t"), "eager")


PROGRAM = Program(
    name="ninfer_nvfp4_linear_swiglu_bench",
    point=_point,
    feeds={
        _KEY: (
            Expected(case=Case(_SHAPE, "nvfp4", "a16"), last=16),
            Expected(case=Case(_SHAPE, "nvfp4", "a4"), first=5, capability=BLACKWELL),
        )
    },
    columns=(
        "op",
        "weight_type",
        "policy",
        "n",
        "k",
        "t",
        "weight_bytes",
        "median_us",
        "min_us",
        "p95_us",
        "effective_gbs",
        "useful_tflops",
        "warmup",
        "repeat",
        "flush_bytes",
    ),
    settings=("policy",),
    arguments="{options} --t-sweep {widths} --csv-out {out}",
    variants=policy_variants(_POLICIES),
)
