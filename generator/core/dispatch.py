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
    from ninfer_device_profiles.overrides import Overrides

    from generator.core.catalog import Catalog


class Override(Protocol):
    """Answers for the environment's override variables."""

    def __call__(self, key: RouteKey, width: int, /) -> Schedule | None:
        """Return the schedule that a variable dictates (empty: compiled), or None where none governs ``key``."""


_SWITCHES = {
    "attn_pack_gqa": "prompt_pack_gqa",
    "attn_prompt_fast": "prompt_fast",
    "attn_parallel_tiles": "attn_parallel_tiles",
    "gdn_two_stage": "gdn_two_stage",
}
"""Route key, or its part before the slash, to the override that governs it."""


def environment_override(overrides: Overrides) -> Override:
    """Return the override that the environment's variables make.

    ``attn_pv_f16`` is governed by two variables, one for each kernel that asks for it; they dictate where both say the
    same. ``NINFER_T2_I8_SMALL`` only moves the compiled band and so dictates nothing.
    """

    def override(key: RouteKey, _width: int) -> Schedule | None:
        if key.startswith("unified/"):
            table = overrides.linear_routes
            return None if table is None else Schedule("unified" if table == "unified" else COMPILED)
        if key == "attn_pv_f16":
            small, prompt = overrides.smallt_pv_f16, overrides.prompt_pv_f16
            on = small if small == prompt else None
        else:
            name = _SWITCHES.get(key.partition("/")[0])
            on = None if name is None else getattr(overrides, name)
        return None if on is None else Schedule("on" if on else COMPILED)

    return override


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
