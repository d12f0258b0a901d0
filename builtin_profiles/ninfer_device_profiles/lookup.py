"""Ask for schedules: profiles installed per device, and the one forced route of a calibration.

Source: engine-profiles, sections 2.1 to 2.3.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ninfer_device_profiles.bands import Bands
    from ninfer_device_profiles.model import Profile

MAX_DEVICES = 64
"""CUDA device indices from 0 up to but not including this one can hold a profile; others are ignored."""


class RouteTable:
    """The routes of one profile, ready for lookups; a key's bands are prepared at its first one.

    Safe for lookups from several threads at once.
    """

    __slots__ = ("_prepared", "_routes")

    def __init__(self, routes: Mapping[str, Bands]) -> None:
        self._routes = routes
        self._prepared: dict[str, tuple[list[int], list[str]]] = {}

    def schedule(self, key: str, width: int) -> str:
        """Return the schedule of ``key`` at ``width``; empty for the compiled route, also for an unknown key."""
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepare(key)
        return prepared[1][bisect_left(prepared[0], width)]

    def _prepare(self, key: str) -> tuple[list[int], list[str]]:
        bands = self._routes.get(key, ())
        prepared = [band.last for band in bands], [*(band.schedule for band in bands), COMPILED]
        if bands:  # unknown keys are not kept, so that asking for many of them costs no memory
            self._prepared[key] = prepared
        return prepared


class Installation:
    """Which profile each CUDA device runs with; one object stands for one process of the engine.

    Install at start-up, before any operation runs. Lookups take no lock.
    """

    def __init__(self) -> None:
        self._profiles: dict[int, Profile] = {}
        self._tables: dict[int, RouteTable] = {}
        self._forced: tuple[str, str] | None = None

    def install(self, device: int, profile: Profile) -> None:
        """Put ``profile`` in place of the device's; a device index outside of 0 to 63 is ignored."""
        if 0 <= device < MAX_DEVICES:
            self._profiles[device] = profile
            self._tables[device] = RouteTable(profile.routes)

    def remove(self, device: int) -> None:
        """Take the device's profile away: its compiled routes are in force again."""
        self._tables.pop(device, None)
        self._profiles.pop(device, None)

    def installed(self, device: int) -> Profile | None:
        """Return the device's profile, or None."""
        return self._profiles.get(device)

    def schedule(self, device: int, key: str, width: int) -> str:
        """Return the schedule that ``key`` names at ``width``; empty for the compiled route.

        A route forced for exactly this key comes first, on every device.
        """
        forced = self._forced
        if forced is not None and forced[0] == key:
            return forced[1]
        table = self._tables.get(device)
        return COMPILED if table is None else table.schedule(key, width)

    @contextmanager
    def forced(self, key: str, schedule: str) -> Iterator[None]:
        """Force ``schedule`` (also the empty one) for ``key`` while the context lasts; for calibration alone.

        There is one forced route at a time: a second context replaces the first, and the end of any of them ends the
        forcing.
        """
        self._forced = (key, schedule)
        try:
            yield
        finally:
            self._forced = None
