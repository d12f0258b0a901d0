"""The committed H200 runs: whole, reproducible without a GPU, and as the docs report them."""

from __future__ import annotations

import datetime as dt
import re
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from generator.core.cause import Cause
from generator.core.derive import derive
from generator.core.evidence import Outcome, complete_keys
from generator.core.evidence_file import dump_evidence, load_evidence
from generator.core.evidence_report import flips, settled_changes
from generator.core.limits import LIMITS
from generator.core.route import COMPILED
from generator.core.routing import DeviceId
from generator.core.stats import gain
from generator.core.support import derived_supports
from generator.core.verdict import Rule, decide_points, false_switches, pooled_time
from generator.repository import find_repository, load_sources
from tests.h200_runs import PROJECTIONS, h200_files, h200_runs

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence
    from generator.core.evidence_report import Flip
    from generator.core.route import Schedule
    from tests.h200_runs import Runs

PROJECTION_CELLS = 344


@pytest.fixture(scope="module")
def runs(root: Path, catalog: Catalog) -> Runs:
    return h200_runs(root, catalog)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/measured.md").read_text()


@pytest.fixture(scope="module")
def pairs(runs: Runs, catalog: Catalog) -> dict[tuple[str, str], tuple[Flip, ...]]:
    """Return the flips under rule guarded of each two runs, the earlier first."""
    dated = sorted(runs.named.items(), key=lambda item: str(item[1].run["date"]))
    return {
        (one, other): flips(first, second, catalog, LIMITS, Rule.GUARDED)[0]
        for (one, first), (other, second) in combinations(dated, 2)
    }


def test_files_are_canonical_and_named_on_the_page(root: Path, page: str) -> None:
    files = h200_files(root)
    assert len(files) == 4
    for path in files:
        assert dump_evidence(load_evidence(path.read_text(), path.name)) == path.read_text()
        assert path.name in page


def test_runs_are_of_one_board_and_one_build(runs: Runs, page: str) -> None:
    assert len({run.device.uuid_hash for run in runs.all}) == 1
    (build,) = {str(run.run["ninfer_build"]) for run in runs.all}
    assert f"commit `{build}`" in " ".join(page.split())
    assert len({facts.kernels for run in runs.all for facts in run.keys if facts.key == "q6_head/248320x5120"}) == 1


def test_three_runs_hold_every_calibrated_key_and_one_every_projection_key(runs: Runs, catalog: Catalog) -> None:
    keys = set(complete_keys(runs.complete[0], catalog))
    assert [set(complete_keys(run, catalog)) for run in runs.complete] == [keys] * 3
    if runs.complete[0].catalog == catalog.digest():
        assert keys == {route.key for route in catalog.calibrated}
    projections = {key for key in keys if key.startswith(PROJECTIONS)}
    assert set(complete_keys(runs.projections, catalog)) == projections
    assert len(runs.projections.by_point) == PROJECTION_CELLS


def test_no_time_is_below_its_floor_and_no_output_is_far_off(runs: Runs) -> None:
    for trial in (trial for run in runs.all for trial in run.trials if trial.outcome is Outcome.TIMED):
        assert min(trial.first_us) >= (trial.floor_us or 0.0) * LIMITS.floor_share
        assert all(value is not None and value <= LIMITS.max_mismatch for value in trial.differences.values())
        assert all(value is not None and value <= LIMITS.max_mismatch for value in trial.errors.values())


def test_flips_of_every_pair_are_as_the_page_reports_them(
    page: str, runs: Runs, pairs: dict[tuple[str, str], tuple[Flip, ...]], catalog: Catalog
) -> None:
    assert len(pairs) == 6
    for (one, other), found in pairs.items():
        first, second = runs.named[one], runs.named[other]
        projections = [flip for flip in found if flip.key.startswith(PROJECTIONS)]
        engine, cells = flips(first, second, catalog, LIMITS, Rule.ENGINE)
        settled = settled_changes(first, second, catalog, LIMITS)
        every = "" if "projections" in {one, other} else _share(len(found), cells)
        row = f"| {one}, {other} | {every} | {_share(len(projections), PROJECTION_CELLS)} | "
        row += f"{_share(len(engine), cells)} | {settled} |"
        assert row.replace("|  |", "| |") in page


def test_nothing_changes_where_a_run_is_decided_over_another_ones_choices(runs: Runs, catalog: Catalog) -> None:
    for first, second in combinations(runs.all, 2):
        assert settled_changes(first, second, catalog, LIMITS) == 0
        assert settled_changes(second, first, catalog, LIMITS) == 0


def test_the_page_counts_the_aims_missed_by_runs_decided_afresh(
    page: str, pairs: dict[tuple[str, str], tuple[Flip, ...]], runs: Runs
) -> None:
    numbers = {2: "two", 3: "three"}
    missed = [
        names
        for names, found in pairs.items()
        if sum(flip.key.startswith(PROJECTIONS) for flip in found) > PROJECTION_CELLS * 0.01
    ]
    whole = [found for names, found in pairs.items() if "projections" not in names]
    over = [found for found in whole if len(found) > len(runs.complete[0].by_point) * 0.01]
    text = " ".join(page.split())
    assert f"{numbers[len(missed)]} of the six pairs miss the aim of 1 % for the projection keys" in text
    assert len(over) == len(whole)
    assert f"all {numbers[len(over)]} complete pairs miss it over all keys" in text


def test_causes_of_the_flips_are_as_the_page_reports_them(
    page: str, runs: Runs, pairs: dict[tuple[str, str], tuple[Flip, ...]]
) -> None:
    found = [flip for flips in pairs.values() for flip in flips]
    assert {flip.cause.cause for flip in found} == {Cause.TIE}
    cells = {(flip.key, flip.width) for flip in found}
    text = " ".join(page.split())
    assert f"all {len(found)}, in {len(cells)} cells, are ties" in text
    gains: list[float] = []
    apart: list[float] = []
    for names, flips_of_pair in pairs.items():
        for flip in flips_of_pair:
            to_compiled = not (flip.first and flip.second)
            base = COMPILED if to_compiled else flip.first
            rival = (flip.first or flip.second) if to_compiled else flip.second
            leads = [_lead(runs.named[name], flip, rival, base) for name in names]
            (gains if to_compiled else apart).extend(leads)
    assert f"{len(apart) // 2} exchange two schedules within {max(map(abs, apart)) * 100:.1f} %" in text
    assert f"{len(gains) // 2} the compiled route and a gain" in text
    assert f"at the 3 % margin ({min(gains) * 100:.1f} to {max(gains) * 100:.1f} %)" in text


def test_the_page_counts_the_points_near_the_margin(page: str, runs: Runs, catalog: Catalog) -> None:
    close: list[set[tuple[str, int]]] = []
    for run in runs.complete:
        decided = decide_points(run, catalog, LIMITS, Rule.GUARDED).values()
        gains = {
            (p.key, p.width): max((r.gain for r in p.rulings if r.gain is not None), default=-1.0) for p in decided
        }
        close.append({point for point, best in gains.items() if abs(best - LIMITS.min_gain) < 0.01})
    near = set.intersection(*close)
    small = [point for point in runs.complete[0].by_point if point[0].startswith("attn_i8_small")]
    part = sum(key.startswith("attn_i8_small") for key, _ in near)
    text = " ".join(page.split())
    assert (
        f"the best gain of {part} of the {len(small)} small-T attention points lies within 0.01 of the margin" in text
    )
    assert f"and so does that of {len(near)} of all {len(runs.complete[0].by_point)}" in text


def test_twins_are_as_the_page_reports_them(page: str, runs: Runs, catalog: Catalog) -> None:
    judged = [false_switches(run, catalog, LIMITS, Rule.GUARDED) for run in runs.all]
    assert judged == [(0, 492), (0, 492), (0, 492), (0, 344)]
    stored = [(run.run["twins_switched"], run.run["twins_judged"]) for run in runs.all]
    assert stored == judged
    assert re.search(r"none of 492 .* none of 344 in the run of the projections", " ".join(page.split()))


def _share(count: int, cells: int) -> str:
    return f"{count} ({count / cells:.2%})".replace("%", " %")


def _lead(run: Evidence, flip: Flip, rival: Schedule, base: Schedule) -> float:
    """Return what ``rival`` gains over ``base`` in both passes of ``run`` at the flipped cell."""
    trials = {trial.schedule: trial for trial in run.by_point[flip.key, flip.width] if not trial.twin}
    return gain(pooled_time(trials[rival]), pooled_time(trials[base]))


def test_the_review_says_which_choices_give_the_compiled_routes_bits(root: Path, catalog: Catalog) -> None:
    sources = load_sources(find_repository(root), catalog, dt.date(2026, 12, 1))
    supports = derived_supports(derive(sources, catalog, with_extras=True), sources)
    device = DeviceId("nvidia-h200-sm90", 132)
    short, long = supports[device, "attn_i8_small/h24/int8/w4"]
    assert short.schedule == "8x2x32qe"
    assert short.difference == pytest.approx(0.0009615)
    assert (long.schedule, long.difference) == ("4x2x32", 0.0)
    (stages,) = supports[device, "gdn_two_stage/h48"]
    assert stages.difference == pytest.approx(0.005556)
    compiled = [
        span for (place, _), spans in supports.items() if place == device for span in spans if not span.schedule
    ]
    assert compiled
    assert all(span.difference is None for span in compiled)
