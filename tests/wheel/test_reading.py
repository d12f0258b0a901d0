"""Reading profile documents: every rule, every message whole, nothing but errors of ours."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles import jsontext
from ninfer_device_profiles.document import (
    Calibration,
    Document,
    Profile,
    parse_document,
    read_document,
    serialise,
    serialise_table,
)
from ninfer_device_profiles.errors import DocumentError, OtherVersionError, ProfileError, UnreadableError

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

CORRECT = "Correct it there, or remove the file and recalibrate."
ENTRY: dict[str, Any] = {
    "hardware_class": "nvidia-x-sm86",
    "multiprocessors": 28,
    "origin": "here",
    "calibration": {
        "route_catalog": DIGEST,
        "ninfer_build": "796f985",
        "cuda_driver": 13000,
        "cuda_runtime": 13010,
        "date": "2026-10-06T13:11:18Z",
    },
    "routes": {"q6_head/248320x5120": [[2, "gemv"], [32, ""]]},
}


def document(**changes: object) -> dict[str, Any]:
    return {"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": [ENTRY], **changes}


def entry(**changes: object) -> dict[str, Any]:
    return document(devices=[{**ENTRY, **changes}])


def without(name: str) -> dict[str, Any]:
    return document(devices=[{key: value for key, value in ENTRY.items() if key != name}])


def bands(*value: object) -> dict[str, Any]:
    return entry(routes={"q6_head/248320x5120": list(value)})


def message(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(text, "p.json")
    return str(caught.value)


def test_an_entry_comes_back_with_all_its_fields() -> None:
    found = parse_document(json.dumps(document()), "p.json").devices[0]
    assert found == Profile(
        hardware_class="nvidia-x-sm86",
        multiprocessors=28,
        origin="here",
        calibration=Calibration(
            route_catalog=DIGEST,
            ninfer_build="796f985",
            cuda_driver=13000,
            cuda_runtime=13010,
            date="2026-10-06T13:11:18Z",
        ),
        routes={"q6_head/248320x5120": ((2, "gemv"), (32, ""))},  # type: ignore[dict-item]
    )


def test_absent_fields_take_their_defaults() -> None:
    text = json.dumps(document(devices=[{"hardware_class": "c", "routes": {}, "calibration": {"route_catalog": "d"}}]))
    found = parse_document(text, "p.json").devices[0]
    assert (found.multiprocessors, found.origin) == (0, "p.json")
    assert found.calibration == Calibration(route_catalog="d")


HERE = "p.json ['devices'][0]"
KEY = f"{HERE}['routes']['q6_head/248320x5120']"
RULES = [
    # rule 2
    (
        [],
        (
            "p.json: an array of 0: not a ninfer.device-route-profiles document; the top level is an object with that "
            "schema. Check the path, or remove the file and recalibrate."
        ),
    ),
    (
        {"schema": "other"},
        (
            "p.json: schema 'other': not a ninfer.device-route-profiles document; the top level is an object with that "
            "schema. Check the path, or remove the file and recalibrate."
        ),
    ),
    (
        {"schema": 1},
        (
            "p.json: schema 1: not a ninfer.device-route-profiles document; the top level is an object with that "
            "schema. Check the path, or remove the file and recalibrate."
        ),
    ),
    # rule 4
    (document(devices={}), f"p.json ['devices']: an object of 0; devices is an array of entries. {CORRECT}"),
    (
        {"schema": "ninfer.device-route-profiles", "schema_version": 2},
        f"p.json ['devices']: missing; devices is an array of entries. {CORRECT}",
    ),
    # rule 5
    (document(devices=[7]), f"{HERE}: 7; an entry is an object. {CORRECT}"),
    (
        without("hardware_class"),
        f"{HERE}: hardware_class is missing; an entry has hardware_class and routes. {CORRECT}",
    ),
    (without("routes"), f"{HERE}: routes is missing; an entry has hardware_class and routes. {CORRECT}"),
    # rule 6
    (entry(hardware_class=""), f"{HERE}['hardware_class']: empty; hardware_class names the device. {CORRECT}"),
    # rule 6b
    (entry(hardware_class=3), f"{HERE}['hardware_class']: 3; hardware_class is a string. {CORRECT}"),
    (entry(multiprocessors="28"), f"{HERE}['multiprocessors']: '28'; multiprocessors is an integer. {CORRECT}"),
    (entry(multiprocessors=None), f"{HERE}['multiprocessors']: null; multiprocessors is an integer. {CORRECT}"),
    (entry(multiprocessors=2**31), f"{HERE}['multiprocessors']: 2147483648; multiprocessors fits 32 bits. {CORRECT}"),
    (entry(multiprocessors=1e30), f"{HERE}['multiprocessors']: 1e+30; multiprocessors fits 32 bits. {CORRECT}"),
    (entry(origin=None), f"{HERE}['origin']: null; origin is a string. {CORRECT}"),
    (
        entry(calibration={"route_catalog": "d", "ninfer_build": 1}),
        f"{HERE}['calibration']['ninfer_build']: 1; ninfer_build is a string. {CORRECT}",
    ),
    (
        entry(calibration={"route_catalog": "d", "date": True}),
        f"{HERE}['calibration']['date']: true; date is a string. {CORRECT}",
    ),
    (
        entry(calibration={"route_catalog": "d", "cuda_driver": None}),
        f"{HERE}['calibration']['cuda_driver']: null; cuda_driver is an integer. {CORRECT}",
    ),
    (
        entry(calibration={"route_catalog": "d", "cuda_runtime": "12080"}),
        f"{HERE}['calibration']['cuda_runtime']: '12080'; cuda_runtime is an integer. {CORRECT}",
    ),
    # rule 7
    (
        entry(calibration=None),
        (
            f"{HERE}['calibration']: calibration block of 'nvidia-x-sm86' is null; "
            f"it is an object that records route_catalog. {CORRECT}"
        ),
    ),
    (
        entry(calibration={}),
        (
            f"{HERE}['calibration']: route_catalog of 'nvidia-x-sm86': missing; "
            f"a calibration block records the digest of the catalog that was measured. {CORRECT}"
        ),
    ),
    (
        entry(calibration={"route_catalog": ""}),
        (
            f"{HERE}['calibration']: route_catalog of 'nvidia-x-sm86': ''; "
            f"a calibration block records the digest of the catalog that was measured. {CORRECT}"
        ),
    ),
    # rule 8
    (entry(routes=[]), f"{HERE}['routes']: an array of 0; routes is an object of route keys. {CORRECT}"),
    # rule 9
    (bands(), f"{KEY}: an array of 0; bands are a non-empty array of [last, schedule]. {CORRECT}"),
    (
        entry(routes={"k": "x"}),
        f"{HERE}['routes']['k']: 'x'; bands are a non-empty array of [last, schedule]. {CORRECT}",
    ),
    # rule 10
    (bands([8, "a", 1]), f"{KEY}[0]: an array of 3; a band is [last, schedule]. {CORRECT}"),
    (bands([8, "a"], 9), f"{KEY}[1]: 9; a band is [last, schedule]. {CORRECT}"),
    (bands([8.0, "a"]), f"{KEY}[0][0]: 8.0; a band is [last, schedule], last an integer. {CORRECT}"),
    (bands([True, "a"]), f"{KEY}[0][0]: true; a band is [last, schedule], last an integer. {CORRECT}"),
    (bands([8, None]), f"{KEY}[0][1]: null; a band is [last, schedule], schedule a string. {CORRECT}"),
    # rule 11
    (bands([0, "a"]), f"{KEY}[0]: band ends at width 0; widths are positive. {CORRECT}"),
    (bands([-3, "a"]), f"{KEY}[0]: band ends at width -3; widths are positive. {CORRECT}"),
    (
        bands([32, "a"], [2, "b"]),
        f"{KEY}[1]: band ends at width 2 after a band that ends at 32; band bounds must increase. {CORRECT}",
    ),
    (
        bands([32, "a"], [32, "b"]),
        f"{KEY}[1]: band ends at width 32 after a band that ends at 32; band bounds must increase. {CORRECT}",
    ),
    (bands([2**31, "a"]), f"{KEY}[0]: band ends at width 2147483648; the widest is 2147483647. {CORRECT}"),
]


@pytest.mark.parametrize(("value", "expected"), RULES)
def test_a_broken_rule_is_reported_with_its_position(value: object, expected: str) -> None:
    assert message(json.dumps(value)) == expected


def test_the_widest_band_and_a_negative_sm_count_are_fine() -> None:
    parse_document(json.dumps(bands([2147483647, "x"])), "p.json")
    parse_document(json.dumps(entry(multiprocessors=-1)), "p.json")
    parse_document(json.dumps(document(devices=[])), "p.json")


def test_counts_are_read_as_the_engine_reads_them() -> None:
    found = [
        parse_document(json.dumps(entry(multiprocessors=value)), "p").devices[0].multiprocessors
        for value in (28.9, -28.9, True, False)
    ]
    assert found == [28, -28, 1, 0]


NEWER = (
    "was written by a newer build; this build reads version 2 alone. "
    "Use the build that wrote it, or name another file and recalibrate there; this file stays untouched."
)
OLDER = (
    "was written by an older build, or without a version; this build reads version 2 alone. "
    "Run ninfer-calibrate or --device-profile calibrate to recalibrate, which replaces the file."
)


@pytest.mark.parametrize(
    ("version", "shown", "newer"),
    [
        (3, "3", True),
        (1, "1", False),
        (-2, "-2", False),
        (2.0, "2.0", False),
        ("2", "'2'", False),
        (None, "null", False),
        (True, "true", False),
        ([], "an array of 0", False),
    ],
)
def test_another_version_says_what_to_do(version: object, shown: str, newer: bool) -> None:
    with pytest.raises(OtherVersionError) as caught:
        parse_document(json.dumps(document(schema_version=version)), "p.json")
    assert str(caught.value) == f"p.json: schema_version {shown} {NEWER if newer else OLDER}"
    assert caught.value.newer is newer


def test_a_missing_version_counts_as_older() -> None:
    with pytest.raises(OtherVersionError) as caught:
        parse_document('{"schema": "ninfer.device-route-profiles"}', "p.json")
    assert str(caught.value) == f"p.json: schema_version null {OLDER}"


def test_older_tables_are_recognised_as_version_1(shared_data: Path) -> None:
    for path in sorted((shared_data / "profiles").glob("builtin-v1-*.json")):
        with pytest.raises(OtherVersionError, match="schema_version 1 was written by an older build"):
            read_document(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1 column 1: invalid JSON (Expecting value); a profile file is one JSON object."),
        ('{"schema":', "line 1 column 11: invalid JSON (Expecting value); a profile file is one JSON object."),
        ("{}\n{}", "line 2 column 1: invalid JSON (Extra data); a profile file is one JSON object."),
        ('{"a": NaN}', "invalid JSON (NaN is no JSON number); numbers are finite and decimal."),
        ('{"a": -Infinity}', "invalid JSON (-Infinity is no JSON number); numbers are finite and decimal."),
        ('{"a": 1e999}', "invalid JSON (number '1e999' overflows); numbers are finite and decimal."),
    ],
)
def test_what_the_engines_parser_refuses_is_refused(text: str, expected: str) -> None:
    assert message(text) == f"p.json: {expected} {CORRECT}"


def test_a_number_of_5000_digits_is_refused() -> None:
    assert message(f'{{"a": {"9" * 5000}}}').startswith("p.json: invalid JSON (Exceeds the limit")


def test_a_byte_order_mark_is_skipped() -> None:
    text = json.dumps(document())
    assert parse_document(b"\xef\xbb\xbf" + text.encode(), "p") == parse_document("\ufeff" + text, "p")


def test_invalid_utf_8_is_refused() -> None:
    assert message(b'{"a": "\xff"}') == (
        f"p.json: byte 7: invalid UTF-8 (invalid start byte); a profile file is UTF-8 text. {CORRECT}"
    )


def test_a_lone_surrogate_is_refused_where_it_stands() -> None:
    text = json.dumps(entry(origin="\ud800"))
    assert message(text) == (
        "p.json ['devices'][0]['origin']: text '\\ud800' holds half of a surrogate pair; "
        f"text is valid Unicode, written as UTF-8. {CORRECT}"
    )
    assert "holds half" in message('{"\\uDFFF": 1}')
    assert message('{"a": "\udcff"}') == (
        "p.json: character 7: '\\udcff' is half of a surrogate pair; "
        f"text is valid Unicode, written as UTF-8. {CORRECT}"
    )


def test_a_surrogate_pair_is_one_character() -> None:
    text = json.dumps(entry(origin="\U0001f600"))
    assert parse_document(text, "p").devices[0].origin == "\U0001f600"


def test_a_key_given_twice_is_refused_unless_the_last_is_asked_for() -> None:
    text = json.dumps(document()).replace('"origin": "here"', '"origin": "first", "origin": "second"')
    assert message(text) == (
        "p.json ['devices'][0]: key 'origin' appears twice; an object has each key once "
        f"(the engine silently takes the last). {CORRECT}"
    )
    assert parse_document(text, "p.json", duplicates="last").devices[0].origin == "second"


def test_ten_thousand_levels_of_nesting_are_refused() -> None:
    deep = "[" * 10_000 + "]" * 10_000
    assert message(deep) == f"p.json: nested too deeply; values nest at most 64 levels. {CORRECT}"
    text = json.dumps(document()).replace('"schema_version"', f'"unknown": {"[" * 70 + "]" * 70}, "schema_version"')
    assert message(text) == (f"p.json ['unknown']: nested too deeply; unknown fields nest at most 64 levels. {CORRECT}")


def test_a_text_over_the_size_limit_is_refused_before_parsing() -> None:
    assert message(b" " * (jsontext.MAX_BYTES + 1)) == (
        "p.json: 16,777,217 bytes; a profile document has at most 16,777,216. "
        "Check the path, or remove the file and recalibrate."
    )


def test_a_100_mb_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(UnreadableError) as caught:
        read_document(path)
    assert str(caught.value) == (
        f"{path}: 100,000,000 bytes; a profile document has at most 16,777,216. "
        "Check the path, or remove the file and recalibrate."
    )


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "read", lambda _handle, count: b" " * count)
    with pytest.raises(UnreadableError, match="more than 16,777,216 bytes"):
        read_document(path)


def test_paths_that_are_no_regular_file_are_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    server.close()
    kinds: dict[str | Path, str] = {
        tmp_path: "a directory",
        tmp_path / "fifo": "a FIFO",
        tmp_path / "socket": "a socket",
        "/dev/null": "a character device",
    }
    for path, kind in kinds.items():
        with pytest.raises(UnreadableError) as caught:
            read_document(path)
        assert str(caught.value) == (f"{path}: {kind}; a profile file is a readable regular file. Name another path.")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/absent/file.json", "No such file or directory"),
        ("/dev/null/file.json", "Not a directory"),
        ("a\0b", "embedded null byte"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_an_unreadable_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_document(path)
    assert str(caught.value).endswith(
        f": cannot be read ({reason}); a profile file is a readable regular file. Check the path and its permissions."
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_our_errors(data: bytes) -> None:
    with pytest.raises(ProfileError):
        parse_document(data, "p")


WORDS = st.sampled_from(["", "a", "é", "\ud800", "\U0001f600", "schema", "last", "\0"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)


@given(st.data())
def test_a_mutated_document_is_read_and_written_back_or_refused(data: st.DataObject) -> None:
    value = json.loads(json.dumps(document(unknown=[1])))
    spot: Any = value
    while True:
        keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        step = data.draw(st.sampled_from(keys))
        if isinstance(spot[step], dict | list) and spot[step] and data.draw(st.booleans()):
            spot = spot[step]
            continue
        if data.draw(st.booleans()):
            spot[step] = data.draw(JSON_VALUES)
        else:
            del spot[step]
        break
    try:
        found = parse_document(json.dumps(value), "p")
    except ProfileError:
        return
    assert parse_document(serialise(found), "p") == found
    assert parse_document(serialise_table(found), "p") == found


@given(st.integers(0, 26000), st.integers(0, 26000), st.binary(max_size=4))
def test_a_damaged_real_file_raises_nothing_but_our_errors(
    shared_data: Path, start: int, length: int, patch: bytes
) -> None:
    text = (shared_data / "engine" / "device_profiles.json").read_bytes()
    try:
        found = parse_document(text[:start] + patch + text[start + length % 50 :], "p")
    except ProfileError:
        return
    assert isinstance(found, Document)
