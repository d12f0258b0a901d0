"""Width grids that several families measure (engine-kernels 1.3)."""

from __future__ import annotations

from generator.core.route import Candidate, CompiledTable, Schedule

DECODE = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
GROUPWISE = (*DECODE, 40, 48, 56, 64)
HEAD = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
T2_ROUTE = (16, 24, 32, 48, 64, 96, 128, 160, 192)
GDN = (16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192)
WINDOWS = (8192, 65536, 262144)
SWITCH = (1,)
UNIFIED_GRID = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256, 384, 512, 768, 1024)

OFF = CompiledTable(default=((None, "int:off"),))
"""Compiled route of a switch: off at every width."""

UNIFIED = (Candidate(schedule=Schedule("unified")),)


def upto(grid: tuple[int, ...], widest: int) -> tuple[int, ...]:
    """Return the widths of ``grid`` up to ``widest``."""
    return tuple(width for width in grid if width <= widest)


def any_width(*names: str) -> tuple[Candidate, ...]:
    """Return candidates that are legal at every width, in the given order."""
    return tuple(Candidate(schedule=Schedule(name)) for name in names)


def limited(**widest: int) -> tuple[Candidate, ...]:
    """Return candidates legal up to the given width each, in the given order."""
    return tuple(Candidate(schedule=Schedule(name), max_width=width) for name, width in widest.items())
