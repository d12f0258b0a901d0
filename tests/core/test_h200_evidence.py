"""The committed H200 runs: whole, reproducible without a GPU, and as the docs report them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from generator.core.derive import derive
from generator.core.evidence import Outcome, complete_keys
from generator.core.evidence_file import dump_evidence, load_evidence
from generator.core.evidence_report import settled_changes
from generator.core.limits import LIMITS
from generator.core.routing import DeviceId
from generator.core.support import derived_supports
from generator.core.verdict import Rule, decide_points, false_switches
from generator.repository import find_repository, load_sources

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence


@pytest.fixture(scope="module")
def files(root: Path) -> tuple[Path, ...]:
    """Return the source of the table's entry, then the further runs of the same board by date."""
    folder = root / "builtin_profiles/sources/measured/nvidia-h200-sm90"
    (source,) = folder.glob("*.json")
    return (source, *sorted((folder / "repeats").glob("*.json")))


@pytest.fixture(scope="module")
def runs(files: tuple[Path, ...]) -> tuple[Evidence, ...]:
    return tuple(load_evidence(path.read_text(), path.name) for path in files)


def test_files_are_canonical(files: tuple[Path, ...], runs: tuple[Evidence, ...]) -> None:
    assert len(files) == 3
    for path, run in zip(files, runs, strict=True):
        assert dump_evidence(run) == path.read_text()


def test_runs_are_of_one_board_and_one_build(runs: tuple[Evidence, ...]) -> None:
    assert len({run.device.uuid_hash for run in runs}) == 1
    assert len({run.run["ninfer_build"] for run in runs}) == 1
    assert len({facts.kernels for run in runs for facts in run.keys if facts.key == "q6_head/248320x5120"}) == 1


def test_every_calibrated_key_is_whole_in_every_run(runs: tuple[Evidence, ...], catalog: Catalog) -> None:
    keys = {route.key for route in catalog.calibrated}
    assert all(set(complete_keys(run, catalog)) == keys for run in runs)


def test_no_time_is_below_its_floor_and_no_output_is_far_off(runs: tuple[Evidence, ...]) -> None:
    for trial in (trial for run in runs for trial in run.trials if trial.outcome is Outcome.TIMED):
        assert min(trial.first_us) >= (trial.floor_us or 0.0) * LIMITS.floor_share
        assert all(value is not None and value <= LIMITS.max_mismatch for value in trial.differences.values())
        assert all(value is not None and value <= LIMITS.max_mismatch for value in trial.errors.values())


def test_flips_and_twins_are_as_the_page_reports_them(root: Path, runs: tuple[Evidence, ...], catalog: Catalog) -> None:
    page = (root / "docs/measured.md").read_text()
    decided = [decide_points(run, catalog, LIMITS, Rule.GUARDED) for run in runs]
    for names, one, other in (("first, second", 0, 1), ("first, third", 0, 2), ("second, third", 1, 2)):
        flips = [point for point in decided[one] if decided[one][point].schedule != decided[other][point].schedule]
        projections = [key for key, _ in flips if not key.startswith(("attn", "gdn"))]
        share, part = len(flips) / len(decided[one]), len(projections) / 344
        settled = settled_changes(runs[one], runs[other], catalog, LIMITS)
        cells = (f"| {names} | {len(flips)} ({share:.2%}) | {len(projections)} ({part:.2%}) |", f"| {settled} ")
        (row,) = (line for line in page.splitlines() if line.startswith(cells[0].replace("%", " %")))
        assert row.endswith(f"{cells[1]}({settled / len(decided[one]):.2%}) |".replace("%", " %"))
        assert settled <= len(decided[one]) * 0.01
    assert [false_switches(run, catalog, LIMITS, Rule.GUARDED) for run in runs] == [(0, 492), (0, 492), (1, 492)]


def test_the_review_says_which_choices_give_the_compiled_routes_bits(root: Path, catalog: Catalog) -> None:
    sources = load_sources(find_repository(root), catalog, dt.date(2026, 12, 1))
    supports = derived_supports(derive(sources, catalog, with_extras=True), sources)
    device = DeviceId("nvidia-h200-sm90", 132)
    (early,) = (span for span in supports[device, "attn_i8_small/h24/rk8v4/w1"] if span.schedule)
    assert (early.schedule, early.difference) == ("4x2x32e", 0.0)
    (stages,) = supports[device, "gdn_two_stage/h48"]
    assert stages.difference == pytest.approx(0.005556)
    compiled = [
        span for (place, _), spans in supports.items() if place == device for span in spans if not span.schedule
    ]
    assert compiled
    assert all(span.difference is None for span in compiled)
