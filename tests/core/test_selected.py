"""Rounds as a source of the table, and what they do to keys that calibration measures."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import MAX_LAST, Band
from ninfer_device_profiles.document import Profile

from generator.core.cases import Expected, Grid
from generator.core.derive import derive
from generator.core.diff import Support
from generator.core.imported import Imported
from generator.core.reference import ReferenceGpu
from generator.core.rounds import Case, Table
from generator.core.route import Group, HardwareClass, RouteKey
from generator.core.selected import RoundFile, rounds_present, selected_sources
from generator.core.sources import Kind, Selected, Sources
from generator.core.support import derived_supports
from tests.core.unified_rounds import CASES, DEVICE, KEY, both, make_round, times_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog

Q5 = RouteKey("unified/q5_linear_add/5120x6144")
Q5_CASES = {Q5: (Expected(case=Case("5120x6144", "q5")),)}
TIMES = {**both(16, 100, 90), **both(20, 100, 90)}
CARD = ReferenceGpu(
    name="RTX 3090",
    device_name="NVIDIA GeForce RTX 3090",
    capability=86,
    hardware_class=HardwareClass(DEVICE.hardware_class),
    multiprocessors=DEVICE.multiprocessors,
    power_limit_w=350,
    families=(Group.GROUPWISE,),
    cuda=13,
    extra=False,
)


def _files(times: dict[tuple[Case, int], tuple[float, float]], key: RouteKey = KEY) -> list[RoundFile]:
    return [
        RoundFile(make_round(number, times_of(times, key)), f"round-{number}.json", str(number) * 64)
        for number in (1, 2)
    ]


def test_a_selection_names_both_rounds_and_their_digests_whatever_their_order() -> None:
    files = _files(TIMES)
    (selected,) = selected_sources(reversed(files), CASES)
    assert dict(selected.gains) == pytest.approx({(KEY, 16): 0.1, (KEY, 20): 0.1})
    assert replace(selected, gains={}) == Selected(
        device=DEVICE,
        file="round-1.json, round-2.json",
        sha256=hashlib.sha256(f"{'1' * 64}\n{'2' * 64}\n".encode()).hexdigest(),
        date="2026-09-27",
        routes={KEY: (Band(15, ""), Band(20, "unified"))},
    )


def test_a_device_whose_rounds_decide_nothing_is_no_source() -> None:
    assert selected_sources(_files(TIMES)[:1], CASES) == ()


def test_a_grid_of_the_class_is_used() -> None:
    grids = {HardwareClass(DEVICE.hardware_class): Grid(widths=(16,))}
    (selected,) = selected_sources(_files(TIMES), CASES, grids=grids)
    assert selected.routes == {KEY: ()}


def _sources(files: list[RoundFile], cases: Mapping[RouteKey, tuple[Expected, ...]]) -> Sources:
    routes = {
        str(KEY): (Band(4, "unified"),),
        str(Q5): (Band(32, ""), Band(64, "unified")),
    }
    profile = Profile(hardware_class=DEVICE.hardware_class, multiprocessors=82, origin="hand", routes=routes)
    return Sources(
        reference=(CARD,),
        imported=(Imported(profile=profile, file="engine.json", sha256="0" * 64),),
        selected=selected_sources(files, cases),
    )


def _derived(
    catalog: Catalog, files: list[RoundFile], cases: Mapping[RouteKey, tuple[Expected, ...]]
) -> dict[str, object]:
    answers = derive(_sources(files, cases), catalog).answers[DEVICE]
    return {key: (answer.kind, answer.bands) for key, answer in answers.items()}


def test_a_review_names_the_rule_the_rounds_and_the_weakest_gain(catalog: Catalog) -> None:
    sources = _sources(_files({**both(16, 100, 90), **both(20, 100, 80)}), CASES)
    supports = derived_supports(derive(sources, catalog), sources)
    told = {key: found for (_, key), found in supports.items()}
    files = "round-1.json, round-2.json"
    assert [support[:5] for support in told[KEY]] == [
        (1, 15, "", "selected from two rounds", files),
        (16, 20, "unified", "selected from two rounds", files),
    ]
    assert [support.gain for support in told[KEY]] == [None, pytest.approx(0.1)]


def test_a_key_that_the_rounds_found_best_compiled_is_decided_and_not_lost(catalog: Catalog) -> None:
    sources = _sources(_files({**both(16, 100, 100), **both(20, 100, 100)}), CASES)
    derivation = derive(sources, catalog)
    told = {key: found for (_, key), found in derived_supports(derivation, sources).items()}
    assert told[KEY] == (Support(1, MAX_LAST, "", "selected from two rounds", "round-1.json, round-2.json"),)
    assert KEY not in derivation.document.devices[0].routes


def test_selected_bands_replace_imported_ones_of_a_key_that_benchmarks_decide(catalog: Catalog) -> None:
    answers = _derived(catalog, _files(TIMES), CASES)
    assert answers[KEY] == (Kind.SELECTED, (Band(15, ""), Band(20, "unified")))


def test_selected_bands_lie_under_the_entry_of_a_calibrated_key(catalog: Catalog) -> None:
    case = Q5_CASES[Q5][0].case
    times = {(case, width): (100.0, 90.0) for width in (16, 32, 96, 128)}
    answers = _derived(catalog, _files(times, Q5), Q5_CASES)
    assert answers[Q5] == (Kind.IMPORTED, (Band(32, ""), Band(128, "unified")))


def test_undecided_keys_keep_what_was_imported(catalog: Catalog) -> None:
    assert _derived(catalog, _files(TIMES)[:1], CASES)[KEY] == (Kind.IMPORTED, (Band(4, "unified"),))


def test_a_round_counts_for_a_key_once_both_tables_have_a_time() -> None:
    one, two = (file.round for file in _files(TIMES))
    half = replace(two, times=tuple(time for time in two.times if time.table is Table.LEGACY))
    assert rounds_present((one, two)) == {DEVICE: {KEY: 2}}
    assert rounds_present((one, half)) == {DEVICE: {KEY: 1}}
    assert rounds_present((half,)) == {DEVICE: {}}
