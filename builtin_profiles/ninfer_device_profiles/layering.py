"""Lay one profile over another, as the engine lays the profile file over the built-in table."""

from __future__ import annotations

from ninfer_device_profiles.bands import layer_bands
from ninfer_device_profiles.document import Profile


def layer(upper: Profile, lower: Profile) -> Profile:
    """Return ``upper`` over ``lower``: class, SM count and provenance of the upper, keys of both.

    A key that both name is layered band-wise; a key of one alone is taken as it is.
    """
    routes = dict(lower.routes)
    for key, bands in upper.routes.items():
        routes[key] = layer_bands(bands, routes[key]) if key in routes else bands
    return Profile(
        hardware_class=upper.hardware_class,
        multiprocessors=upper.multiprocessors,
        origin=f"{upper.origin} over {lower.origin}",
        calibration=upper.calibration,
        routes=routes,
        extra=upper.extra,
    )
