"""Widths read off every built-in band that benchmarks selected give back exactly that band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import Bands, schedule_at
from ninfer_device_profiles.document import Profile, parse_document

from generator.core.bench_readers import judged_cases
from generator.core.rounds import Table, Time
from generator.core.route import HardwareClass, RouteKey
from generator.core.sources import Device
from generator.core.unified import SCHEDULE, select
from kernels.unified_switches import NAMES
from kernels.widths import UNIFIED_GRID
from tests.core.unified_rounds import make_round

if TYPE_CHECKING:
    from pathlib import Path

CARDS = ("nvidia-geforce-rtx-3090-sm86", "nvidia-geforce-rtx-4090-sm89", "nvidia-geforce-rtx-5090-sm120")
KEYS = tuple(RouteKey(f"unified/{name}") for name in NAMES)


def _built_in(shared_data: Path) -> dict[Device, Profile]:
    path = shared_data / "engine" / "device_profiles.json"
    document = parse_document(path.read_bytes(), path.name)
    return {
        Device(HardwareClass(item.hardware_class), item.multiprocessors): item
        for item in document.devices
        if item.hardware_class in CARDS
    }


def _times(device: Device, key: RouteKey, bands: Bands) -> list[Time]:
    """Return times that qualify exactly where ``bands`` say unified: a tenth faster there, as fast elsewhere."""
    return [
        Time(key, table, item.case, item.execution, "cold", width, 900.0 if wins and table is Table.UNIFIED else 1000.0)
        for width in UNIFIED_GRID
        for wins in (schedule_at(bands, width) == SCHEDULE,)
        for item in judged_cases()[key]
        if item.at(width, device.capability)
        for table in Table
    ]


def test_every_benchmark_selected_band_of_three_cards_comes_back(shared_data: Path) -> None:
    cards = _built_in(shared_data)
    assert [device.hardware_class for device in cards] == list(CARDS)
    counts = []
    for device, profile in cards.items():
        times = [time for key in KEYS for time in _times(device, key, profile.routes.get(key, ()))]
        rounds = [make_round(number, times, device=device) for number in (1, 2)]
        selected = select(rounds, judged_cases())[device].bands
        routed = {key: bands for key, bands in selected.items() if bands}
        assert routed == {key: bands for key, bands in profile.routes.items() if key in KEYS}
        counts.append(len(routed))
    assert counts == [10, 11, 13]


def test_calibrated_switches_with_a_trailing_compiled_band_are_not_of_this_rule(shared_data: Path) -> None:
    trailing = {
        key
        for profile in _built_in(shared_data).values()
        for key, bands in profile.routes.items()
        if key.startswith("unified/") and bands[-1].schedule != SCHEDULE
    }
    assert trailing == {"unified/q4_linear_swiglu", "unified/q4_linear_add"}
