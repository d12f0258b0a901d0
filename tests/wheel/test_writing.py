"""Writing profile documents: both layouts byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import (
    Calibration,
    Document,
    Profile,
    parse_document,
    serialise,
    serialise_table,
)
from ninfer_device_profiles.errors import DocumentError

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Profile(hardware_class="c", multiprocessors=8, origin="o", routes={"k": (Band(4, "a"), Band(9, ""))})


def test_the_engines_table_is_written_byte_for_byte(shared_data: Path) -> None:
    data = (shared_data / "engine" / "device_profiles.json").read_bytes()
    written = serialise_table(parse_document(data, "table")).encode()
    assert written == data
    assert hashlib.sha256(written).hexdigest() == "3ad04f8cf8264a17daa9a6e637d6e98ace261cd5603b495b77c6544057c31718"


def test_the_rtx_3060_file_is_written_byte_for_byte(shared_data: Path) -> None:
    data = (shared_data / "profiles" / "rtx3060-calibrated.json").read_bytes()
    written = serialise(parse_document(data, "file")).encode()
    assert written == data
    assert len(written) == 7953
    assert hashlib.sha256(written).hexdigest() == "737c5f29c549f75a229ad8c56f3f710155856d2c598f737bd1843586cffdb924"


def test_every_band_element_has_its_own_line() -> None:
    assert serialise(Document(devices=(PLAIN,))) == (
        '{\n "schema": "ninfer.device-route-profiles",\n "schema_version": 2,\n "devices": [\n  {\n'
        '   "hardware_class": "c",\n   "multiprocessors": 8,\n   "origin": "o",\n   "routes": {\n    "k": [\n'
        '     [\n      4,\n      "a"\n     ],\n     [\n      9,\n      ""\n     ]\n    ]\n   }\n  }\n ]\n}\n'
    )


def test_empty_containers_stay_on_one_line() -> None:
    assert serialise(Document()).endswith(' "devices": []\n}\n')
    assert serialise_table(Document()) == (
        '{"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": []}\n'
    )
    assert '"routes": {}' in serialise_table(Document(devices=(Profile(hardware_class="c"),)))


def test_route_keys_are_written_in_byte_order() -> None:
    keys = ["attn/rk4v4/w1", "attn/rk4v4-e8/w1", "q4/5120x6144", "q4/5120x17408", "é", "z", "\U0001f600", "\uffff"]
    profile = Profile(hardware_class="c", routes={key: (Band(1, ""),) for key in keys})
    assert list(json.loads(serialise(Document(devices=(profile,))))["devices"][0]["routes"]) == [
        "attn/rk4v4-e8/w1",
        "attn/rk4v4/w1",
        "q4/5120x17408",
        "q4/5120x6144",
        "z",
        "é",
        "\uffff",
        "\U0001f600",
    ]


def test_unknown_fields_are_kept_behind_the_known_ones() -> None:
    text = (
        '{"x": [1.5, null], "schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": '
        '[{"y": {"z": true}, "hardware_class": "c", "routes": {}, "calibration": {"w": "ü", "route_catalog": "d"}}]}'
    )
    document = parse_document(text, "p")
    for written in (serialise(document), serialise_table(document)):
        value = json.loads(written)
        assert list(value) == ["schema", "schema_version", "devices", "x"]
        assert value["x"] == [1.5, None]
        assert value["devices"][0]["y"] == {"z": True}
        assert value["devices"][0]["calibration"]["w"] == "ü"
        assert "ü" in written


def test_an_unknown_field_never_hides_a_known_one() -> None:
    profile = Profile(
        hardware_class="c",
        extra={"hardware_class": "other", "calibration": 1},
        calibration=Calibration(route_catalog="d", extra={"route_catalog": "other"}),
    )
    value = json.loads(serialise(Document(devices=(profile,), extra={"schema": "other"})))
    assert value["schema"] == "ninfer.device-route-profiles"
    assert value["devices"][0]["hardware_class"] == "c"
    assert value["devices"][0]["calibration"]["route_catalog"] == "d"


def test_a_missing_origin_stays_missing_instead_of_becoming_a_path() -> None:
    document = parse_document(
        '{"schema": "ninfer.device-route-profiles", "schema_version": 2, '
        '"devices": [{"hardware_class": "c", "routes": {}}]}',
        "/somewhere/private.json",
    )
    assert document.devices[0].origin == "/somewhere/private.json"
    assert "private" not in serialise(document)


@pytest.mark.parametrize(
    "profile",
    [
        Profile(hardware_class="\udcff"),
        Profile(hardware_class="c", origin="\ud800"),
        Profile(hardware_class="c", routes={"\udcff": (Band(1, "x"),)}),
        Profile(hardware_class="c", routes={"k": (Band(1, "\udcff"),)}),
    ],
)
def test_text_that_is_no_utf_8_is_refused(profile: Profile) -> None:
    for write in (serialise, serialise_table):
        with pytest.raises(DocumentError, match="holds half of a surrogate pair"):
            write(Document(devices=(profile,)))


def test_what_json_cannot_hold_is_refused() -> None:
    for value in (float("nan"), {1, 2}):
        with pytest.raises(DocumentError, match="unknown fields hold JSON values, numbers are finite"):
            serialise(Document(extra={"x": value}))  # type: ignore[dict-item]


def test_a_calibration_block_has_its_own_line_in_the_table_layout() -> None:
    profile = Profile(
        hardware_class="c", origin="o", calibration=Calibration(route_catalog="d"), routes={"k": (Band(4, "a"),)}
    )
    assert serialise_table(Document(devices=(profile,))) == (
        '{"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": [\n'
        '    {"hardware_class": "c", "multiprocessors": 0, "origin": "o",\n'
        '     "calibration": {"route_catalog": "d", "ninfer_build": "", "cuda_driver": 0, "cuda_runtime": 0, '
        '"date": ""},\n'
        '     "routes": {\n        "k": [[4, "a"]]\n     }}\n]}\n'
    )
