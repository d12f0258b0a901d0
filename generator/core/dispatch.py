"""The dispatcher: which schedule an operation runs, asked in the engine's order.

Override, force, profile, compiled (engine-profiles 2.1 and 2.4). A name that is no candidate of the key, or not legal
at the width, counts as empty: the compiled route.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ninfer_device_profiles.bands import schedule_at

from generator.core.route import COMPILED, Ask, RouteKey, Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ninfer_device_profiles.bands import Bands

    from generator.core.catalog import Catalog


class Override(Protocol):
    """Answers for the environment's override variables."""

    def __call__(self, key: RouteKey, width: int, /) -> Schedule | None:
        """Return the schedule that a variable dictates (empty: compiled), or None where none governs ``key``."""


def no_override(_key: RouteKey, _width: int) -> Schedule | None:
    """Answer as an environment without override variables."""
    return None


def dispatcher(
    catalog: Catalog,
    bands: Mapping[RouteKey, Bands],
    *,
    force: tuple[RouteKey, Schedule] | None = None,
    override: Override = no_override,
) -> Ask:
    """Return the dispatcher over an installed profile.

    Args:
        catalog: knows each key's candidates and their legal widths.
        bands: the installed profile; copied, so that installing more later does not change this dispatcher.
        force: the pair that calibration forces, for exactly this key.
        override: the environment's variables; they win over everything.
    """
    installed = dict(bands)

    def ask(key: RouteKey, width: int) -> Schedule:
        route = catalog.route(key)
        dictated = override(key, width)
        if dictated is not None:
            return route.effective(dictated, width)
        if force is not None and force[0] == key:
            return route.effective(force[1], width)
        if key in installed:
            return route.effective(schedule_at(installed[key], width), width)
        return COMPILED

    return ask
