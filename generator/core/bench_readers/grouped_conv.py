"""Q8 grouped convolution: ``ninfer_linear_dynamic_grouped_conv_add_bench``, CSV on stdout.

The width is that of one row of the batch. Where the column C holds the 5120 channels, the depth ``k`` is given with the
file; where it holds the depth itself, it need not be.
"""

from __future__ import annotations

from generator.core.bench_readers.program import LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey
from generator.errors import SourceError

_KEY = RouteKey("unified/q8_dynamic_grouped_conv")
_DEPTHS = ("4096", "17408")


def _point(row: Row) -> Point | LeftOut:
    route = row.get("route")
    if route in {"legacy", "unified"} and route != row.table:
        raise SourceError(
            f"{row.at('route')}: route {route!r} in an output imported as table {row.table.value!r}; "
            "import it as the table that ran"
        )
    c = row.text("c", ("5120", *_DEPTHS))
    k = c if c in _DEPTHS else row.text("k", _DEPTHS)
    return Point(_KEY, Case(f"5120x{k}", "q8", batch=row.whole("b")), row.whole("w"), "graph")


PROGRAM = Program(
    name="ninfer_linear_dynamic_grouped_conv_add_bench",
    point=_point,
    feeds={
        _KEY: tuple(
            Expected(case=Case(f"5120x{k}", "q8", batch=batch), execution="graph", first=2, last=16)
            for k in _DEPTHS
            for batch in range(1, 9)
        )
    },
    columns=(
        "c",
        "w",
        "b",
        "t",
        "route",
        "median_us",
        "min_us",
        "p95_us",
        "effective_tflops",
        "effective_gbs",
        "graph_nodes",
        "workspace_bytes",
    ),
    settings=("k",),
    arguments="{options} > {out}",
    variants=tuple(Variant(options=f"--k {k}", settings={"k": k}) for k in _DEPTHS),
)
