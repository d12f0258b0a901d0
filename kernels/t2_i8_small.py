"""Ternary projections of at most 32 columns a launch: row and column tile of the S8 small-T kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.route import (
    Ask,
    Candidate,
    DeviceFacts,
    Expected,
    Group,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Route,
    RouteFamily,
    RouteKey,
    Schedule,
)
from kernels.ternary import (
    HEAD,
    SMALL_COMPILED,
    SMALL_KEYS,
    SMALL_TILES,
    floor_bytes,
    operands,
    outputs,
    reference,
    small_launches,
)
from kernels.widths import DECODE
from kernels.widths import HEAD as HEAD_WIDTHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.projection import Projection

CANDIDATES = tuple(Candidate(schedule=Schedule(name), max_width=tile.columns) for name, tile in SMALL_TILES.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallProjection:
    """Quantise the activations and project, through the small-T kernel."""

    key: RouteKey
    projection: Projection
    widest: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All buffers."""
        return operands(self.projection, self.widest, tile=False)

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Output planes in the order of the parents' rows."""
        return outputs(self.projection, width)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Residuals."""
        return self.outputs(width) if self.projection.add else ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return one quantisation and one projection a span."""
        return small_launches(self.key, self.projection, width, ask, device)

    def floor_bytes(self, width: int) -> int:
        """Packed weights, activations in, outputs out."""
        return floor_bytes(self.projection, width)

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Sampled rows in float64."""
        return reference(self.projection, width, host, tile=False)


def _route(order: int, key: RouteKey, projection: Projection) -> Route:
    widths = HEAD_WIDTHS if projection is HEAD else DECODE
    return Route(
        key=key,
        order=order,
        widths=widths,
        candidates=CANDIDATES,
        compiled=SMALL_COMPILED,
        operation=SmallProjection(key=key, projection=projection, widest=widths[-1]),
    )


FAMILY = RouteFamily(
    name="t2_i8_small",
    group=Group.TERNARY,
    source="t2_i8_small",
    routes=tuple(_route(order, key, projection) for order, (key, projection) in enumerate(SMALL_KEYS.items(), start=1)),
)
