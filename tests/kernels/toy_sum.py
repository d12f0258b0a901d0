"""Toy family of the bench's tests: row sums, with schedules that are slow, wrong, straying, faulting or hanging."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from generator.core.route import (
    F32,
    I32,
    Ask,
    Buf,
    Candidate,
    CompiledTable,
    DeviceFacts,
    Expected,
    Group,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Poison,
    Route,
    RouteFamily,
    RouteKey,
    Schedule,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent
COLS = 4096
ROWS = 2048


@dataclass(frozen=True, kw_only=True)
class ToySum:
    """Row sums of ``width * 64`` rows; see ``toy_sum.cu``."""

    key: RouteKey
    rows: int = ROWS

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Weights and the sums."""
        return (
            Operand(name="w", dtype="u32", shape=(self.rows, COLS), fill=Words(seed=7)),
            Operand(name="out", dtype="f32", shape=(self.rows,), fill=Poison()),
        )

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """One sum a row."""
        return (Plane("out", width * 64),)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Nothing is changed in place."""
        del width
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """One launch a schedule."""
        del device
        rows = width * 64
        name = ask(self.key, width) or "t256"
        whole = (Buf("w"), Buf("out"), I32(COLS))
        sums = {
            "t256": ("toy_sum<256, 1>", 256, 1.0),
            "t32": ("toy_sum<32, 1>", 32, 1.0),
            "t1024": ("toy_sum<1024, 1>", 1024, 1.0),
            "hopeless": ("toy_sum<256, 8>", 256, 1.0),
            "wrong": ("toy_sum<128, 1>", 128, 1.1),
        }
        if name in sums:
            kernel, threads, scale = sums[name]
            return (
                Launch(
                    source="toy_sum",
                    kernel=kernel,
                    grid=(rows, 1, 1),
                    block=(threads, 1, 1),
                    args=(*whole, F32(scale)),
                ),
            )
        args: dict[str, tuple[Buf | I32, ...]] = {
            "toy_stray": (Buf("out"), I32(rows)),
            "toy_fault": (Buf("out"),),
            "toy_hang": (Buf("out"), I32(60)),
        }
        kernel = f"toy_{name}"
        return (Launch(source="toy_sum", kernel=kernel, grid=(1, 1, 1), block=(256, 1, 1), args=args[kernel]),)

    def floor_bytes(self, width: int) -> int:
        """All weights of the rows once."""
        return width * 64 * (COLS + 1) * 4

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """The first three rows and the last."""
        rows = np.array([0, 1, 2, width * 64 - 1], dtype=np.int64)
        values = [float((host("w", int(row) * COLS, COLS) & np.uint32(15)).astype(np.float64).sum()) for row in rows]
        return {"out": Expected(rows, np.array(values, dtype=np.float64))}


def toy_route(key: str, order: int, *names: str, widths: tuple[int, ...] = (4, 16, 32)) -> Route:
    """Return a route of row sums with the named candidates."""
    return Route(
        key=RouteKey(key),
        order=order,
        widths=widths,
        candidates=tuple(Candidate(schedule=Schedule(name)) for name in names),
        compiled=CompiledTable(default=((None, "t256"),)),
        operation=ToySum(key=RouteKey(key)),
    )


def families() -> tuple[RouteFamily, ...]:
    """Return the well-behaved toy route."""
    routes = (toy_route("toy/sum", 1, "t32", "t256", "t1024", "hopeless", "wrong"),)
    return (RouteFamily(name="toy_sum", group=Group.TERNARY, routes=routes, source="toy_sum"),)


def wild_families() -> tuple[RouteFamily, ...]:
    """Return a route whose candidates write astray, fault and hang, one width only."""
    routes = (toy_route("toy/wild", 1, "t32", "stray", "fault", "hang", "t1024", widths=(4,)),)
    return (RouteFamily(name="toy_sum", group=Group.TERNARY, routes=routes, source="toy_sum"),)
