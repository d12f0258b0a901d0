"""Hardware class, matching, and where the profile file is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.document import Profile
from ninfer_device_profiles.location import profile_location
from ninfer_device_profiles.matching import find_entry, hardware_class


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("NVIDIA GeForce RTX 3090", (8, 6), "nvidia-geforce-rtx-3090-sm86"),
        ("NVIDIA GeForce RTX 5090", (12, 0), "nvidia-geforce-rtx-5090-sm120"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            (12, 0),
            "nvidia-rtx-pro-6000-blackwell-max-q-workstation-edition-sm120",
        ),
        ("Tesla V100-SXM2-16GB", (7, 0), "nvidia-tesla-v100-sxm2-16gb-sm70"),
        ("", (9, 0), "nvidia-gpu-sm90"),
        ("  --  ", (9, 0), "nvidia-gpu-sm90"),
        ("NVIDIA", (8, 9), "nvidia-sm89"),
        ("(NVIDIA) A100!", (8, 0), "nvidia-a100-sm80"),
        ("nvidiary X", (8, 0), "nvidia-nvidiary-x-sm80"),
        ("Größe ß", (8, 0), "nvidia-gr-e-sm80"),
        (b"RTX\xff4090", (8, 9), "nvidia-rtx-4090-sm89"),
    ],
)
def test_hardware_class_is_the_drivers_name_and_the_capability(
    name: str | bytes, capability: tuple[int, int], expected: str
) -> None:
    assert hardware_class(name, capability) == expected


@given(st.text() | st.binary())
def test_every_name_gives_a_class_of_letters_digits_and_single_hyphens(name: str | bytes) -> None:
    assert re.fullmatch(r"nvidia(-[a-z0-9]+)*-sm86", hardware_class(name, (8, 6)))


def make(name: str, sms: int, origin: str = "") -> Profile:
    return Profile(hardware_class=name, multiprocessors=sms, origin=origin)


def test_first_match_answers_and_zero_stands_for_any_sm_count() -> None:
    entries = [make("a", 80, "other count"), make("a", 0, "wildcard"), make("a", 82, "exact"), make("b", 82)]
    found = find_entry(entries, "a", 82)
    assert found is not None
    assert found.origin == "wildcard"
    exact = find_entry(entries, "a", 80)
    assert exact is not None
    assert exact.origin == "other count"
    assert find_entry(entries, "A", 82) is None
    assert find_entry(entries, "b", 80) is None


@pytest.mark.parametrize(
    ("environment", "platform", "explicit", "path", "source"),
    [
        ({"NINFER_DEVICE_PROFILES": "/p"}, "linux", "./mine.json", "./mine.json", "--device-profile-path"),
        ({"NINFER_DEVICE_PROFILES": "~/$X/p", "HOME": "/h"}, "linux", "", "~/$X/p", "NINFER_DEVICE_PROFILES"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "", "/x/ninfer/device-profiles.json", "XDG_CACHE_HOME"),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, "linux", "", "/h/.cache/ninfer/device-profiles.json", "HOME"),
        ({"LOCALAPPDATA": "C:\\l", "HOME": "/h"}, "linux", "", "/h/.cache/ninfer/device-profiles.json", "HOME"),
        ({}, "linux", "", "device-profiles.json", "current directory"),
        (
            {"LOCALAPPDATA": "C:\\l", "XDG_CACHE_HOME": "/x"},
            "win32",
            "",
            "C:\\l\\ninfer\\device-profiles.json",
            "LOCALAPPDATA",
        ),
        ({"XDG_CACHE_HOME": "C:/x"}, "win32", "", "C:/x/ninfer/device-profiles.json", "XDG_CACHE_HOME"),
        ({"HOME": "C:/h"}, "win32", "", "C:/h/.cache/ninfer/device-profiles.json", "HOME"),
        ({}, "win32", "", "device-profiles.json", "current directory"),
    ],
)
def test_profile_file_is_where_the_first_set_variable_says(
    environment: dict[str, str], platform: str, explicit: str, path: str, source: str
) -> None:
    found = profile_location(environment, platform=platform, explicit=explicit)
    assert (found.path, found.source) == (path, source)


def test_the_reason_names_what_was_asked_before() -> None:
    assert profile_location({"HOME": "/h"}, platform="linux").reason == (
        "HOME names its folder; NINFER_DEVICE_PROFILES, XDG_CACHE_HOME are unset or empty"
    )
    assert profile_location({"XDG_CACHE_HOME": "/h"}, platform="linux").reason == (
        "XDG_CACHE_HOME names its folder; NINFER_DEVICE_PROFILES is unset or empty"
    )
    assert profile_location({}, platform="linux").reason == (
        "the current directory is the last resort; NINFER_DEVICE_PROFILES, XDG_CACHE_HOME, HOME are unset or empty"
    )
