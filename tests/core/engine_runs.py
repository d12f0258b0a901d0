"""What the engine's ``ninfer-calibrate --print --detail`` prints, made from an entry: the lines it must have logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import schedule_at

if TYPE_CHECKING:
    from ninfer_device_profiles.document import Profile

    from generator.core.catalog import Catalog


def log_of(profile: Profile, catalog: Catalog, *, detail: bool = True, path: str = "profiles.json") -> list[str]:
    """Return the log of a run that chose what ``profile`` holds: compiled takes 100 us, a choice 80, the others 99."""
    lines: list[str] = []
    routed: set[str] = set()
    measured = [route for route in catalog.calibrated if route.key in profile.routes]
    for route in measured:
        for width in route.widths:
            place = f"{route.key} w={width}"
            choice = schedule_at(profile.routes[route.key], width)
            for candidate in route.candidates:
                if detail and candidate.legal(width):
                    us = 80.0 if candidate.schedule == choice else 99.0
                    lines.append(f"{place} {candidate.schedule} {us} us (compiled 100.0 us)")
            lines.append(f"{place} compiled 100.0 us -> {choice or 'compiled'} {80.0 if choice else 100.0} us")
            routed |= {route.key} if choice else set()
    block = profile.calibration
    digest = block.route_catalog if block is not None else ""
    return [
        *lines,
        f"calibration: {len(measured)} keys measured, {len(routed)} routed off the compiled route in 28.4 s",
        (
            f"stored {len(profile.routes)} measured keys for {profile.hardware_class} ({profile.multiprocessors} SMs, "
            f"route catalog {digest}) in {path}"
        ),
    ]
