"""Start-up: modes, several devices, log lines, and failures that cost nothing but a warning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Profile, read_document
from ninfer_device_profiles.errors import ModeError
from ninfer_device_profiles.lookup import Installation
from ninfer_device_profiles.startup import Device, Level, Mode, Started, start_devices
from ninfer_device_profiles.store import store_profile

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = Calibration(route_catalog=DIGEST, ninfer_build="b2")
KNOWN = Device(index=0, name="NVIDIA GeForce RTX 3090", capability=(8, 6), multiprocessors=82)
NEW = Device(index=1, name="NVIDIA GeForce RTX 3060", capability=(8, 6), multiprocessors=28)
BUILTIN = Profile(
    hardware_class="nvidia-geforce-rtx-3090-sm86",
    multiprocessors=82,
    origin="built in: RTX 3090",
    routes={"low": (Band(4, "l"),), "key": (Band(8, "b"), Band(64, "c"))},
)


@dataclass
class Engine:
    """Records what start-up does to it."""

    path: str
    installation: Installation = field(default_factory=Installation)
    lines: list[str] = field(default_factory=list)
    calibrated: list[int] = field(default_factory=list)
    error: Exception | None = None

    def calibrate(self, device: Device) -> Profile:
        assert self.installation.installed(device.index) is None
        self.calibrated.append(device.index)
        if self.error is not None:
            raise self.error
        return Profile(hardware_class="ignored", calibration=BLOCK, routes={"key": (Band(32, "m"),)})

    def log(self, level: Level, text: str) -> None:
        self.lines.append(f"{level}: {text}")

    def start(self, *devices: Device, mode: str = "auto") -> tuple[Started, ...]:
        return start_devices(
            devices,
            mode=mode,
            path=self.path,
            builtin=[BUILTIN],
            catalog_digest=DIGEST,
            calibrate=self.calibrate,
            installation=self.installation,
            log=self.log,
        )


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(path=str(tmp_path / "device-profiles.json"))


def test_off_removes_the_profile_without_a_line(engine: Engine) -> None:
    engine.installation.install(0, BUILTIN)
    assert engine.start(KNOWN, mode="off") == (Started(device=0, profile=None),)
    assert engine.installation.installed(0) is None
    assert engine.lines == []


def test_auto_takes_the_builtin_profile_and_measures_nothing(engine: Engine) -> None:
    assert engine.start(KNOWN) == (Started(device=0, profile=BUILTIN),)
    assert engine.lines == ["info: device profile nvidia-geforce-rtx-3090-sm86: 2 routed keys (built in: RTX 3090)"]
    assert engine.installation.schedule(0, "key", 60) == "c"


def test_auto_calibrates_an_unknown_device_once_and_stores_it(engine: Engine) -> None:
    first = engine.start(NEW)
    assert [item.saved for item in first] == [True]
    assert engine.lines == [
        "info: calibrating routes for nvidia-geforce-rtx-3060-sm86 (28 SMs)",
        "info: device profile nvidia-geforce-rtx-3060-sm86: 1 routed keys (calibration)",
    ]
    stored = read_document(engine.path).devices
    assert [(item.hardware_class, item.multiprocessors, item.origin, item.calibration) for item in stored] == [
        ("nvidia-geforce-rtx-3060-sm86", 28, "calibration", BLOCK)
    ]
    again = engine.start(NEW)
    assert engine.calibrated == [1]
    assert [item.calibrated for item in again] == [False]
    assert again[0].profile == stored[0]


def test_calibrate_measures_again_over_the_builtin_profile_and_keeps_the_files_other_keys(engine: Engine) -> None:
    old = Profile(
        hardware_class=BUILTIN.hardware_class,
        multiprocessors=82,
        origin="earlier",
        calibration=BLOCK,
        routes={"key": (Band(16, "old"),), "kept": (Band(2, "k"),)},
    )
    store_profile(old, engine.path)
    started = engine.start(KNOWN, mode="calibrate")
    assert engine.calibrated == [0]
    assert started[0].profile is not None
    assert started[0].profile.routes == {
        "low": (Band(4, "l"),),
        "key": (Band(32, "m"), Band(64, "c")),
        "kept": (Band(2, "k"),),
    }
    assert engine.lines[-1] == (
        "info: device profile nvidia-geforce-rtx-3090-sm86: 3 routed keys (calibration over built in: RTX 3090)"
    )


def test_every_distinct_device_is_handled_once_in_the_given_order(engine: Engine) -> None:
    started = engine.start(NEW, KNOWN, NEW)
    assert [item.device for item in started] == [1, 0]
    assert engine.calibrated == [1]
    assert [line.split()[1] for line in engine.lines] == ["calibrating", "device", "device"]
    assert engine.installation.installed(0) is not None
    assert engine.installation.installed(1) is not None


def test_a_stale_entry_of_an_unknown_device_is_warned_about_and_measured_again(engine: Engine) -> None:
    stale = Profile(
        hardware_class="nvidia-geforce-rtx-3060-sm86",
        multiprocessors=28,
        calibration=Calibration(route_catalog="0" * 16, ninfer_build="b1"),
        routes={"gone": (Band(1, "x"),)},
    )
    store_profile(stale, engine.path)
    started = engine.start(NEW)
    assert engine.lines[0] == (
        f"warning: {engine.path}: the entry of nvidia-geforce-rtx-3060-sm86 was measured against route catalog "
        f"0000000000000000 by build b1; this build has route catalog {DIGEST}, the entry is ignored. "
        "Recalibrate with ninfer-calibrate or --device-profile calibrate."
    )
    assert started[0].profile is not None
    assert set(started[0].profile.routes) == {"key"}


def test_a_file_that_cannot_be_stored_is_a_warning_and_the_measurement_is_used(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "device-profiles.json").write_text("not JSON")
    started = engine.start(NEW)
    assert [item.saved for item in started] == [False]
    assert engine.lines[0].startswith(f"warning: device profile file skipped: {engine.path}: line 1 column 1: invalid")
    assert engine.lines[2].startswith(f"warning: device profile not saved to {engine.path}: ")
    assert engine.lines[2].endswith("Nothing was stored; the file is as it was.")
    assert engine.installation.schedule(1, "key", 32) == "m"
    assert (tmp_path / "device-profiles.json").read_text() == "not JSON"


def test_what_calibration_raises_stops_the_start_and_writes_nothing(engine: Engine, tmp_path: Path) -> None:
    engine.error = RuntimeError("no kernel image")
    with pytest.raises(RuntimeError, match="no kernel image"):
        engine.start(NEW)
    assert list(tmp_path.iterdir()) == []
    assert engine.installation.installed(1) is None


def test_an_unknown_mode_is_a_usage_error(engine: Engine) -> None:
    with pytest.raises(ModeError) as caught:
        engine.start(KNOWN, mode="Auto")
    assert str(caught.value) == (
        "--device-profile: 'Auto'; the modes are 'auto', 'calibrate' and 'off'. Name one of them."
    )
    assert caught.value.exit_code == 2
    assert [str(mode) for mode in Mode] == ["auto", "calibrate", "off"]
