"""A table of times in our own columns, for keys whose benchmark program is not described publicly.

One column a field of a round record: ``key``, ``shape``, ``format``, ``policy``, ``form``, ``batch``, ``execution``,
``cache``, ``width``, ``median_us``, ``min_us``, ``p95_us``. It may hold any ``unified/*`` key. It is what feeds the
NVFP4 and Q4 additions.
"""

from __future__ import annotations

from generator.core.bench_readers.program import CACHES, EXECUTIONS, LeftOut, Point, Program, Row, policy_case
from generator.core.cases import Expected
from generator.core.rounds import Case
from generator.core.route import RouteKey
from generator.errors import SourceError


def _point(row: Row) -> Point | LeftOut:
    key = row.get("key")
    if not key.startswith("unified/"):
        raise SourceError(f"{row.at('key')}: key {key!r}; expected a key that begins with 'unified/'")
    case = Case(row.get("shape"), row.get("format"), row.get("policy"), row.get("form"), row.whole("batch"))
    return Point(RouteKey(key), case, row.whole("width"), row.text("execution", EXECUTIONS), row.text("cache", CACHES))


PROGRAM = Program(
    name="times_table",
    point=_point,
    feeds={
        RouteKey("unified/nvfp4_linear_add"): tuple(
            policy_case(f"5120x{k}", "nvfp4", policy) for k in (6144, 17408) for policy in ("a16", "a4")
        ),
        RouteKey("unified/q4_linear_add"): (Expected(case=Case("5120x6144", "q4")),),
    },
    columns=(
        "key",
        "shape",
        "format",
        "policy",
        "form",
        "batch",
        "execution",
        "cache",
        "width",
        "median_us",
        "min_us",
        "p95_us",
    ),
    defaults={"batch": "1", "cache": "cold"},
    has_execution=True,
)
