"""Operations over Q4 and Q5 row-split weights: operands, output planes, byte floors and references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from generator.core.route import Buf, Expected, Operand, Plane, Poison, Uniform, Words
from kernels.reference.formats import decode, dequantise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from generator.core.route import Arg, Ask, DeviceFacts, Fill, HostOperands, Launch
    from kernels.reference.formats import RowSplitFormat

EDGES = (0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128)
"""Rows checked at both ends of a piece: first and last rows of every tile height."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """One Q4, Q5 or Q6 parent of shape (rows, k), its planes separate operands named after it."""

    name: str
    form: RowSplitFormat
    rows: int
    k: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Codes, high bytes where the format has them, scales of both signs."""
        groups = self.rows * self.k // 64
        seeds = (0x5EED + self.rows, 0xBEEF + self.k)
        planes = [Operand(name=f"{self.name}.codes", dtype="u8", shape=(groups, 32), fill=Words(seed=seeds[0]))]
        if high := self.form.high_bytes:
            planes.append(
                Operand(name=f"{self.name}.high", dtype="u8", shape=(groups, high), fill=Words(seed=seeds[1]))
            )
        scales = Uniform(seed=0x5CA1 + self.rows, low=-0.02, high=0.02)
        planes.append(Operand(name=f"{self.name}.scales", dtype="f16", shape=(groups,), fill=scales))
        return tuple(planes)

    @property
    def args(self) -> tuple[Arg, ...]:
        """The planes as kernel arguments, in the order of ``operands``."""
        return tuple(Buf(operand.name) for operand in self.operands)

    @property
    def bytes(self) -> int:
        """Bytes of all planes (engine-kernels section 2)."""
        return self.rows * self.k // 64 * (self.form.code_bytes + self.form.high_bytes + 2)

    def decode(self, host: HostOperands, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return scale times code of the given rows, shape (len(rows), k)."""
        groups = self.k // 64

        def plane(name: str, per_group: int) -> NDArray[Any]:
            count = groups * per_group
            return np.stack([host(f"{self.name}.{name}", row * count, count) for row in rows.tolist()])

        high = plane("high", self.form.high_bytes) if self.form.high_bytes else None
        codes = decode(self.form, plane("codes", self.form.code_bytes), high).reshape(len(rows), self.k)
        return dequantise(self.form, codes, plane("scales", 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Rows ``first`` to ``first + rows`` of ``weights`` become rows ``at`` to ``at + rows`` of an output plane."""

    weights: Weights
    first: int
    rows: int
    at: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One output plane of shape (columns, rows), made of one or more pieces."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """Rows of the plane."""
        return sum(piece.rows for piece in self.pieces)


def sampled_rows(rows: int) -> NDArray[np.int64]:
    """Return rows of a piece that are compared: both ends of every tile height, and some between."""
    ends = [row for row in EDGES if row < rows]
    between = np.linspace(0, rows - 1, 17).astype(np.int64).tolist()
    return np.array(sorted({*ends, *(rows - 1 - row for row in ends), *between}), np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupwiseOperation:
    """Projections of x (columns, k) BF16; ``planner`` names the launches of a width.

    ``residual`` adds into the only output plane in place. ``gated`` (SwiGLU) has weights of twice the plane's rows:
    gate rows, then up rows.
    """

    k: int
    columns: int
    results: tuple[Output, ...]
    planner: Callable[[int, Ask, DeviceFacts], tuple[Launch, ...]]
    residual: bool = False
    gated: bool = False

    @property
    def weights(self) -> tuple[Weights, ...]:
        """The parents, each once, in order of first use."""
        return tuple(dict.fromkeys(piece.weights for result in self.results for piece in result.pieces))

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Planes of the weights, x, output planes."""
        x = Operand(name="x", dtype="bf16", shape=(self.columns, self.k), fill=Uniform(seed=0xAC7, low=-0.5, high=0.5))
        fill: Fill = Uniform(seed=0x2E5, low=-1.0, high=1.0) if self.residual else Poison()
        planes = [
            Operand(name=result.name, dtype="bf16", shape=(self.columns, result.rows), fill=fill)
            for result in self.results
        ]
        return (*(plane for weights in self.weights for plane in weights.operands), x, *planes)

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the output planes at ``width``."""
        return tuple(Plane(result.name, width * result.rows) for result in self.results)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return the residual, which the operation changes in place."""
        return self.outputs(width) if self.residual else ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return the launches of one run."""
        return self.planner(width, ask, device)

    def floor_bytes(self, width: int) -> int:
        """Return weights, x and outputs in bytes; a residual is read and written."""
        outputs = sum(plane.elements for plane in self.outputs(width)) * (4 if self.residual else 2)
        return sum(weights.bytes for weights in self.weights) + width * self.k * 2 + outputs

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return the planes' values at `sampled_rows` of every piece, all columns, in float64."""
        x = host("x", 0, width * self.k).astype(np.float64).reshape(width, self.k)
        return {result.name: self._expect(result, x, host) for result in self.results}

    def _expect(self, result: Output, x: NDArray[np.float64], host: HostOperands) -> Expected:
        columns = np.arange(len(x), dtype=np.int64)[:, None] * result.rows
        indices, values = zip(*self._pieces(result, x, host), strict=True)
        flat = np.concatenate([(columns + rows).reshape(-1) for rows in indices])
        sums = np.concatenate([part.reshape(-1) for part in values])
        if self.residual:
            sums = sums + host(result.name, 0, len(x) * result.rows).astype(np.float64)[flat]
        return Expected(flat, sums)

    def _pieces(
        self, result: Output, x: NDArray[np.float64], host: HostOperands
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        for piece in result.pieces:
            rows = sampled_rows(piece.rows)
            sums = x @ piece.weights.decode(host, piece.first + rows).T
            if self.gated:
                up = x @ piece.weights.decode(host, piece.first + piece.rows + rows).T
                sums = sums / (1 + np.exp(-sums)) * up
            yield piece.at + rows, sums
