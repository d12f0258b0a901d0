"""Convolution forms of the GDN input projections: ``ninfer_gdn_input_proj_conv_snapshot_bench``, CSV.

They are asked for under the key of the plain projection, with the width of one row of the batch, and exist to width 16;
the record form begins at 2 columns. A run whose rows are only partly valid is kept as a form of its own.
"""

from __future__ import annotations

from generator.core.bench_readers.gdn_input import FORMS
from generator.core.bench_readers.program import CACHES, EXECUTIONS, LeftOut, Point, Program, Row, Variant
from generator.core.cases import Expected
from generator.core.rounds import Case

_FORMS = {"snapshot": 1, "record": 2}
_LAST = 16
_BATCHES = range(1, 9)
_POLICY = {"nvfp4": "a16", "fp8": "a16"}


def _point(row: Row) -> Point | LeftOut:
    fmt = row.text("profile", tuple(FORMS))
    key, shape = FORMS[fmt]
    form = row.text("form", tuple(_FORMS))
    width = row.whole("tokens")
    valid = row.get("valid_columns")
    if valid not in {"", str(width)}:
        form = f"{form} with {row.whole('valid_columns')} valid"
    return Point(
        key,
        Case(shape, fmt, _POLICY.get(fmt, ""), form, row.whole("batch")),
        width,
        row.text("execution", EXECUTIONS),
        row.text("cache", CACHES),
    )


PROGRAM = Program(
    name="ninfer_gdn_input_proj_conv_snapshot_bench",
    point=_point,
    feeds={
        key: tuple(
            Expected(
                case=Case(shape, fmt, _POLICY.get(fmt, ""), form, batch), execution="graph", first=first, last=_LAST
            )
            for form, first in _FORMS.items()
            for batch in _BATCHES
        )
        for fmt, (key, shape) in FORMS.items()
    },
    columns=(
        "profile",
        "form",
        "tokens",
        "batch",
        "execution",
        "timed_scope",
        "cache",
        "median_us",
        "min_us",
        "p95_us",
        "workspace_bytes",
        "workspace_peak_bytes",
        "graph_nodes",
        "valid_columns",
        "warmup",
        "repeat",
        "flush_bytes",
        "build_type",
        "gpu",
        "cuda_runtime",
    ),
    has_execution=True,
    arguments="{options} --form both --tokens {widths} --csv-out {out}",
    variants=tuple(
        Variant(options=f"--format {fmt} --batch {batch}", format=fmt) for fmt in FORMS for batch in _BATCHES
    ),
)
