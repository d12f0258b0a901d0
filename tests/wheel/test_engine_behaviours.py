"""The 21 behaviours that the engine's own test of device profiles checks (engine-profiles, section 8), in its order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles import embedded
from ninfer_device_profiles.bands import Band, Bands
from ninfer_device_profiles.document import Calibration, Document, Profile, parse_document, read_document, serialise
from ninfer_device_profiles.errors import DocumentError, OtherVersionError, StoreError
from ninfer_device_profiles.finding import Found, find_profile
from ninfer_device_profiles.layering import layer
from ninfer_device_profiles.lookup import Installation
from ninfer_device_profiles.matching import find_entry, hardware_class
from ninfer_device_profiles.store import store_profile

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = Calibration(
    route_catalog=DIGEST,
    ninfer_build="v0.12.0-41-gabcdef0",
    cuda_driver=12080,
    cuda_runtime=13010,
    date="2026-10-02T09:30:00Z",
)
SHIPPED = [
    ("NVIDIA GeForce RTX 3090", (8, 6), 82),
    ("NVIDIA GeForce RTX 4090", (8, 9), 128),
    ("NVIDIA GeForce RTX 5090", (12, 0), 170),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 188),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", (12, 0), 188),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 188),
]
RTX_3090 = "nvidia-geforce-rtx-3090-sm86"


def bands(*pairs: tuple[int, str]) -> Bands:
    return tuple(Band(*pair) for pair in pairs)


def entry(name: str = "nvidia-x-sm86", sms: int = 28, digest: str = DIGEST, **routes: Bands) -> Profile:
    return Profile(
        hardware_class=name,
        multiprocessors=sms,
        origin="calibration",
        calibration=Calibration(route_catalog=digest, ninfer_build="796f985"),
        routes=routes or {"key": bands((8, ""), (32, "a"))},
    )


@pytest.fixture
def builtin(package: Path) -> tuple[Profile, ...]:
    return embedded.load_table(package).devices


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "ninfer" / "device-profiles.json"


def find(path: Path, name: str = "nvidia-x-sm86", sms: int = 28, builtin: tuple[Profile, ...] = ()) -> Found:
    return find_profile(name, sms, path=path, builtin=builtin, catalog_digest=DIGEST)


def test_01_a_written_entry_is_read_back_with_class_sm_count_bands_and_provenance() -> None:
    written = Profile(
        hardware_class="nvidia-x-sm86",
        multiprocessors=28,
        origin="here",
        calibration=BLOCK,
        routes={"key": bands((8, ""), (32, "a")), "other": bands((2147483647, "on"))},
    )
    assert parse_document(serialise(Document(devices=(written,))), "p").devices == (written,)


def test_02_another_schema_name_is_refused_naming_the_expected_format() -> None:
    with pytest.raises(DocumentError, match=r"not a ninfer\.device-route-profiles document"):
        parse_document('{"schema": "ninfer.other", "schema_version": 2, "devices": []}', "p")


def test_03_a_version_1_document_is_refused_saying_to_recalibrate() -> None:
    with pytest.raises(OtherVersionError, match="recalibrate") as caught:
        parse_document('{"schema": "ninfer.device-route-profiles", "schema_version": 1, "devices": []}', "p")
    assert not caught.value.newer


def test_04_a_calibration_block_without_route_catalog_is_refused_naming_it() -> None:
    text = serialise(Document(devices=(entry(),))).replace('"route_catalog"', '"catalog"')
    with pytest.raises(DocumentError, match="route_catalog of 'nvidia-x-sm86': missing"):
        parse_document(text, "p")


def test_05_every_entry_of_the_builtin_table_names_its_class_and_sm_count(builtin: tuple[Profile, ...]) -> None:
    assert builtin
    assert all(item.hardware_class and item.multiprocessors > 0 for item in builtin)


def test_06_every_schedule_of_the_builtin_table_is_empty_or_a_candidate(
    builtin: tuple[Profile, ...], package: Path
) -> None:
    catalog = embedded.load_catalog(package)
    unknown = [
        (item.hardware_class, key, band)
        for item in builtin
        for key, value in item.routes.items()
        if key in catalog.keys
        for band in value
        if band.schedule and catalog.keys[key].candidate(band.schedule) is None
    ]
    assert unknown == []


def test_07_the_digest_is_16_lower_case_hexadecimal_digits(package: Path) -> None:
    assert re.fullmatch("[0-9a-f]{16}", embedded.load_catalog(package).digest)


@pytest.mark.parametrize(("name", "capability", "sms"), SHIPPED)
def test_08_the_shipped_cards_find_their_entry_without_any_file(
    builtin: tuple[Profile, ...], path: Path, name: str, capability: tuple[int, int], sms: int
) -> None:
    found = find(path, hardware_class(name, capability), sms, builtin)
    assert found.profile is not None
    assert found.profile.routes
    assert found.measured is None
    assert found.notes == ()


def test_09_layering_takes_the_uppers_keys_and_the_lowers_past_them() -> None:
    upper = entry(shared=bands((16, ""), (32, "y")), upper=bands((4, "u")), measured=bands((32, "")))
    lower = Profile(
        hardware_class="nvidia-x-sm86",
        multiprocessors=0,
        routes={
            "shared": bands((8, "x"), (64, "y"), (1024, "z")),
            "lower": bands((8, "l")),
            "measured": bands((16, "x")),
        },
    )
    joined = layer(upper, lower)
    assert joined.multiprocessors == 28
    assert joined.routes == {
        "shared": bands((16, ""), (64, "y"), (1024, "z")),
        "lower": bands((8, "l")),
        "upper": bands((4, "u")),
        "measured": bands((32, "")),
    }


def test_10_a_stored_entry_is_found_again_with_its_routes(path: Path) -> None:
    store_profile(entry(), path)
    found = find(path)
    assert found.profile == found.measured == entry()


def test_11_the_same_class_with_another_sm_count_does_not_take_the_entry(path: Path) -> None:
    store_profile(entry(), path)
    assert find(path, sms=30) == Found(profile=None)


def test_12_an_entry_of_another_catalog_is_not_applied_and_says_so_in_one_line(path: Path) -> None:
    store_profile(entry(digest="33f546be871d5bec"), path)
    found = find(path)
    assert found.profile is None
    assert [note.text for note in found.notes] == [
        (
            f"{path}: the entry of nvidia-x-sm86 was measured against route catalog 33f546be871d5bec by build 796f985; "
            f"this build has route catalog {DIGEST}, the entry is ignored. "
            "Recalibrate with ninfer-calibrate or --device-profile calibrate."
        )
    ]


def test_13_a_partial_entry_of_the_same_catalog_keeps_the_other_keys(path: Path) -> None:
    store_profile(entry(one=bands((8, "a")), two=bands((8, "b"))), path)
    stored = store_profile(entry(two=bands((4, "c"))), path).profile
    assert stored.routes == {"one": bands((8, "a")), "two": bands((4, "c"))}
    assert read_document(path).devices == (stored,)


def test_14_an_entry_of_another_catalog_is_replaced_whole(path: Path) -> None:
    store_profile(entry(digest="33f546be871d5bec", one=bands((8, "a"))), path)
    stored = store_profile(entry(two=bands((4, "c"))), path).profile
    assert stored.routes == {"two": bands((4, "c"))}
    assert read_document(path).devices == (stored,)


def test_15_a_file_entry_of_one_key_leaves_every_other_builtin_key(builtin: tuple[Profile, ...], path: Path) -> None:
    store_profile(entry(RTX_3090, 82, attn_pv_f16=bands((1, ""))), path)
    base = find_entry(builtin, RTX_3090, 82)
    found = find(path, RTX_3090, 82, builtin).profile
    assert base is not None
    assert found is not None
    assert found.routes == {**base.routes, "attn_pv_f16": bands((1, ""))}
    assert base.routes["attn_pv_f16"] != bands((1, ""))


def test_16_the_same_file_with_another_digest_leaves_the_builtin_profile(
    builtin: tuple[Profile, ...], path: Path
) -> None:
    store_profile(entry(RTX_3090, 82, "33f546be871d5bec", attn_pv_f16=bands((1, ""))), path)
    found = find(path, RTX_3090, 82, builtin)
    assert found.profile == find_entry(builtin, RTX_3090, 82)
    assert len(found.notes) == 1


def test_17_a_version_1_file_is_not_applied_and_storing_replaces_it(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": "ninfer.device-route-profiles", "schema_version": 1, "devices": []}')
    found = find(path)
    assert found.profile is None
    assert [note.text for note in found.notes] == [
        (
            f"device profile file skipped: {path}: schema_version 1 was written by an older build, "
            "or without a version; this build reads version 2 alone. "
            "Run ninfer-calibrate or --device-profile calibrate to recalibrate, "
            "which replaces the file."
        )
    ]
    store_profile(entry(), path)
    assert find(path).profile == entry()


def test_18_storing_into_a_version_3_file_is_refused(path: Path) -> None:
    path.parent.mkdir(parents=True)
    text = '{"schema": "ninfer.device-route-profiles", "schema_version": 3, "devices": []}'
    path.write_text(text)
    with pytest.raises(StoreError, match="Nothing was stored; the file is as it was"):
        store_profile(entry(), path)
    assert path.read_text() == text


def test_19_lookup_answers_by_band_and_empty_elsewhere() -> None:
    installation = Installation()
    installation.install(0, entry())
    asked = [("key", 8), ("key", 9), ("key", 32), ("key", 33), ("absent", 1)]
    assert [installation.schedule(0, *item) for item in asked] == ["", "a", "a", "", ""]


def test_20_a_forced_route_wins_and_the_profile_is_back_afterwards() -> None:
    installation = Installation()
    installation.install(0, entry())
    with installation.forced("key", "x"):
        assert installation.schedule(0, "key", 9) == "x"
    with installation.forced("key", ""):
        assert installation.schedule(0, "key", 9) == ""
    assert installation.schedule(0, "key", 9) == "a"


def test_21_removing_the_profile_restores_the_compiled_routes() -> None:
    installation = Installation()
    installation.install(0, entry())
    installation.remove(0)
    assert installation.schedule(0, "key", 9) == ""
