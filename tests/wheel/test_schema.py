"""The JSON Schema that the wheel carries: real files, and agreement with the parser."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles import load_schema, parse_document
from ninfer_device_profiles.errors import ProfileError

if TYPE_CHECKING:
    from pathlib import Path

VALIDATOR = jsonschema.Draft202012Validator(load_schema())
SOUND: dict[str, Any] = {
    "schema": "ninfer.device-route-profiles",
    "schema_version": 2,
    "devices": [
        {
            "hardware_class": "c",
            "multiprocessors": 28,
            "origin": "o",
            "calibration": {
                "route_catalog": "d",
                "ninfer_build": "b",
                "cuda_driver": 13000,
                "cuda_runtime": 13010,
                "date": "2026-10-06T13:11:18Z",
            },
            "routes": {"k": [[2, "a"], [32, ""]]},
        }
    ],
}
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    -1,
    28.5,
    2**31,
    2**31 - 1,
    -(2**31) - 1,
    "",
    "a",
    [],
    {},
    [[4, "x"]],
    {"k": []},
]


def parses(value: object) -> bool:
    try:
        parse_document(json.dumps(value), "p")
    except ProfileError:
        return False
    return True


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema())


@pytest.mark.parametrize("name", ["engine/device_profiles.json", "profiles/rtx3060-calibrated.json"])
def test_real_files_are_valid(shared_data: Path, name: str) -> None:
    VALIDATOR.validate(json.loads((shared_data / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["builtin-v1-six-devices.json", "builtin-v1-empty.json"])
def test_version_1_files_are_not(shared_data: Path, name: str) -> None:
    assert not VALIDATOR.is_valid(json.loads((shared_data / "profiles" / name).read_text(encoding="utf-8")))


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value below ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, child in items for found in ((*path, step), *spots(child, (*path, step)))]


@pytest.mark.parametrize("path", spots(SOUND), ids=str)
def test_schema_and_parser_agree_on_every_replaced_and_removed_value(path: tuple[Any, ...]) -> None:
    ascending = path[-3:-1] == ("k", 0) or path[-3:-1] == ("k", 1) or path[-2:-1] == ("k",)
    for value in VALUES:
        changed = copy.deepcopy(SOUND)
        spot = changed
        for step in path[:-1]:
            spot = spot[step]
        spot[path[-1]] = value
        if not (ascending and VALIDATOR.is_valid(changed)):
            assert VALIDATOR.is_valid(changed) == parses(changed), (path, value)
    changed = copy.deepcopy(SOUND)
    spot = changed
    for step in path[:-1]:
        spot = spot[step]
    del spot[path[-1]]
    assert VALIDATOR.is_valid(changed) == parses(changed), path


@given(st.lists(st.tuples(st.integers(-2, 40), st.sampled_from(["", "a"])), max_size=4))
def test_schema_and_parser_agree_on_bands_that_ascend(bands: list[tuple[int, str]]) -> None:
    ordered = sorted(dict(bands).items())
    changed = copy.deepcopy(SOUND)
    changed["devices"][0]["routes"]["k"] = [list(band) for band in ordered]
    assert VALIDATOR.is_valid(changed) == parses(changed)


@pytest.mark.parametrize("bands", [[[32, "a"], [2, "b"]], [[8.0, "a"]]])
def test_two_rules_are_the_parsers_alone(bands: list[object]) -> None:
    changed = copy.deepcopy(SOUND)
    changed["devices"][0]["routes"]["k"] = bands
    assert VALIDATOR.is_valid(changed)
    assert not parses(changed)


def test_unknown_fields_are_allowed_everywhere() -> None:
    changed = copy.deepcopy(SOUND)
    for spot in (changed, changed["devices"][0], changed["devices"][0]["calibration"]):
        spot["unknown"] = {"x": [1]}
    assert VALIDATOR.is_valid(changed)
    assert parses(changed)
