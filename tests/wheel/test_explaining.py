"""Explaining, shadowing, linting, checking: what they find, as values."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles import embedded
from ninfer_device_profiles.bands import Band, Bands, layer_bands, schedule_at
from ninfer_device_profiles.checking import Check, check_package
from ninfer_device_profiles.document import Calibration, Document, Profile, parse_document
from ninfer_device_profiles.embedded import CatalogCandidate, CatalogKey, EmbeddedCatalog, catalog_digest
from ninfer_device_profiles.explaining import LayerAnswer, Ruling, explain
from ninfer_device_profiles.finding import Found, Note, NoteKind
from ninfer_device_profiles.linting import Rule, Severity, lint_document
from ninfer_device_profiles.overrides import Overrides
from ninfer_device_profiles.shadowing import NearMiss, Shadow, Span, differences, shadow_report

if TYPE_CHECKING:
    from pathlib import Path


def bands(*pairs: tuple[int, str]) -> Bands:
    return tuple(Band(*pair) for pair in pairs)


HEAD = CatalogKey(
    key="q6_head/248320x5120",
    candidates=(CatalogCandidate(schedule="gemv", max_width=2), CatalogCandidate(schedule="small_t", max_width=32)),
)
SWITCH = CatalogKey(
    key="unified/q4_linear_swiglu",
    candidates=(CatalogCandidate(schedule="unified"),),
    acts_under=("q4_linear_swiglu/34816x17408x5120", "small_t_tiled"),
)
CATALOG = EmbeddedCatalog(digest=catalog_digest([HEAD, SWITCH]), keys={HEAD.key: HEAD, SWITCH.key: SWITCH})
FREE = EmbeddedCatalog(
    digest=CATALOG.digest,
    keys={HEAD.key: CatalogKey(key=HEAD.key, candidates=tuple(CatalogCandidate(schedule=name) for name in "ab"))},
)
BLOCK = Calibration(route_catalog=CATALOG.digest, ninfer_build="b")


def entry(origin: str, sms: int = 8, block: Calibration | None = BLOCK, **routes: Bands) -> Profile:
    named = {key.replace("head", HEAD.key).replace("switch", SWITCH.key): value for key, value in routes.items()}
    return Profile(hardware_class="c-sm86", multiprocessors=sms, origin=origin, calibration=block, routes=named)


FOUND = Found(
    profile=None,
    measured=entry("calibration", head=bands((2, "gemv"), (8, "small_t"))),
    builtin=entry("built in", block=None, head=bands((4, "small_t"), (64, "small_t")), switch=bands((8, "unified"))),
)
COMPILED = LayerAnswer(layer="compiled route", schedule="", first=None, last=None, reason="answers where no layer does")


def test_every_layer_says_what_it_would_and_the_highest_answers() -> None:
    found = explain(HEAD.key, 8, FOUND, catalog=CATALOG, overrides=Overrides())
    assert (found.schedule, found.answered_by) == ("small_t", "profile file")
    assert found.layers == (
        LayerAnswer(layer="profile file", schedule="small_t", first=3, last=8, reason="calibration"),
        LayerAnswer(layer="built-in table", schedule="small_t", first=5, last=64, reason="built in"),
        COMPILED,
    )


def test_past_the_files_last_band_the_builtin_table_answers() -> None:
    found = explain(HEAD.key, 9, FOUND, catalog=CATALOG, overrides=Overrides())
    assert (found.named, found.answered_by) == ("small_t", "built-in table")
    assert found.layers[0] == LayerAnswer(
        layer="profile file", schedule=None, first=None, last=None, reason="its last band ends at 8"
    )


def test_a_schedule_past_its_legal_width_does_not_act() -> None:
    found = explain(HEAD.key, 33, FOUND, catalog=CATALOG, overrides=Overrides())
    assert (found.named, found.schedule) == ("small_t", "")
    assert found.reason == "'small_t' is legal up to width 32: the engine ignores it at 33"


def test_a_schedule_that_is_no_candidate_does_not_act() -> None:
    odd = Found(profile=None, measured=entry("hand", head=bands((8, "off")), other=bands((8, "x"))))
    found = explain(HEAD.key, 8, odd, catalog=CATALOG, overrides=Overrides())
    assert (found.named, found.schedule) == ("off", "")
    assert found.reason == "'off' is no candidate of the key: the engine ignores it"
    unknown = explain("other", 8, odd, catalog=CATALOG, overrides=Overrides())
    assert unknown.reason == "the catalog of this package does not know the key; the engine may ignore it"


def test_past_every_band_the_compiled_route_answers() -> None:
    found = explain(HEAD.key, 65, FOUND, catalog=CATALOG, overrides=Overrides())
    assert (found.named, found.schedule, found.answered_by) == ("", "", "compiled route")


def test_the_note_says_why_the_file_says_nothing() -> None:
    ignored = Found(profile=None, notes=(Note(kind=NoteKind.SKIPPED, text="device profile file skipped: x"),))
    found = explain(HEAD.key, 1, ignored, catalog=CATALOG, overrides=Overrides())
    assert [item.reason for item in found.layers] == [
        "device profile file skipped: x",
        "the built-in table has no entry of this device",
        "answers where no layer does",
    ]


def test_an_override_that_decides_is_what_answers() -> None:
    legacy = Overrides.from_environment({"NINFER_LINEAR_ROUTES": "legacy"})
    found = explain(SWITCH.key, 8, FOUND, catalog=CATALOG, overrides=legacy)
    assert (found.named, found.schedule, found.answered_by) == ("unified", "", "NINFER_LINEAR_ROUTES")
    assert found.rulings == (Ruling(operation="unified route", outcome="off", by="NINFER_LINEAR_ROUTES"),)
    assert found.remarks == ("acts only while q4_linear_swiglu/34816x17408x5120 runs small_t_tiled",)


@pytest.mark.parametrize(
    ("key", "remark"),
    [
        ("q5_linear_add/5120x6144", "asked only where unified/q5_linear_add/5120x6144 leaves the choice open"),
        ("unified/q4_linear_add", "asked only where q4_linear_add/5120x6144 leaves the choice open"),
        (
            "attn_i8_small/h24/int8/w1",
            "the width is the captured window: the largest number of keys the launch may see",
        ),
        ("t2_i8_small/5120x6144", "asked once per launch of at most 32 columns, with that launch's columns"),
    ],
)
def test_a_remark_says_when_the_key_is_asked(key: str, remark: str) -> None:
    assert explain(key, 1, Found(profile=None), catalog=CATALOG, overrides=Overrides()).remarks[-1] == remark


@pytest.mark.parametrize(
    ("key", "environment", "outcomes"),
    [
        ("attn_pv_f16", {"NINFER_SMALLT_PV_F16": "1"}, ["on NINFER_SMALLT_PV_F16", "off compiled route"]),
        ("attn_pack_gqa", {"NINFER_PROMPT_PACK_GQA": "1"}, ["on NINFER_PROMPT_PACK_GQA"]),
        ("attn_prompt_fast", {"NINFER_PROMPT_FAST": "0"}, ["on --fast-prefill-kernel"]),
        ("attn_parallel_tiles", {"NINFER_ATTN_PARALLEL_TILES": "1"}, ["on NINFER_ATTN_PARALLEL_TILES"]),
        ("gdn_two_stage/h48", {"NINFER_GDN_TWO_STAGE": "1"}, ["on NINFER_GDN_TWO_STAGE"]),
        ("t2_i8_route", {"NINFER_T2_I8_SMALL": "off"}, ["tile NINFER_T2_I8_SMALL"]),
        ("t2_i8_small/5120x6144", {}, []),
    ],
)
def test_every_key_with_an_override_shows_it(key: str, environment: dict[str, str], outcomes: list[str]) -> None:
    overrides = Overrides.from_environment(environment)
    found = explain(key, 16, Found(profile=None), catalog=CATALOG, overrides=overrides, fast_prefill_option=True)
    assert [f"{item.outcome} {item.by}" for item in found.rulings] == outcomes


BANDS = st.dictionaries(st.integers(1, 40), st.sampled_from(["", "a", "b"]), max_size=5).map(
    lambda found: tuple(Band(last, found[last]) for last in sorted(found))
)


@given(BANDS, BANDS)
def test_differences_are_the_widths_at_which_two_layers_disagree(one: Bands, other: Bands) -> None:
    spans = differences(one, other)
    for width in range(1, 45):
        inside = [span for span in spans if span.first <= width <= span.last]
        mine, theirs = schedule_at(one, width), schedule_at(other, width)
        assert [(span.file, span.builtin) for span in inside] == ([(mine, theirs)] if mine != theirs else [])


@given(BANDS.filter(bool), BANDS.filter(bool))
def test_a_key_repeats_the_table_only_where_dropping_it_changes_nothing(upper: Bands, lower: Bands) -> None:
    report = shadow_report([entry("file", head=upper)], [entry("base", head=lower)], source="p", catalog=FREE)[0]
    joined = layer_bands(upper, lower)
    same = all(schedule_at(joined, width) == schedule_at(lower, width) for width in range(1, 45))
    assert (report.keys[0].shadow is Shadow.REPEATS) is same


def test_a_shadow_report_names_what_hides_repeats_adds_and_nearly_matches() -> None:
    file = [
        entry("file", head=bands((4, "gemv"), (8, "small_t")), switch=bands((8, "unified")), new=bands((3, "x"))),
        entry("never reached"),
        entry("stale", sms=9, block=Calibration(route_catalog="0" * 16, ninfer_build="old")),
    ]
    base = [
        entry("base", head=bands((8, "small_t"), (32, "gemv")), switch=bands((8, "unified"))),
        Profile(hardware_class="c-sm89", multiprocessors=8),
    ]
    first, second, third = shadow_report(file, base, source="p.json", catalog=CATALOG)
    assert {item.key: item.shadow for item in first.keys} == {
        HEAD.key: Shadow.HIDES,
        SWITCH.key: Shadow.REPEATS,
        "new": Shadow.ADDS,
    }
    assert first.keys[0].spans == (
        Span(first=1, last=2, file="gemv", builtin="small_t"),
        Span(first=3, last=4, file="", builtin="small_t"),
    )
    assert first.keys[0].seam == 8
    assert first.ignored == ""
    assert second.ignored == "an earlier entry (c-sm86, 8 SMs) matches the device first"
    assert third.ignored.startswith("p.json: the entry of c-sm86 was measured against route catalog 0000000000000000")
    assert first.near == (
        NearMiss(
            layer="profile file", hardware_class="c-sm86", multiprocessors=9, why="same class, 9 SMs instead of 8"
        ),
        NearMiss(
            layer="built-in table",
            hardware_class="c-sm89",
            multiprocessors=8,
            why="same name, other capability than c-sm86",
        ),
    )


def test_a_schedule_that_the_engine_ignores_hides_nothing() -> None:
    file = [entry("file", head=bands((28, ""), (32, "gemv")))]
    base = [entry("base", head=bands((64, "off")))]
    assert shadow_report(file, base, source="p", catalog=CATALOG)[0].keys[0].shadow is Shadow.REPEATS


def test_lint_finds_what_the_engine_reads_without_a_word() -> None:
    text = json.dumps(
        {
            "schema": "ninfer.device-route-profiles",
            "schema_version": 2,
            "devices": [
                {
                    "hardware_class": "c",
                    "multiprocessors": 8.5,
                    "calibration": {"route_catalog": "0" * 16, "cuda_driver": True},
                    "routes": {HEAD.key: [[1, "gemv"], [4, "gemv"], [8, "off"]], "odd": [[1, "x"]]},
                },
                {"hardware_class": "c", "origin": "o", "routes": {}},
                {"hardware_class": "c", "multiprocessors": 8, "origin": "o", "routes": {}},
                {
                    "hardware_class": "d",
                    "multiprocessors": 8,
                    "origin": "o",
                    "calibration": {"route_catalog": CATALOG.digest},
                    "routes": {HEAD.key: [[2, "gemv"]]},
                },
            ],
        }
    )
    found = lint_document(parse_document(text, "p"), CATALOG, raw=json.loads(text))
    head = f"['devices'][0]['routes']['{HEAD.key}']"
    assert [f"{item.severity} {item.where}: {item.text}" for item in found] == [
        "warning ['devices'][0]['multiprocessors']: 8.5 is read as 8; write an integer",
        "warning ['devices'][0]['calibration']['cuda_driver']: True is read as 1; write an integer",
        "note ['devices'][0]['origin']: absent; the engine shows the file's path instead",
        (
            "warning ['devices'][0]['calibration']['route_catalog']: 0000000000000000 was measured by build unknown; "
            f"a build with catalog {CATALOG.digest} ignores the entry"
        ),
        f"warning {head}[1]: 'gemv' is legal up to width 2; the engine ignores it from 3 to 4",
        f"note {head}[1]: says 'gemv' as the band before it; the two are one",
        f"warning {head}[2]: 'off' is no candidate of {HEAD.key}; the engine ignores it",
        (f"warning ['devices'][0]['routes']['odd']: no key of catalog {CATALOG.digest}; the engine never asks for it"),
        "warning ['devices'][1]['multiprocessors']: 0 or absent stands for any SM count",
        "warning ['devices'][1]['calibration']: absent; the engine ignores an entry of a profile file without it",
        "warning ['devices'][2]: never used: ['devices'][0] matches c with 8 SMs first",
        "warning ['devices'][2]['calibration']: absent; the engine ignores an entry of a profile file without it",
        (
            "note ['devices'][3]['routes']: names 1 of 2 calibrated keys; "
            "the engine counts the device as calibrated all the same"
        ),
    ]
    assert {item.rule for item in found} == set(Rule)
    assert {item.severity for item in found} == set(Severity)


def test_the_engines_table_has_one_band_past_its_legal_width(package: Path) -> None:
    found = lint_document(embedded.load_table(package), embedded.load_catalog(package), builtin=True)
    assert [f"{item.where}: {item.text}" for item in found if item.severity is Severity.WARNING] == [
        (
            "['devices'][5]['routes']['t2_i8_small/5120x17408'][1]: 'r16c8s3' is legal up to width 8; "
            "the engine ignores it from 13 to 14"
        )
    ]


def failing(folder: Path) -> dict[str, str]:
    return {check.name: check.found for check in check_package(folder) if not check.holds}


def test_a_sound_package_holds(package: Path) -> None:
    assert failing(package) == {}
    assert Check(name="entries, by class and SM count", holds=True, found="6 of 6 found") in check_package(package)


def test_the_installed_package_holds() -> None:
    assert [check for check in check_package() if not check.holds] == []


def test_a_changed_table_is_found_out(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    shutil.copytree(package, folder)
    table = folder / embedded.TABLE
    text = table.read_text(encoding="utf-8").replace('"8x2x32q"', '"8x2x32z"', 1)
    table.write_text(text, encoding="utf-8", newline="\n")
    found = failing(folder)
    assert set(found) == {"device_profiles.json, SHA-256", "schedules, in the catalog"}
    assert found["schedules, in the catalog"] == (
        "['devices'][0]['routes']['attn_i8_small/h24/int8/w3'][0]: '8x2x32z' is no candidate of "
        "attn_i8_small/h24/int8/w3; the engine ignores it"
    )
    table.write_text(text.replace('"multiprocessors": 82', '"multiprocessors": 0').replace("    ", "\t"), newline="\n")
    assert {"table layout", "entries, by class and SM count"} <= set(failing(folder))
    table.write_text("{")
    assert set(failing(folder)) == {"table", "device_profiles.json, SHA-256"}
    table.unlink()
    assert set(failing(folder)) == {"table"}


def test_a_catalog_of_another_build_is_found_out(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    shutil.copytree(package, folder)
    (folder / embedded.CATALOG).write_text(embedded.render_catalog([HEAD]), newline="\n")
    assert {
        "catalog.json, SHA-256",
        "catalog digest, in build info",
        "schedules, in the catalog",
    } == set(failing(folder))
    other = embedded.render_catalog([HEAD]).replace('"gemv"', '"gemw"')
    (folder / embedded.CATALOG).write_text(other, newline="\n")
    assert "catalog digest, recomputed" in failing(folder)


def test_an_empty_document_has_no_findings() -> None:
    assert lint_document(Document(), CATALOG) == ()
