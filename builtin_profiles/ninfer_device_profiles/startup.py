"""What the engine does with profiles when it starts: find or measure, store, install, for each device.

Reading a device, measuring it and logging are passed in, so that the same steps serve the engine's tests, a service
that wraps it, and a dry run.

Source: engine-profiles, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.errors import ModeError, ProfileError
from ninfer_device_profiles.finding import find_profile
from ninfer_device_profiles.layering import layer
from ninfer_device_profiles.matching import find_entry, hardware_class
from ninfer_device_profiles.store import store_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ninfer_device_profiles.finding import Note
    from ninfer_device_profiles.lookup import Installation
    from ninfer_device_profiles.model import Profile

CALIBRATION_ORIGIN = "calibration"
"""Origin of an entry that the engine measured itself at start."""


class Mode(StrEnum):
    """Values of ``--device-profile``."""

    AUTO = "auto"
    CALIBRATE = "calibrate"
    OFF = "off"


class Level(StrEnum):
    """How a log line is published."""

    INFO = "info"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A device as the driver reports it: CUDA index, name, compute capability, SM count."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """What one device runs with.

    Args:
        device: CUDA index.
        profile: what was installed, or None (mode ``off``).
        calibrated: whether it was measured just now.
        saved: whether the measurement is in the profile file.
        notes: why the file, or its entry, was left aside.
    """

    device: int
    profile: Profile | None
    calibrated: bool = False
    saved: bool = False
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Surroundings:
    path: str
    builtin: tuple[Profile, ...]
    catalog_digest: str
    calibrate: Callable[[Device], Profile]
    installation: Installation
    log: Callable[[Level, str], None]


def parse_mode(word: str) -> Mode:
    """Return the mode that ``word`` names.

    Raises:
        ModeError: it is none.
    """
    try:
        return Mode(word)
    except ValueError:
        raise ModeError(
            f"--device-profile: {word!r}; the modes are 'auto', 'calibrate' and 'off'. Name one of them."
        ) from None


def start_devices(
    devices: Sequence[Device],
    *,
    mode: Mode | str,
    path: str,
    builtin: Iterable[Profile],
    catalog_digest: str,
    calibrate: Callable[[Device], Profile],
    installation: Installation,
    log: Callable[[Level, str], None],
) -> tuple[Started, ...]:
    """Give each device its profile, in the given order, each distinct index once.

    Args:
        devices: as ``--device`` or ``--devices`` lists them.
        mode: ``auto`` takes what is there and measures only where nothing is, ``calibrate`` always measures,
            ``off`` runs the compiled routes.
        path: the profile file, see `ninfer_device_profiles.location`.
        builtin: entries of the built-in table.
        catalog_digest: of the catalog that this build measures.
        calibrate: measures one device with no profile installed and returns an entry with routes and a calibration
            block; class and SM count are set here, and so is an empty origin. It makes the device current and the
            previous one again. What it raises passes through: the engine does not start then.
        installation: where profiles are installed.
        log: gets the engine's log lines.

    Raises:
        ModeError: ``mode`` is none of the three words.
    """
    chosen = parse_mode(mode)
    around = _Surroundings(
        path=path,
        builtin=tuple(builtin),
        catalog_digest=catalog_digest,
        calibrate=calibrate,
        installation=installation,
        log=log,
    )
    started: dict[int, Started] = {}
    for device in devices:
        if device.index in started:
            continue
        if chosen is Mode.OFF:
            installation.remove(device.index)
            started[device.index] = Started(device=device.index, profile=None)
            continue
        result = _start(device, chosen, around)
        assert result.profile is not None
        profile = result.profile
        log(
            Level.INFO,
            f"device profile {profile.hardware_class}: {len(profile.routes)} routed keys ({profile.origin})",
        )
        installation.install(device.index, profile)
        started[device.index] = result
    return tuple(started.values())


def _start(device: Device, mode: Mode, around: _Surroundings) -> Started:
    wanted = hardware_class(device.name, device.capability)
    notes: tuple[Note, ...] = ()
    if mode is Mode.AUTO:
        found = find_profile(
            wanted,
            device.multiprocessors,
            path=around.path,
            builtin=around.builtin,
            catalog_digest=around.catalog_digest,
        )
        notes = found.notes
        for note in notes:
            around.log(Level.WARNING, note.text)
        if found.profile is not None:
            return Started(device=device.index, profile=found.profile, notes=notes)
    around.log(Level.INFO, f"calibrating routes for {wanted} ({device.multiprocessors} SMs)")
    around.installation.remove(device.index)
    measured = around.calibrate(device)
    entry = replace(
        measured,
        hardware_class=wanted,
        multiprocessors=device.multiprocessors,
        origin=measured.origin or CALIBRATION_ORIGIN,
    )
    saved = True
    try:
        entry = store_profile(entry, around.path).profile
    except ProfileError as error:
        saved = False
        around.log(Level.WARNING, f"device profile not saved to {around.path}: {error}")
    base = find_entry(around.builtin, wanted, device.multiprocessors)
    return Started(
        device=device.index,
        profile=entry if base is None else layer(entry, base),
        calibrated=True,
        saved=saved,
        notes=notes,
    )
