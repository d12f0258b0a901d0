"""Plain Linear: ``ninfer_linear_bench``. Its shapes are in no profile, so its output is refused with that reason."""

from __future__ import annotations

from generator.core.bench_readers.program import Program, no_point

PROGRAM = Program(
    name="ninfer_linear_bench",
    point=no_point,
    refusal="plain Linear shapes are in no profile; the engine compiles their tables in",
)
