"""Shapes of the fused projections: which rows of which weight matrix land in which output plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from generator.core.route import Buf, Expected, Plane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """``rows`` consecutive rows of a parent, stored to ``plane`` from row ``first`` on.

    ``stride`` is the plane's row count, so element (row r, token t) of the part is at ``t * stride + first + r``.
    """

    rows: int
    plane: str
    stride: int
    first: int = 0

    def at(self, token: int = 0) -> Buf:
        """Return where the part's row 0 of ``token`` is stored."""
        return Buf(self.plane, token * self.stride + self.first)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """One weight matrix (rows, k) and where its rows go, in row order."""

    name: str
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Projection:
    """Activations (T, k) times one or two parents; ``add`` accumulates into the planes, which are then residuals."""

    name: str
    k: int
    parents: tuple[Parent, ...]
    add: bool = False

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in row order of the parents."""
        return tuple(part for parent in self.parents for part in parent.parts)

    @property
    def planes(self) -> Mapping[str, int]:
        """Output planes and their elements a token, in order of first mention."""
        return {part.plane: part.stride for part in self.parts}

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the output planes at ``width``."""
        return tuple(Plane(name, width * stride) for name, stride in self.planes.items())

    def activation_bytes(self, width: int) -> int:
        """Return the bytes of BF16 activations and outputs that one run moves, residuals read and written."""
        return 2 * width * (self.k + (2 if self.add else 1) * sum(self.planes.values()))


def sampled_rows(part: Part, tile: int, seed: int) -> NDArray[np.int64]:
    """Return rows of ``part`` that a reference checks: of the first and last tile, and eight at random."""
    edges = [0, 1, tile - 1, tile, part.rows - tile, part.rows - 1]
    drawn = np.random.default_rng(seed).integers(0, part.rows, 8)
    return np.unique(np.concatenate([np.asarray(edges, np.int64), drawn]))


def expect(rows: Iterable[tuple[Part, NDArray[np.int64], NDArray[np.float64]]]) -> dict[str, Expected]:
    """Return the expectation of each plane from (part, rows of the part, values (T, rows))."""
    indices: dict[str, list[NDArray[np.int64]]] = {}
    values: dict[str, list[NDArray[np.float64]]] = {}
    for part, which, value in rows:
        tokens = np.arange(value.shape[0], dtype=np.int64)[:, None]
        indices.setdefault(part.plane, []).append((tokens * part.stride + part.first + which[None, :]).ravel())
        values.setdefault(part.plane, []).append(value.ravel())
    return {name: Expected(np.concatenate(indices[name]), np.concatenate(values[name])) for name in indices}
