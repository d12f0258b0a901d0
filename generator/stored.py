"""What the profile file says of a device before a calibration replaces its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import schedule_at
from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.reading import read_document

from generator.core.route import Point, RouteKey, Schedule

if TYPE_CHECKING:
    import os

    from generator.core.catalog import Catalog
    from generator.core.evidence import DeviceRecord


def stored_choices(path: str | os.PathLike[str], device: DeviceRecord, catalog: Catalog) -> dict[Point, Schedule]:
    """Return the schedule that the stored entry of ``device`` names at each measured point of each of its keys.

    Past the last band of a key the entry names nothing: the built-in table answers there, or the compiled route.

    Nothing where the file is absent or cannot be read (storing says what is wrong with it), has no entry of exactly
    this class and SM count, or was measured against another route catalog.
    """
    try:
        document = read_document(path)
    except (ProfileError, OSError):
        return {}
    return {
        (RouteKey(key), width): Schedule(schedule_at(bands, width))
        for entry in document.devices
        if (entry.hardware_class, entry.multiprocessors) == (device.hardware_class, device.multiprocessors)
        if entry.calibration is not None and entry.calibration.route_catalog == catalog.digest()
        for key, bands in entry.routes.items()
        if key in catalog.routes
        for width in catalog.routes[RouteKey(key)].widths
        if bands and width <= bands[-1].last
    }
