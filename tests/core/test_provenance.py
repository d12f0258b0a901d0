"""Where a measured entry comes from."""

from __future__ import annotations

from dataclasses import replace

from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Profile

from generator.core.provenance import measured_profile
from tests.core.toy import DEVICE, KEY, point, toy_catalog


def test_entry_carries_the_power_limit_in_its_origin_and_the_engines_calibration_block() -> None:
    item = replace(point(), device=replace(DEVICE, power_limit_w=700))
    assert measured_profile(item, {KEY: (Band(8, ""),)}) == Profile(
        hardware_class="nvidia-toy-sm90",
        multiprocessors=4,
        origin="ninfer-calibrate on NVIDIA Toy at 700 W",
        calibration=Calibration(route_catalog=toy_catalog().digest(), cuda_driver=13000, date="2026-11-29T22:00:00Z"),
        routes={KEY: (Band(8, ""),)},
    )
