"""Where an entry comes from: origin, calibration block, and what separates two provenances."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import Calibration, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ninfer_device_profiles.bands import Bands

    from generator.core.catalog import Catalog
    from generator.core.evidence import DeviceRecord, Evidence
    from generator.core.route import RouteKey


class Effect(StrEnum):
    """What a difference of provenance does."""

    REFUSE = "refuse"
    WARN = "warn"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """One validator that found two values; ``found`` may be ``"unknown"``."""

    validator: str
    found: str
    expected: str
    effect: Effect

    def __str__(self) -> str:
        """Return the sentence for a message."""
        return f"{self.validator} {self.found!r}, expected {self.expected!r} ({self.effect})"


def origin(device: DeviceRecord) -> str:
    """Return the origin of an entry measured here: the engine tool's text and the power limit in W."""
    limit = f" at {device.power_limit_w} W" if device.power_limit_w else ""
    return f"ninfer-calibrate on {device.name}{limit}"


def calibration_block(evidence: Evidence) -> Calibration:
    """Return the calibration block that the engine writes for such a run."""
    return Calibration(
        route_catalog=evidence.catalog,
        ninfer_build=str(evidence.run.get("ninfer_build", "")),
        cuda_driver=int(evidence.run.get("cuda_driver", 0)),
        cuda_runtime=int(evidence.run.get("cuda_runtime", 0)),
        date=str(evidence.run.get("date", "")),
    )


def measured_profile(evidence: Evidence, bands: Mapping[RouteKey, Bands]) -> Profile:
    """Return the entry of ``evidence`` with the given bands."""
    return Profile(
        hardware_class=evidence.device.hardware_class,
        multiprocessors=evidence.device.multiprocessors,
        origin=origin(evidence.device),
        calibration=calibration_block(evidence),
        routes={str(key): value for key, value in bands.items()},
    )


def mismatches(evidence: Evidence, catalog: Catalog, device: DeviceRecord | None = None) -> tuple[Mismatch, ...]:
    """Return every way in which ``evidence`` is not of this catalog or of this device.

    Another hardware class or SM count refuses; another catalog only warns, since keys carry their own digests; another
    board, power limit or an unknown value is a note.
    """
    found: list[Mismatch] = []

    def compare(validator: str, have: object, want: object, effect: Effect) -> None:
        if have in {"", 0}:
            found.append(Mismatch(validator=validator, found="unknown", expected=str(want), effect=Effect.NOTE))
        elif have != want:
            found.append(Mismatch(validator=validator, found=str(have), expected=str(want), effect=effect))

    compare("route catalog", evidence.catalog, catalog.digest(), Effect.WARN)
    if device is not None:
        ours = evidence.device
        compare("hardware class", ours.hardware_class, device.hardware_class, Effect.REFUSE)
        compare("multiprocessors", ours.multiprocessors, device.multiprocessors, Effect.REFUSE)
        compare("memory bytes", ours.memory_bytes, device.memory_bytes, Effect.WARN)
        compare("power limit in W", ours.power_limit_w, device.power_limit_w, Effect.WARN)
        compare("board", ours.uuid_hash, device.uuid_hash, Effect.NOTE)
    return tuple(found)
