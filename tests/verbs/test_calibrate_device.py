"""The verb calibrate over a made-up device: interrupted, resumed, refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import pytest
from ninfer_device_profiles.reading import parse_document

from generator.__main__ import run_verb
from generator.core.evidence_file import load_evidence
from generator.errors import DeviceError
from generator.journal import Journal
from tests.core.fake_bench import FakeBench, Truth

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import Scalar

KEY = "q4_linear_add/5120x17408"


class MadeUpRun:
    """A device run without a device; class attributes say what goes wrong."""

    fail_at: tuple[str, int] | None = None
    refused: frozenset[tuple[str, str]] = frozenset()
    busy = ""
    seed = 0
    truth: Truth | None = None
    folder: Path

    def __init__(self, _families: str, _index: int, _limits: object, catalog: Catalog, **_: object) -> None:
        self.bench = FakeBench(
            catalog, self.truth or {}, seed=self.seed, spread=0.01, fail_at=self.fail_at, refused=self.refused
        )
        self.journal = Journal(self.folder / "journals" / "toy.jsonl")
        self.capability = 90

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def refuse_other_card(self) -> None:
        """Accept any."""

    def occupants(self, *, allow: bool) -> str:
        if self.busy and not allow:
            raise DeviceError(self.busy)
        return self.busy

    def start(self) -> None:
        """Start."""

    def opening(self, _work: object) -> str:
        return "the opening line"

    def prepare(self, _work: object, _note: object) -> None:
        """Prepare."""

    def run_facts(self, _now: dt.datetime, busy: str) -> dict[str, Scalar]:
        return {"date": "2026-11-29T23:00:00Z", "ninfer_build": "x", **({"busy": busy} if busy else {})}


@pytest.fixture(autouse=True)
def _device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MadeUpRun, "folder", tmp_path, raising=False)
    monkeypatch.setattr("generator.verbs.calibrate.DeviceRun", MadeUpRun)
    monkeypatch.setattr("sys.argv", ["/bin/ninfer-calibrate", "--only", "q4_linear_add"])


def calibrate(out: Path, *words: str) -> int:
    return run_verb("calibrate", ["--only", "q4_linear_add", "--out", str(out), *words], program="ninfer-calibrate")


def test_an_interrupted_run_prints_the_command_that_resumes_it_to_the_same_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert calibrate(tmp_path / "a.json", "--evidence", str(whole), "--quiet") == 0
    monkeypatch.setattr(MadeUpRun, "fail_at", (KEY, 8))
    capsys.readouterr()
    assert calibrate(tmp_path / "b.json", "--evidence", str(resumed)) == 130
    journal = tmp_path / "journals" / "toy.jsonl"
    assert capsys.readouterr().err.splitlines()[-3:] == [
        f"stopped; finished keys are in {journal}",
        "resume: ninfer-calibrate --only q4_linear_add --resume",
        "ninfer-calibrate: interrupted",
    ]
    assert not (tmp_path / "b.json").exists()
    monkeypatch.setattr(MadeUpRun, "fail_at", None)
    assert calibrate(tmp_path / "b.json", "--evidence", str(resumed), "--resume", "--quiet") == 0
    assert not journal.exists()
    first, second = (load_evidence(next(folder.glob("*/*.json")).read_text(), "e") for folder in (whole, resumed))
    assert second.trials == first.trials
    assert second.run == {**first.run, "resumed": True}
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_a_resumption_that_would_lose_finished_keys_is_refused_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, journal = tmp_path / "p.json", tmp_path / "journals" / "toy.jsonl"
    monkeypatch.setattr(MadeUpRun, "fail_at", (KEY, 8))
    assert calibrate(out, "--quiet") == 130
    before = journal.read_bytes()
    monkeypatch.setattr(MadeUpRun, "fail_at", None)
    capsys.readouterr()
    assert calibrate(out, "--resume", "--only", KEY, "--quiet") == 1
    assert capsys.readouterr().err == (
        f"ninfer-calibrate: {journal}: holds finished keys that this selection leaves out and would lose (1, "
        "'q4_linear_add/5120x6144' first); expected the selection that the run began with. Repeat its --only and "
        "--no-..., or run without --resume to start anew\n"
    )
    assert journal.read_bytes() == before
    assert calibrate(out, "--resume", "--quiet") == 0


def test_runs_over_the_stored_entry_change_no_tie_and_say_what_they_found_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ties: Truth = {(KEY, width, "small_t_c8"): 97.0 for width in range(1, 9)}
    monkeypatch.setattr(MadeUpRun, "truth", ties)
    stored: list[object] = []
    alone: list[object] = []
    for seed in range(4):
        monkeypatch.setattr(MadeUpRun, "seed", seed)
        for out, words, found in ((tmp_path / "p.json", (), stored), (tmp_path / f"{seed}.json", ("--afresh",), alone)):
            evidence = tmp_path / f"e{seed}{len(words)}"
            assert calibrate(out, "--evidence", str(evidence), *words) == 0
            (entry,) = parse_document(out.read_bytes(), "p").devices
            found.append(entry.routes)
            (path,) = evidence.glob("*/*.json")
            marked = sum(trial.earlier for trial in load_evidence(path.read_text(), "e").trials)
            assert (marked > 0) == (seed > 0 and not words)
            assert ("stored entry: choices known: " in capsys.readouterr().err) == (marked > 0)
    assert all(routes == stored[0] for routes in stored)
    assert any(routes != alone[0] for routes in alone)


@pytest.mark.parametrize(
    "bands",
    [
        [[4, "small_t_c8"]],  # ends before the measured widths
        [[64, "small_t_c8"]],  # illegal past 8
        [[32, "gone"]],
        [[8, "small_t_c32"], [32, "small_t_c16"]],  # slower than the winner, no faster than compiled
        [[32, ""]],
    ],
)
@pytest.mark.parametrize("us", [90.0, 100.0])
def test_a_clear_measurement_decides_whatever_the_stored_entry_names(
    us: float, bands: list[list[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, alone = tmp_path / "p.json", tmp_path / "alone.json"
    monkeypatch.setattr(MadeUpRun, "truth", {(KEY, width, "small_t_c8"): us for width in range(1, 9)})
    assert calibrate(alone, "--quiet") == 0
    document = json.loads(alone.read_text())
    document["devices"][0]["routes"][KEY] = bands
    document["devices"][0]["routes"]["unknown/1"] = bands
    out.write_text(json.dumps(document))
    monkeypatch.setattr(MadeUpRun, "seed", 1)
    assert calibrate(out, "--quiet") == 0
    measured, expected = (parse_document(path.read_bytes(), "p").devices[0].routes[KEY] for path in (out, alone))
    assert measured == expected


def test_a_run_that_was_begun_afresh_is_resumed_afresh_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, journal = tmp_path / "p.json", tmp_path / "journals" / "toy.jsonl"
    for begun, resumed, found, wanted in (((), ("--afresh",), False, True), (("--afresh",), (), True, False)):
        monkeypatch.setattr(MadeUpRun, "fail_at", (KEY, 8))
        assert calibrate(out, "--quiet", *begun) == 130
        monkeypatch.setattr(MadeUpRun, "fail_at", None)
        capsys.readouterr()
        assert calibrate(out, "--resume", "--quiet", *resumed) == 1
        assert f"{journal}: afresh is {found}, this run's is {wanted}; " in capsys.readouterr().err
        assert calibrate(out, "--resume", "--quiet", *begun) == 0


def test_a_busy_device_is_exit_1_and_marks_the_evidence_when_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MadeUpRun, "busy", "in use by python3")
    out = tmp_path / "p.json"
    assert calibrate(out) == 1
    assert capsys.readouterr().err == "ninfer-calibrate: in use by python3\n"
    assert calibrate(out, "--allow-busy", "--quiet", "--evidence", str(tmp_path / "e")) == 0
    (path,) = (tmp_path / "e").glob("*/*.json")
    assert load_evidence(path.read_text(), "e").run["busy"] == "in use by python3"


def test_the_first_line_says_what_will_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(tmp_path / "p.json") == 0
    assert capsys.readouterr().err.splitlines()[0] == "the opening line"


def test_a_key_whose_compiled_route_cannot_be_timed_is_not_stored_and_is_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MadeUpRun, "refused", frozenset({(KEY, "")}))
    assert calibrate(tmp_path / "p.json") == 1
    assert f"{KEY}: not stored, the compiled route could not be timed at every width" in capsys.readouterr().err


def test_a_second_run_on_the_board_is_exit_1_and_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MadeUpRun, "busy", "in use by python3")
    out, path = tmp_path / "p.json", tmp_path / "journals" / "toy.jsonl"
    with Journal(path).held():
        path.write_text("what the other run has measured\n")
        for words in (("--allow-busy",), ("--allow-busy", "--resume")):
            assert calibrate(out, *words) == 1
            assert capsys.readouterr().err == (
                f"ninfer-calibrate: {path}: another run on this device holds it (lock {path}.lock); expected one at a "
                "time. Wait for it or end it, then repeat the command; the system frees the lock of a command that was "
                "killed\n"
            )
        assert path.read_text() == "what the other run has measured\n"
    assert {item.name for item in tmp_path.rglob("*") if item.is_file()} == {"toy.jsonl", "toy.jsonl.lock"}
    assert calibrate(out, "--allow-busy", "--quiet") == 0


def test_a_run_whose_profile_cannot_be_stored_is_resumed_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, out = tmp_path / "journals" / "toy.jsonl", tmp_path / "folder"
    out.mkdir()
    assert calibrate(out, "--quiet", "--evidence", str(tmp_path / "e")) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"not stored; every key is in {journal}",
        "resume: ninfer-calibrate --only q4_linear_add --resume",
        f"ninfer-calibrate: {out}: no regular file; a profile file is one. Name another path.",
    ]
    monkeypatch.setattr(MadeUpRun, "fail_at", (KEY, 8))  # nothing is timed again
    assert calibrate(tmp_path / "p.json", "--quiet", "--resume") == 0
    assert (tmp_path / "p.json").is_file()
    assert not journal.exists()
