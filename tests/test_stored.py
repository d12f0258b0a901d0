"""The choices of a stored entry, as a calibration over it takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Document, Profile
from ninfer_device_profiles.writing import serialise

from generator.core.route import Point, RouteKey, Schedule
from generator.stored import stored_choices
from tests.core.toy import DEVICE

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog

KEY = RouteKey("t2_i8_small/5120x6144")


def entry(catalog: Catalog) -> Profile:
    return Profile(
        hardware_class=DEVICE.hardware_class,
        multiprocessors=DEVICE.multiprocessors,
        origin="a test",
        routes={
            KEY: (Band(4, "r16c8s3"), Band(32, "")),
            "gdn_two_stage/h48": (Band(8192, ""),),
            "gone/1x1": (Band(8, "x"),),
        },
        calibration=Calibration(route_catalog=catalog.digest()),
    )


def choices(tmp_path: Path, catalog: Catalog, *devices: Profile) -> dict[Point, Schedule]:
    path = tmp_path / "device_profiles.json"
    path.write_text(serialise(Document(devices=devices)))
    return stored_choices(path, DEVICE, catalog)


def test_every_measured_width_of_a_stored_key_has_its_choice(tmp_path: Path, catalog: Catalog) -> None:
    found = choices(tmp_path, catalog, entry(catalog))
    assert {key for key, _ in found} == {KEY, "gdn_two_stage/h48"}
    assert {width: schedule for (key, width), schedule in found.items() if key == KEY} == {
        width: "r16c8s3" if width <= 4 else "" for width in catalog.route(KEY).widths
    }
    assert set(found.values()) == {"r16c8s3", ""}


def test_past_its_last_band_an_entry_names_nothing(tmp_path: Path, catalog: Catalog) -> None:
    """The built-in table answers there, so the compiled route is no choice of the entry's."""
    short = replace(entry(catalog), routes={KEY: (Band(4, "r16c8s3"),)})
    assert {width for _, width in choices(tmp_path, catalog, short)} == {1, 2, 3, 4}


def test_another_devices_entry_and_another_catalogs_say_nothing(tmp_path: Path, catalog: Catalog) -> None:
    mine = entry(catalog)
    others = (
        replace(mine, multiprocessors=mine.multiprocessors + 1),
        replace(mine, hardware_class="nvidia-other-sm86"),
        replace(mine, calibration=Calibration(route_catalog="0" * 16)),
        replace(mine, calibration=None),
    )
    for other in others:
        assert choices(tmp_path, catalog, other) == {}


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"schema_version": 1}', "\0"])
def test_no_file_or_a_damaged_one_says_nothing(text: str | None, tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "device_profiles.json"
    if text is not None:
        path.write_text(text)
    assert stored_choices(path, DEVICE, catalog) == {}
    assert stored_choices(tmp_path, DEVICE, catalog) == {}
