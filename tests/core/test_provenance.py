"""Where an entry comes from, and what two provenances differ in."""

from __future__ import annotations

from dataclasses import replace

from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Profile

from generator.core.provenance import Effect, measured_profile, mismatches
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


def test_every_mismatch_names_both_values_and_its_effect() -> None:
    found = mismatches(point(), toy_catalog(), replace(DEVICE, multiprocessors=8, power_limit_w=300))
    assert [str(item) for item in found if item.effect is not Effect.NOTE] == [
        "multiprocessors '4', expected '8' (refuse)"
    ]
    assert [item.validator for item in found if item.found == "unknown"] == [
        "memory bytes",
        "power limit in W",
        "board",
    ]
