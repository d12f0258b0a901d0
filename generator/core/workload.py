"""What a run measures: the routes it selects, in the engine's order, and how many timings that makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.limits import Limits
from generator.core.route import Group, RouteKey
from generator.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from generator.core.catalog import Catalog
    from generator.core.route import Route

_TIMING_S = 3.4e-4
"""A timing, its flush and share of checks, captures and further samples: 30,056 of projections in 10.1 s on an H200."""

TIMED_ON = "H200"
"""The reference card that `_TIMING_S` was measured on."""

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

    def seconds(self, limits: Limits, seen: Mapping[RouteKey, float]) -> float:
        """Estimate how long the run takes, kernels compiled.

        Args:
            limits: samples and warm-ups; all keys scale with the number of samples.
            seen: seconds that keys took in an earlier run on some card; a key that is not there counts by its timings.
        """
        scale = limits.samples / Limits().samples
        total = 0.0
        for route in self.routes:
            subjects = sum(2 + _legal(route, width) for width in route.widths)
            total += seen.get(route.key, subjects * (Limits().samples + limits.warmups) * _TIMING_S)
        return total * scale


def key_words(routes: Sequence[Route]) -> str:
    """Return how many keys and points ``routes`` are, as a run's first line names them."""
    keys, points = len(routes), sum(len(route.widths) for route in routes)
    return f"{keys} route key{'' if keys == 1 else 's'} ({points} point{'' if points == 1 else 's'})"


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
