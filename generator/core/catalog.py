"""Families to one sorted catalog, and its digest as the engine computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles.embedded import CatalogCandidate, CatalogKey, catalog_digest

from generator.core.route import CatalogDigest, Route, RouteFamily, RouteKey
from generator.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """All routes by key in byte order, and the family each belongs to."""

    routes: dict[RouteKey, Route]
    families: dict[RouteKey, RouteFamily]

    @property
    def calibrated(self) -> tuple[Route, ...]:
        """Return the routes that calibration measures, in the engine's measuring order."""
        return tuple(sorted((r for r in self.routes.values() if r.calibrated), key=lambda route: route.order))

    def route(self, key: str, where: str = "") -> Route:
        """Return the route of ``key``.

        Raises:
            CatalogError: the catalog has no such key; the message begins with ``where`` the key was found.
        """
        found = self.routes.get(RouteKey(key))
        if found is None:
            place = f"{where}: " if where else ""
            raise CatalogError(
                f"{place}route key {key!r}: not among the {len(self.routes)} keys of this catalog; "
                "list them with `python -m generator catalog`"
            )
        return found

    def digest(self) -> CatalogDigest:
        """Return the digest of the calibrated keys and their candidates (engine-profiles, Appendix A)."""
        return routes_digest(self.calibrated)

    def key_digest(self, key: str) -> CatalogDigest:
        """Return the digest of one key alone, by the same scheme."""
        return routes_digest([self.route(key)])


def build_catalog(families: Iterable[RouteFamily]) -> Catalog:
    """Return the catalog of ``families``.

    Raises:
        CatalogError: a key is declared twice, a key repeats a candidate, or two keys claim one place in the order.
    """
    found: dict[RouteKey, tuple[Route, RouteFamily]] = {}
    orders: dict[int, RouteKey] = {}
    for family in families:
        for route in family.routes:
            if route.key in found:
                raise CatalogError(
                    f"route key {route.key!r}: declared by {found[route.key][1].name!r} and by {family.name!r}; "
                    "remove one of the two declarations"
                )
            names = [item.schedule for item in route.candidates]
            if len(set(names)) != len(names):
                raise CatalogError(f"route key {route.key!r}: candidates {names!r} repeat a name; names are unique")
            if route.calibrated and route.order in orders:
                raise CatalogError(
                    f"route key {route.key!r}: order {route.order} is already that of {orders[route.order]!r}; "
                    "give each calibrated key its own place"
                )
            if route.calibrated:
                orders[route.order] = route.key
            found[route.key] = (route, family)
    keys = sorted(found, key=lambda key: key.encode())
    return Catalog(routes={key: found[key][0] for key in keys}, families={key: found[key][1] for key in keys})


def routes_digest(routes: Iterable[Route]) -> CatalogDigest:
    """Return the 16-digit digest of keys and candidates; the wheel holds the one definition of the scheme."""
    return CatalogDigest(catalog_digest(catalog_key(route) for route in routes))


def catalog_key(route: Route) -> CatalogKey:
    """Return ``route`` as the wheel's catalog names it."""
    return CatalogKey(
        key=route.key,
        candidates=tuple(
            CatalogCandidate(schedule=item.schedule, min_width=item.min_width, max_width=item.max_width)
            for item in route.candidates
        ),
        calibrated=route.calibrated,
        acts_under=route.acts_under,
    )
