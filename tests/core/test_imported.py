"""Imported entries: taken whole, written canonically, refused where the catalog does not fit."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.document import Calibration, Document, Profile, serialise

from generator.core.imported import read_imported, source_name, take_entries, write_imported
from generator.errors import CatalogError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog

CLASS = "nvidia-test-sm86"


def _text(profile: Profile) -> bytes:
    return serialise(Document(devices=(profile,))).encode()


def _profile(routes: dict[str, list[tuple[int, str]]], digest: str = "") -> Profile:
    from ninfer_device_profiles.bands import Band

    block = Calibration(route_catalog=digest, ninfer_build="v1") if digest else None
    bands = {key: tuple(Band(*pair) for pair in value) for key, value in routes.items()}
    return Profile(hardware_class=CLASS, multiprocessors=3, origin="o", routes=bands, calibration=block)


def test_real_files_survive_writing_and_reading(shared_data: Path, catalog: Catalog) -> None:
    for name in ("engine/device_profiles.json", "profiles/rtx3060-calibrated.json"):
        content = (shared_data / name).read_bytes()
        taken, _ = take_entries(content, name, hashlib.sha256(content).hexdigest(), catalog)
        for item in taken:
            text = write_imported(item)
            assert read_imported(text.encode(), "x") == item
            assert write_imported(read_imported(text.encode(), "x")) == text


def test_committed_sources_are_canonical(root: Path) -> None:
    files = sorted((root / "builtin_profiles/sources/imported").glob("*.json"))
    assert files
    for path in files:
        item = read_imported(path.read_bytes(), path.name)
        assert write_imported(item).encode() == path.read_bytes()
        assert path.name == source_name(item.profile.hardware_class, item.profile.multiprocessors)


def test_schedule_beyond_its_legal_widths_is_noted(catalog: Catalog) -> None:
    text = _text(_profile({"q6_head/248320x5120": [(2, "gemv"), (28, "small_t"), (32, "gemv")]}))
    _, notes = take_entries(text, "f.json", "0", catalog)
    assert notes == [
        (
            f"{CLASS} q6_head/248320x5120: 'gemv' at widths 29 to 32 reaches beyond its legal widths; the engine "
            "ignores it there"
        )
    ]


def test_entry_of_another_catalog_is_refused_with_both_digests(catalog: Catalog) -> None:
    with pytest.raises(SourceError) as caught:
        take_entries(_text(_profile({}, "33f546be871d5bec")), "f.json", "0", catalog)
    assert str(caught.value) == (
        "f.json ['nvidia-test-sm86']: measured against route catalog '33f546be871d5bec' by build 'v1'; this catalog is "
        "'ac2d7b3e311831b0'. Measure again with a build of this catalog."
    )


def test_unknown_schedule_is_refused_with_the_candidates(catalog: Catalog) -> None:
    with pytest.raises(SourceError) as caught:
        take_entries(_text(_profile({"attn_pv_f16": [(1, "yes")]})), "f.json", "0", catalog)
    assert str(caught.value) == (
        "f.json ['nvidia-test-sm86'] ['routes'] ['attn_pv_f16']: schedule 'yes'; expected one of ['on'] or ''"
    )


def test_unknown_key_is_refused(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"^f.json \['nvidia-[a-z0-9-]*'\]: route key 'nope': not among the 87 keys"):
        take_entries(_text(_profile({"nope": [(1, "on")]})), "f.json", "0", catalog)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "nvidia-<script>-sm86", "NVIDIA-sm86", "nvidia-test", "", "a/b-sm8"]
)
def test_class_that_cannot_name_a_file_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="expected a class of lower-case words"):
        source_name(name, 1)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"format": "x"}',
        b"[" * 100_000,
        json.dumps({"format": "ninfer-profile-generator.imported-entry", "version": 1}).encode(),
        json.dumps(
            {
                "format": "ninfer-profile-generator.imported-entry",
                "version": 1,
                "taken_from": {"file": "f", "sha256": "s"},
            }
        ).encode(),
    ],
)
def test_broken_source_is_one_clear_error(text: bytes) -> None:
    with pytest.raises(SourceError, match=r"^source\.json"):
        read_imported(text, "source.json")
