"""Q4 additions by private launchers: ``dense_linear_add_schedule_bench``, refused with that reason."""

from __future__ import annotations

from generator.core.bench_readers.program import Program, no_point

PROGRAM = Program(
    name="dense_linear_add_schedule_bench",
    point=no_point,
    refusal=(
        "it times private launchers and not the two tables; time the operation with each table and bring the times "
        "as a times_table"
    ),
)
