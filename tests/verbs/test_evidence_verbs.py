"""The verbs that report over evidence: efficiency, flips, verify."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import run_verb
from generator.core.evidence import Outcome
from generator.core.evidence_file import dump_evidence
from tests.catalog_now import POINTS
from tests.verbs.made_up import made_up_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog


@pytest.fixture(scope="module")
def files(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("evidence")
    for seed in (0, 1):
        (folder / f"{seed}.json").write_text(dump_evidence(made_up_evidence(catalog, seed)))
    return folder / "0.json", folder / "1.json"


def test_two_runs_of_one_board_agree(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = map(str, files)
    assert run_verb("flips", [first, second, "--most", "0.01"], program="flips") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# Two runs on NVIDIA Toy"
    assert lines[4] == f"0 of {POINTS} cells differ (0.00%). Hidden twins switched: 0 of {2 * POINTS}."


def test_too_many_flips_are_exit_3(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(files[1].read_text())
    for trial in data["trials"]:
        if trial["key"] == "attn_prompt_fast" and trial["schedule"]:
            trial["first_us"] = [10 * time for time in trial["first_us"]]
            trial["second_us"] = [[10 * time for time in samples] for samples in trial.get("second_us", [])]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data))
    assert run_verb("flips", [str(files[0]), str(other), "--most", "0"], program="flips") == 3
    assert capsys.readouterr().err == f"flips: 1 of {POINTS} cells differ, allowed are 0.00%; measure an idle device\n"


def test_a_diff_with_the_evidence_of_both_sides_names_the_cause(
    catalog: Catalog, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made_up_evidence(catalog)
    trials = tuple(
        replace(item, outcome=Outcome.REFUSED, reason="output differs", first_us=(), second_us=())
        if (item.key, item.width, item.schedule) == ("t2_i8_small/5120x6144", 4, "r16c8s3")
        else item
        for item in first.trials
    )
    refused = tmp_path / "refused.json"
    refused.write_text(dump_evidence(replace(first, trials=trials)))
    for name, evidence in (("old", files[0]), ("new", refused)):
        words = ["--replay", str(evidence), "--out", str(tmp_path / f"{name}-profile.json"), "--quiet"]
        assert run_verb("calibrate", words, program="c") == 0
    words = [str(tmp_path / f"{name}-profile.json") for name in ("old", "new")]
    capsys.readouterr()
    assert run_verb("diff", [*words, "--json", "--evidence", str(files[0]), str(refused)], program="diff") == 0
    changes = [item for item in json.loads(capsys.readouterr().out)["changes"] if item["acts_differently"]]
    assert [(item["key"], item["cause"]) for item in changes] == [
        ("t2_i8_small/5120x6144", "refused for output: r16c8s3 in the new run: output differs")
    ]


def test_reports_as_json_hold_every_point(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, table = str(files[0]), str(tmp_path / "profiles.json")
    assert run_verb("calibrate", ["--replay", file, "--out", table, "--quiet"], program="c") == 0
    capsys.readouterr()
    assert run_verb("flips", [file, str(files[1]), "--json"], program="flips") == 0
    assert json.loads(capsys.readouterr().out) == {
        "cells": POINTS,
        "flips": [],
        "rule": "guarded",
        "settled_changes": 0,
    }
    assert run_verb("verify", ["--replay", file, "--table", table, "--json"], program="verify") == 0
    points = json.loads(capsys.readouterr().out)
    assert len(points) == POINTS
    assert set(points[0]) == {"key", "width", "chosen", "fastest", "chosen_us", "fastest_us", "loss"}
    assert run_verb("efficiency", [file, "--json"], program="efficiency") == 0
    assert isinstance(json.loads(capsys.readouterr().out), list)


def test_runs_of_two_cards_are_not_compared(
    catalog: Catalog, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, other = made_up_evidence(catalog), tmp_path / "other.json"
    other.write_text(dump_evidence(replace(first, device=replace(first.device, multiprocessors=8))))
    assert run_verb("flips", [str(files[0]), str(other)], program="flips") == 2
    assert capsys.readouterr().err == (
        f"flips: {other}: of nvidia-toy-sm90 with 8 SMs, {files[0]} is of nvidia-toy-sm90 with 4; "
        "compare two runs on one card\n"
    )


def test_verify_reports_the_loss_of_each_choice(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, table = str(files[0]), str(tmp_path / "profiles.json")
    assert run_verb("calibrate", ["--replay", file, "--out", table, "--quiet"], program="c") == 0
    capsys.readouterr()
    assert run_verb("verify", ["--replay", file, "--table", table, "--most", "0.01"], program="verify") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"# Regret of {table} on NVIDIA Toy"
    assert lines[2].startswith(f"{POINTS} points; mean loss 0.")
    assert lines[3:] == [""]  # no row: no choice loses more than --least


def test_verify_without_an_entry_of_the_device_says_which_it_looked_for(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb("verify", ["--replay", str(files[0])], program="verify") == 1
    assert capsys.readouterr().err == (
        "verify: the built-in table: no entry of 'nvidia-toy-sm90' with 4 SMs; "
        "name a document that has one with --table\n"
    )


def test_efficiency_goes_to_a_file(files: tuple[Path, Path], tmp_path: Path) -> None:
    report = tmp_path / "efficiency.md"
    assert run_verb("efficiency", [str(files[0]), "--output", str(report)], program="efficiency") == 0
    assert report.read_text().startswith("# Efficiency on NVIDIA Toy\n")
