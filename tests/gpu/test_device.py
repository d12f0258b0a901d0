"""The device through NVML, as far as that goes without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from generator.errors import DeviceError
from generator.gpu.device import User, Watch, refuse_busy, summary, uuid_hash


@dataclass
class Seen:
    people: tuple[User, ...] = ()
    share: int = 0

    def users(self) -> tuple[User, ...]:
        return self.people

    def busy_share(self) -> int:
        return self.share


def refuse(seen: Seen) -> None:
    refuse_busy(cast("Watch", seen), "NVIDIA Toy (0000:01:00.0)")


def test_a_device_in_use_is_refused_and_its_users_are_named() -> None:
    with pytest.raises(DeviceError) as caught:
        refuse(Seen((User(pid=42, name="python3", memory_bytes=1 << 30),)))
    assert str(caught.value) == (
        "NVIDIA Toy (0000:01:00.0): in use by python3 (pid 42, 1024 MiB); calibration times an idle device. "
        "Close that work, or pass --allow-busy to measure anyway and mark the evidence"
    )


def test_a_device_that_computes_for_others_is_refused_above_ten_per_cent() -> None:
    refuse(Seen(share=10))
    with pytest.raises(DeviceError, match="busy for 11 % of the time, idle is up to 10 %"):
        refuse(Seen(share=11))


def test_without_nvml_nothing_is_known_and_nothing_refused() -> None:
    watch = Watch("ffff:ff:ff.0")
    if watch.present:
        pytest.skip("this machine's NVML knows the made-up bus id")
    assert (watch.uuid(), watch.power_limit_w(), watch.users(), watch.reading()) == ("", 0, (), {})
    refuse_busy(watch, "no device")


def test_readings_become_lowest_and_highest_and_every_reason_seen() -> None:
    assert summary(
        [
            {"sm_clock_mhz": 1980, "throttle": ""},
            {"sm_clock_mhz": 1755, "throttle": "power cap, software thermal"},
        ]
    ) == {"sm_clock_mhz_low": 1755, "sm_clock_mhz_high": 1980, "throttle": "power cap, software thermal"}
    assert summary([]) == {}


def test_a_board_is_told_apart_without_being_named() -> None:
    assert uuid_hash("GPU-a") != uuid_hash("GPU-b")
    assert len(uuid_hash("GPU-a")) == 16
