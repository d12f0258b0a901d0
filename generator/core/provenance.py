"""Where a measured entry comes from: its origin and calibration block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.document import Calibration, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ninfer_device_profiles.bands import Bands

    from generator.core.evidence import DeviceRecord, Evidence
    from generator.core.route import RouteKey


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
