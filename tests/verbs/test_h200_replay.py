"""The committed H200 calibration, replayed: the stored profile, its evidence, the table's entry, the pages."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.reading import parse_document

from generator.__main__ import run_verb
from generator.core.derive import derive
from generator.core.evidence_file import load_evidence
from generator.core.limits import LIMITS
from generator.core.verdict import Rule, decide_points
from generator.repository import find_repository, load_sources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ninfer_device_profiles.document import Profile

    from generator.core.catalog import Catalog

CLASS = "nvidia-h200-sm90"
STORED_ON_THE_CARD = "e39ca9b3ea57aa147030c0b0665cae808e47ea46e7d639493176f46610152271"
"""SHA-256 of the profile file that the calibration wrote on the machine with the H200."""


@pytest.fixture(scope="module")
def source(root: Path) -> Path:
    (found,) = (root / "builtin_profiles/sources/measured" / CLASS).glob("*.json")
    return found


@pytest.fixture(scope="module")
def replayed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    words = ("--replay", str(source), "--out", str(folder / "p.json"), "--evidence", str(folder / "e"), "--quiet")
    assert run_verb("calibrate", words, program="ninfer-calibrate") == 0
    return folder


def entry(path: Path) -> Profile:
    (profile,) = parse_document(path.read_bytes(), path.name).devices
    return profile


def test_the_replay_gives_the_profile_that_was_stored_on_the_card(replayed: Path) -> None:
    assert hashlib.sha256((replayed / "p.json").read_bytes()).hexdigest() == STORED_ON_THE_CARD


def test_the_replay_gives_the_committed_evidence_byte_for_byte(replayed: Path, source: Path) -> None:
    (written,) = (replayed / "e" / CLASS).iterdir()
    assert written.name == source.name
    assert written.read_bytes() == source.read_bytes()


def test_the_table_says_of_the_h200_what_the_card_stored_but_for_keys_that_stay_compiled(
    replayed: Path, catalog: Catalog
) -> None:
    sources = load_sources(find_repository(), catalog, dt.date(2026, 12, 1))
    devices = derive(sources, catalog, with_extras=True).document.devices
    (built_in,) = (device for device in devices if device.hardware_class == CLASS)
    stored = entry(replayed / "p.json").routes
    assert len(stored) == 67
    assert built_in.routes == {key: bands for key, bands in stored.items() if any(band.schedule for band in bands)}
    assert built_in.origin == "built in: H200 at 700 W, 2026-11-29"


def test_the_efficiency_page_is_what_the_command_prints_for_the_run(source: Path, root: Path, tmp_path: Path) -> None:
    assert run_verb("efficiency", (str(source), "--output", str(tmp_path / "page.md")), program="generator") == 0
    assert (tmp_path / "page.md").read_text() == (root / "docs/efficiency.md").read_text()


def test_the_page_tells_times_memory_and_near_points_as_the_evidence_has_them(
    source: Path, root: Path, catalog: Catalog
) -> None:
    names = (source, *sorted((source.parent / "repeats").glob("*.json")))
    runs = [load_evidence(path.read_text(), path.name) for path in names]
    page = (root / "docs/measured.md").read_text()
    for text, begins in (("44 attention keys", ("attn_",)), ("2 GDN keys", ("gdn_",))):
        seconds = [
            sum(float(key.conditions["seconds"]) for key in run.keys if key.key.startswith(begins)) for run in runs
        ]
        assert f"| {text} | {' | '.join(f'{value:.1f} s' for value in seconds)} |" in page
    most = {
        name: max(int(key.conditions[name]) for run in runs for key in run.keys)
        for name in ("device_mib", "worker_peak_mib")
    }
    assert f"At most {most['device_mib']} MiB of device memory and {most['worker_peak_mib']} MiB" in page
    close: list[set[str]] = []
    for run in runs:
        decided = decide_points(run, catalog, LIMITS, Rule.GUARDED).values()
        small = [item for item in decided if item.key.startswith("attn_i8_small")]
        gains = {f"{p.key} {p.width}": max(r.gain for r in p.rulings if r.gain is not None) for p in small}
        close.append({point for point, gain in gains.items() if abs(gain - LIMITS.min_gain) < 0.01})
    near = set.intersection(*close)
    assert f"the best gain of {len(near)} of the {len(small)} small-T attention points" in " ".join(page.split())


def test_the_page_tells_whose_bits_are_the_compiled_routes(source: Path, root: Path) -> None:
    run = load_evidence(source.read_text(), source.name)
    page = " ".join((root / "docs/measured.md").read_text().split())
    differ: dict[tuple[str, str], float] = {}
    for trial in run.trials:
        if trial.schedule and trial.differences:
            name = trial.key.rpartition("/")[0] if trial.key.startswith("unified/q5") else trial.key.partition("/")[0]
            largest = max(value for value in trial.differences.values() if value is not None)
            differ[name, trial.schedule] = max(differ.get((name, trial.schedule), 0.0), largest)
    assert {point for point, largest in differ.items() if largest == 0} == {
        *(("attn_i8_small", tier) for tier in ("4x2x32", "4x2x32e", "8x2x32e")),
        ("attn_pack_gqa", "on"),
        ("q6_head", "gemv"),
        *(("t2_i8_small", tile) for tile in ("r16c16", "r16c8s3", "r32c8", "r32c16k8")),
    }
    assert f"by at most {max(differ.values()):.4f} of the largest value" in page
    own = {(t.key, t.width): t.errors for t in run.trials if not t.schedule and not t.twin and t.errors}
    tiles = ("mma_r64_", "grouped_", "mixed_", "pair_", "split_half_pair_")
    pairs = [
        (_largest(t.errors), _largest(own[t.key, t.width]))
        for t in run.trials
        if t.schedule.startswith(tiles) and t.errors
    ]
    assert (
        f"up to {max(error / base for error, base in pairs):.1f} times its own, {max(e for e, _ in pairs):.4f}" in page
    )


def _largest(errors: Mapping[str, float | None]) -> float:
    return max(value for value in errors.values() if value is not None)
