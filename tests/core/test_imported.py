"""Imported entries: taken whole, written canonically, refused where the catalog does not fit."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Document, Profile, serialise

from generator.core.imported import Imported, read_imported, source_name, take_entries, write_imported
from generator.core.route import COMPILED, RouteKey, Schedule
from generator.errors import CatalogError, SourceError
from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog

CLASS = "nvidia-test-sm86"


def _text(profile: Profile) -> bytes:
    return serialise(Document(devices=(profile,))).encode()


def _profile(routes: dict[str, list[tuple[int, str]]], digest: str = "") -> Profile:
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
        f"'{DIGEST}'. Measure again with a build of this catalog."
    )


def test_unknown_schedule_is_refused_with_the_candidates(catalog: Catalog) -> None:
    with pytest.raises(SourceError) as caught:
        take_entries(_text(_profile({"attn_pv_f16": [(1, "yes")]})), "f.json", "0", catalog)
    assert str(caught.value) == (
        "f.json ['nvidia-test-sm86'] ['routes'] ['attn_pv_f16']: schedule 'yes'; expected one of ['on'] or ''"
    )


def test_unknown_key_is_refused(catalog: Catalog) -> None:
    found = rf"^f.json \['nvidia-[a-z0-9-]*'\]: route key 'nope': not among the {len(catalog.routes)} keys"
    with pytest.raises(CatalogError, match=found):
        take_entries(_text(_profile({"nope": [(1, "on")]})), "f.json", "0", catalog)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "nvidia-<script>-sm86", "NVIDIA-sm86", "nvidia-test", "", "a/b-sm8"]
)
def test_class_that_cannot_name_a_file_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="expected a class of lower-case words"):
        source_name(name, 1)


SOURCE = write_imported(
    Imported(
        profile=Profile(
            hardware_class=CLASS,
            multiprocessors=3,
            origin="the engine",
            routes={
                RouteKey("attn_pv_f16"): (Band(1, Schedule("on")),),
                RouteKey("attn_pack_gqa"): (Band(1, COMPILED),),
            },
        ),
        file="engine.json",
        sha256="0" * 64,
    )
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"attn_pv_f16": [[1, "on"]]', '"attn_pv_f16": [[1, ""]]'),
        ('"attn_pack_gqa": [[1, ""]],', ""),
        ('"routes": {', '"routes": {"attn_prompt_fast": [[1, "on"]],'),
        ('"multiprocessors": 3', '"multiprocessors": 4'),
        ('"origin": "the engine"', '"origin": "the engine ", "note": "mine"'),
        ('"file": "engine.json"', '"file": "other.json"'),
        ('"sha256": "0', '"sha256": "1'),
        ('"digest": "', '"digest": "0'),
    ],
)
def test_a_change_by_hand_anywhere_is_refused(old: str, new: str) -> None:
    text = SOURCE.replace(old, new)
    assert text != SOURCE
    with pytest.raises(
        SourceError, match=r"^source\.json: edited by hand: its content has the digest '[0-9a-f]{64}', "
    ):
        read_imported(text.encode(), "source.json")


def test_an_edited_source_is_told_how_the_change_is_taken_over() -> None:
    text = SOURCE.replace('[[1, "on"]]', '[[1, ""]]')
    changed = "".join(line for line in text.splitlines(keepends=True) if '"digest"' not in line)
    before = "".join(line for line in SOURCE.splitlines(keepends=True) if '"digest"' not in line)
    with pytest.raises(SourceError) as caught:
        read_imported(text.encode(), "source.json")
    assert str(caught.value) == (
        f"source.json: edited by hand: its content has the digest {hashlib.sha256(changed.encode()).hexdigest()!r}, "
        f"expected {hashlib.sha256(before.encode()).hexdigest()!r}, that of the import. Import the document that has "
        "the change (`python -m generator import FILE`), decide the key in sources/overrides.toml, or restore the file"
    )


def test_layout_and_order_are_no_change() -> None:
    data = json.loads(SOURCE)
    shuffled = dict(reversed(data.items())) | {"routes": dict(reversed(data["routes"].items()))}
    for text in (json.dumps(shuffled, indent=4), SOURCE.replace("\n", "\r\n"), "\ufeff" + SOURCE):
        assert write_imported(read_imported(text.encode(), "source.json")) == SOURCE


@pytest.mark.parametrize("digest", [None, 1, "", [], {"a": 1}])
def test_a_source_without_its_digest_is_refused(digest: object) -> None:
    data = json.loads(SOURCE) | {"digest": digest}
    with pytest.raises(SourceError, match=r"^source\.json: edited by hand: "):
        read_imported(json.dumps(data).encode(), "source.json")


def test_an_entry_with_a_field_that_a_source_needs_is_refused(catalog: Catalog) -> None:
    text = serialise(Document(devices=(_profile({}),))).replace('"routes"', '"digest": 1, "version": 2, "routes"')
    with pytest.raises(SourceError) as caught:
        take_entries(text.encode(), "f.json", "0", catalog)
    assert str(caught.value) == (
        "f.json ['nvidia-test-sm86']: has the unknown fields ['version', 'digest'], whose names a source needs itself; "
        "expected other names. Rename or remove them there"
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"format": "x"}',
        b"[" * 100_000,
        json.dumps({"format": "ninfer-profile-generator.imported-entry", "version": 2}).encode(),
        json.dumps(
            {
                "format": "ninfer-profile-generator.imported-entry",
                "version": 2,
                "taken_from": {"file": "f", "sha256": "s"},
            }
        ).encode(),
    ],
)
def test_broken_source_is_one_clear_error(text: bytes) -> None:
    with pytest.raises(SourceError, match=r"^source\.json"):
        read_imported(text, "source.json")
