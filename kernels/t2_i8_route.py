"""Ternary projections: the small-T kernel or the prefill tile GEMM, per width."""

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
    Schedule,
)
from kernels.ternary import (
    DOWN_ADD,
    GATE_UP,
    GDN_PAIR,
    OUT_ADD,
    ROUTE_COMPILED,
    ROUTE_KEY,
    SMALL_COLUMNS,
    SMALL_KEYS,
    floor_bytes,
    operands,
    outputs,
    reference,
    small_launches,
    takes_tile,
    tile_launches,
)
from kernels.widths import T2_ROUTE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.projection import Projection

LAYER = (GDN_PAIR, OUT_ADD, GATE_UP, DOWN_ADD)
"""What one timed run projects, in this order."""

_KEYS = {projection.name: key for key, projection in SMALL_KEYS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerProjections:
    """The projections of one GDN layer in sequence, each with its own quantisation."""

    layer: tuple[Projection, ...]
    checked: Projection
    widest: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All buffers of both routes."""
        return tuple(item for projection in self.layer for item in operands(projection, self.widest, tile=True))

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """The compared plane first, then the others in order."""
        others = [projection for projection in self.layer if projection is not self.checked]
        return tuple(plane for projection in (self.checked, *others) for plane in outputs(projection, width))

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Residuals."""
        return tuple(plane for item in self.layer if item.add for plane in outputs(item, width))

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return the launches of each projection in order; small spans ask the keys of their shapes."""
        if takes_tile(width, ask, device):
            return tuple(launch for item in self.layer for launch in tile_launches(item, width))
        return tuple(
            launch for item in self.layer for launch in small_launches(_KEYS[item.name], item, width, ask, device)
        )

    def floor_bytes(self, width: int) -> int:
        """Sum over the projections."""
        return sum(floor_bytes(projection, width) for projection in self.layer)

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Sampled rows in float64, quantised as the compiled route does at ``width``."""
        tile = ROUTE_COMPILED.at(width) == "tile"
        return {
            name: value
            for projection in self.layer
            for name, value in reference(projection, width, host, tile=tile).items()
        }


FAMILY = RouteFamily(
    name="t2_i8_route",
    group=Group.TERNARY,
    source="t2_i8_route",
    routes=(
        Route(
            key=ROUTE_KEY,
            order=7,
            widths=T2_ROUTE,
            candidates=(
                Candidate(schedule=Schedule("small"), max_width=SMALL_COLUMNS),
                Candidate(schedule=Schedule("tile")),
            ),
            compiled=ROUTE_COMPILED,
            operation=LayerProjections(layer=LAYER, checked=GATE_UP, widest=T2_ROUTE[-1]),
        ),
    ),
)
