"""What a run measures: the routes it selects, in the engine's order, and how many timings that makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.route import Group
from generator.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from generator.core.catalog import Catalog
    from generator.core.limits import Limits
    from generator.core.route import Route

VOLTA = 70
"""The capability whose build steers its projections and attention by no key (engine-profiles 3)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Routes to measure, in measuring order; ``pending`` ones are selected too, but their kernels are not written."""

    routes: tuple[Route, ...]
    pending: tuple[Route, ...]

    @property
    def points(self) -> int:
        """Return the number of (key, width) points."""
        return sum(len(route.widths) for route in self.routes)

    def timings(self, limits: Limits) -> int:
        """Return the number of first-pass timings: every legal candidate, the compiled route and its twin."""
        subjects = sum(2 + _legal(route, width) for route in self.routes for width in route.widths)
        return subjects * (limits.samples + limits.warmups)

    def seconds(self, limits: Limits, read_bytes_per_us: float, flush_bytes: int, overhead_us: float) -> float:
        """Estimate the run's time on the device: per timing a flush, the operation's floor and an overhead."""
        total_us = 0.0
        for route in self.routes:
            assert route.operation is not None
            for width in route.widths:
                floor_us = route.operation.floor_bytes(width) / read_bytes_per_us
                each_us = flush_bytes / read_bytes_per_us + 2 * floor_us + overhead_us
                total_us += (2 + _legal(route, width)) * (limits.samples + limits.warmups) * each_us
        return total_us * 1e-6


def _legal(route: Route, width: int) -> int:
    return sum(candidate.legal(width) for candidate in route.candidates)


def select_routes(
    catalog: Catalog, *, only: str = "", skip: Collection[Group] = (), capability: int | None = None
) -> Workload:
    """Select the calibrated routes that a run measures.

    Args:
        catalog: all routes.
        only: prefix of the route keys to measure; empty for all.
        skip: families to leave out as a whole.
        capability: of the device; 70 leaves the ``gdn_two_stage`` keys alone.

    Raises:
        UsageError: nothing is left.
    """
    chosen = [
        route
        for route in catalog.calibrated
        if route.key.startswith(only)
        and catalog.families[route.key].group not in skip
        and (capability != VOLTA or catalog.families[route.key].group is Group.LINEAR_ATTENTION)
    ]
    if not chosen:
        families = f", without {', '.join(sorted(skip))}" if skip else ""
        raise UsageError(
            f"--only {only!r}{families}: selects none of the {len(catalog.calibrated)} calibrated route keys; "
            "list them with `python -m generator catalog`"
        )
    return Workload(
        routes=tuple(route for route in chosen if route.operation is not None),
        pending=tuple(route for route in chosen if route.operation is None),
    )
