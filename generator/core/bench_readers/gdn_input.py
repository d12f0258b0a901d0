"""GDN input projections: ``ninfer_gdn_input_proj_bench``, CSV or text."""

from __future__ import annotations

from generator.core.bench_readers.program import input_program
from generator.core.route import RouteKey

FORMS = {
    fmt: (RouteKey(f"unified/{name}_gdn_input"), shape)
    for fmt, name, shape in (
        ("q4q5", "q4_q5", "4096+12288x5120"),
        ("q8", "q8", "12288x2048"),
        ("nvfp4", "nvfp4", "16384x5120"),
        ("fp8", "fp8", "16384x5120"),
    )
}

PROGRAM = input_program("ninfer_gdn_input_proj_bench", FORMS)
