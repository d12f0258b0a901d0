"""FP8 output and down projections with residual: ``ninfer_fp8_linear_add_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, Variant, policy_case
from generator.core.rounds import Case
from generator.core.route import RouteKey

_KEY = RouteKey("unified/fp8_linear_add")
_DEPTHS = ("6144", "17408")
_POLICIES = ("a16", "a8")


def _point(row: Row) -> Point | LeftOut:
    case = Case(f"5120x{row.text('k', _DEPTHS)}", "fp8", row.text("policy", _POLICIES))
    return Point(_KEY, case, row.whole("t"), "eager")


PROGRAM = Program(
    name="ninfer_fp8_linear_add_bench",
    point=_point,
    feeds={_KEY: tuple(policy_case(f"5120x{k}", "fp8", policy) for k in _DEPTHS for policy in _POLICIES)},
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
        "tensor_peak_percent",
        "warmup",
        "repeat",
        "flush_bytes",
    ),
    settings=("k", "policy"),
    arguments="{options} --t-sweep {widths} --csv-out {out}",
    variants=tuple(
        Variant(options=f"--k {k} --policy {policy}", settings={"k": k, "policy": policy}, policy=policy)
        for k in _DEPTHS
        for policy in _POLICIES
    ),
)
