"""The committed H200 calibration, replayed: the stored profile, its evidence, the table's entry, the pages."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.reading import parse_document

from generator.__main__ import run_verb
from generator.core.derive import derive
from generator.core.evidence_file import load_evidence
from generator.core.evidence_report import MIDDLE_SHARE, efficiencies, regrets
from generator.core.stats import median
from generator.repository import find_repository, load_sources
from tests.h200_runs import HARDWARE_CLASS, PROJECTIONS, h200_files, h200_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ninfer_device_profiles.document import Profile

    from generator.core.catalog import Catalog
    from generator.core.evidence_report import Efficiency
    from tests.h200_runs import Runs

STORED_ON_THE_CARD = "6266ac116ce8bdc4258e5048b40512d66bfb91d2d28d4ef16acae4ea47732c88"
"""SHA-256 of the profile file that the calibration wrote on the machine with the H200."""


@pytest.fixture(scope="module")
def source(root: Path) -> Path:
    return h200_files(root)[0]


@pytest.fixture(scope="module")
def runs(root: Path, catalog: Catalog) -> Runs:
    return h200_runs(root, catalog)


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    """Return docs/measured.md with its lines joined."""
    return " ".join((root / "docs/measured.md").read_text().split())


@pytest.fixture(scope="module")
def replayed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    words = ("--replay", str(source), "--out", str(folder / "p.json"), "--evidence", str(folder / "e"), "--quiet")
    assert run_verb("calibrate", words, program="ninfer-calibrate") == 0
    return folder


def entry(path: Path) -> Profile:
    (profile,) = parse_document(path.read_bytes(), path.name).devices
    return profile


@pytest.fixture
def same_catalog(source: Path, catalog: Catalog) -> None:
    """Skip where the catalog has changed since the run: its digest is in both files."""
    if load_evidence(source.read_text(), source.name).catalog != catalog.digest():
        pytest.skip("the committed run is of another route catalog")


@pytest.mark.usefixtures("same_catalog")
def test_the_replay_gives_the_profile_that_was_stored_on_the_card(replayed: Path) -> None:
    assert hashlib.sha256((replayed / "p.json").read_bytes()).hexdigest() == STORED_ON_THE_CARD


@pytest.mark.usefixtures("same_catalog")
def test_the_replay_gives_the_committed_evidence_byte_for_byte(replayed: Path, source: Path) -> None:
    (written,) = (replayed / "e" / HARDWARE_CLASS).iterdir()
    assert written.name == source.name
    assert written.read_bytes() == source.read_bytes()


def test_the_table_says_of_the_h200_what_the_card_stored_but_for_keys_that_stay_compiled(
    replayed: Path, source: Path, catalog: Catalog
) -> None:
    sources = load_sources(find_repository(), catalog, dt.date(2026, 12, 1))
    devices = derive(sources, catalog, with_extras=True).document.devices
    (built_in,) = (device for device in devices if device.hardware_class == HARDWARE_CLASS)
    stored = entry(replayed / "p.json").routes
    assert len(stored) == 67
    assert built_in.routes == {key: bands for key, bands in stored.items() if any(band.schedule for band in bands)}
    assert built_in.origin == f"built in: H200 at 700 W, {source.name[:4]}-{source.name[4:6]}-{source.name[6:8]}"


def test_the_efficiency_page_is_what_the_command_prints_for_the_run(source: Path, root: Path, tmp_path: Path) -> None:
    assert run_verb("efficiency", (str(source), "--output", str(tmp_path / "page.md")), program="generator") == 0
    assert (tmp_path / "page.md").read_text() == (root / "docs/efficiency.md").read_text()


def test_the_page_tells_times_and_memory_as_the_evidence_has_them(text: str, runs: Runs) -> None:
    groups = {"44 attention keys": ("attn_",), "2 GDN keys": ("gdn_",), "21 projection keys": PROJECTIONS}
    for name, begins in groups.items():
        cells: list[str] = []
        for run in runs.all:
            seconds = [float(key.conditions["seconds"]) for key in run.keys if key.key.startswith(begins)]
            assert len(seconds) in {0, int(name.split()[0])}
            cells.append(f"{sum(seconds):.1f} s" if seconds else "")
        assert f"| {name} | {' | '.join(cells)} |".replace("|  |", "| |") in text
    most = {
        name: max(int(key.conditions[name]) for run in runs.all for key in run.keys)
        for name in ("device_mib", "worker_peak_mib")
    }
    assert f"At most {most['device_mib']} MiB of device memory and {most['worker_peak_mib']} MiB" in text


def test_the_page_tells_what_the_first_runs_profile_loses_by_the_samples_of_the_others(
    text: str, replayed: Path, runs: Runs, catalog: Catalog
) -> None:
    bands = entry(replayed / "p.json").routes
    losses: list[str] = []
    for run in (*runs.complete[1:], runs.projections):
        found = regrets(run, catalog, bands)
        shares = [item.share for item in found if item.share is not None]
        assert len(shares) == len(found) == len(run.by_point)
        losses.append(f"{sum(shares) / len(shares) * 100:.2f} % and {max(shares) * 100:.1f} %")
    second = losses[0].replace(" and ", " on average and at most ")
    assert (
        f"judged by the samples of the second, loses {second} at one point; judged by the third {losses[1]}, "
        f"by the projections' run {losses[2]} (" in text
    )


def test_the_page_tells_how_near_the_memory_floor_each_family_comes(text: str, runs: Runs) -> None:
    found = efficiencies(runs.complete[0])
    rows = {
        "`t2_i8_small`": ("t2_i8_small/",),
        "`q6_head`": ("q6_head/",),
        "`attn_i8_small`": ("attn_i8_small/",),
        "groupwise, `unified/*` included": ("q4_", "q5_", "unified/"),
        "`gdn_two_stage`": ("gdn_two_stage/",),
    }
    for name, begins in rows.items():
        items = [item for item in found if item.key.startswith(begins)]
        families: dict[str, list[float]] = {}
        for item in items:
            parts = item.key.split("/")
            families.setdefault("/".join(parts[: 1 + (parts[0] == "unified")]), []).append(item.share)
        medians = sorted(median(shares) for shares in families.values())
        middle = f"{medians[0]:.0%}" if len(medians) == 1 else f"{medians[0] * 100:.0f} to {medians[-1]:.0%} by family"
        row = f"| {name} | {max(item.share for item in items):.0%} | {middle} | {_reached(items)}"
        assert row.replace("%", " %") in text
    middle_sized = [item.best_us for item in found if item.key.startswith("t2_i8_small/") and item.aim == MIDDLE_SHARE]
    assert f"where a run at 20 to 60 MB takes {min(middle_sized):.0f} to {max(middle_sized):.0f}" in text
    reached = [item for item in found if item.aim is not None and item.share >= item.aim]
    assert f"at {_reached(found).replace('of', 'of the')} points" in text
    assert {(item.key, item.width) for item in reached} == {
        *(("t2_i8_small/248320x5120", columns) for columns in (1, 2)),
        *(("q6_head/248320x5120", columns) for columns in (1, 2)),
        ("attn_i8_small/h24/int8/w1", 262144),
    }


def _reached(items: Sequence[Efficiency]) -> str:
    aims = [item.share >= item.aim for item in items if item.aim is not None]
    return f"{sum(aims)} of {len(aims)}"


def test_the_page_tells_whose_bits_are_the_compiled_routes(text: str, runs: Runs) -> None:
    run = runs.complete[0]
    differ: dict[tuple[str, str], float] = {}
    for trial in run.trials:
        if trial.schedule and trial.differences:
            name = trial.key.rpartition("/")[0] if trial.key.startswith("unified/q5") else trial.key.partition("/")[0]
            largest = max(value for value in trial.differences.values() if value is not None)
            differ[name, trial.schedule] = max(differ.get((name, trial.schedule), 0.0), largest)
    equal: dict[str, list[str]] = {}
    for (family, schedule), largest in differ.items():
        if largest == 0:
            equal.setdefault(family, []).append(schedule)
    sentence = text[text.index("Bit for bit, in the first run:") : text.index("give the compiled route's values")]
    assert sorted(re.findall(r"`([^`]+)`", sentence)) == sorted(
        {*equal, *(schedule for schedules in equal.values() for schedule in schedules)} - {"q6_head", "on"}
    )
    assert {"q6_head", "attn_pack_gqa"} <= equal.keys()
    assert f"by at most {max(differ.values()):.4f} of the largest value" in text


def test_the_page_tells_how_the_groupwise_tiles_round(text: str, runs: Runs) -> None:
    run = runs.complete[0]
    own = {(t.key, t.width): t.errors for t in run.trials if not t.schedule and not t.twin and t.errors}
    tiles = ("mma_r64_", "grouped_", "mixed_", "pair_", "split_half_pair_")
    timed = [t for t in run.trials if t.schedule.startswith(tiles) and t.errors]
    assert {(t.width > 32, _largest(t.differences) == 0) for t in timed} == {(False, False), (True, True)}
    pairs = [(_largest(t.errors), _largest(own[t.key, t.width])) for t in timed]
    assert (
        f"up to {max(error / base for error, base in pairs):.1f} times its own, {max(e for e, _ in pairs):.4f}" in text
    )


def _largest(errors: Mapping[str, float | None]) -> float:
    return max(value for value in errors.values() if value is not None)
