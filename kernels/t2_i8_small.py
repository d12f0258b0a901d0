"""Ternary projections of at most 32 columns a launch: row and column tile of the S8 small-T kernel."""

from __future__ import annotations

from generator.core.route import CompiledTable, Group, Route, RouteFamily, RouteKey
from kernels.widths import DECODE, HEAD, limited

SHAPES = ("4096+12288x5120", "7168+7168x5120", "5120x6144", "34816x5120", "5120x17408", "248320x5120")

CANDIDATES = limited(
    r16c8=8,
    r16c16=16,
    r32c32=32,
    r16c8w1=8,
    r16c8s3=8,
    r32c8=8,
    r32c8k4=8,
    r16c16w1=16,
    r32c16=16,
    r16c32=32,
    r32c16k8=16,
)

COMPILED = CompiledTable(default=((8, "r16c8"), (16, "r16c16"), (32, "r32c32")))

FAMILY = RouteFamily(
    name="t2_i8_small",
    group=Group.TERNARY,
    routes=tuple(
        Route(
            key=RouteKey(f"t2_i8_small/{shape}"),
            order=order,
            widths=HEAD if shape == "248320x5120" else DECODE,
            candidates=CANDIDATES,
            compiled=COMPILED,
        )
        for order, shape in enumerate(SHAPES, start=1)
    ),
)
