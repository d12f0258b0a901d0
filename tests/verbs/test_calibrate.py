"""The verb calibrate without a GPU: replays, options, exit codes, what is printed where."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.reading import parse_document

from generator.__main__ import run_verb
from generator.core.evidence_file import dump_evidence, load_evidence
from generator.device_run import refuse_overrides
from generator.errors import DeviceError
from generator.repository import find_repository, load_reference
from generator.verbs.calibrate import resume_command
from tests.catalog_now import KEYS
from tests.verbs.made_up import made_up_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence


@pytest.fixture(scope="module")
def evidence(catalog: Catalog) -> Evidence:
    return made_up_evidence(catalog)


@pytest.fixture
def file(evidence: Evidence, tmp_path: Path) -> Path:
    path = tmp_path / "evidence.json"
    path.write_text(dump_evidence(evidence))
    return path


def calibrate(*words: str) -> int:
    return run_verb("calibrate", words, program="ninfer-calibrate")


def test_a_replay_stores_the_entry_and_closes_as_the_engines_tool(
    file: Path, tmp_path: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "profiles.json"
    assert calibrate("--replay", str(file), "--out", str(out), "--print", "--quiet") == 0
    printed = capsys.readouterr()
    assert printed.err == (
        f"stored {KEYS} measured keys for nvidia-toy-sm90 (4 SMs, route catalog {catalog.digest()}) in {out}\n"
    )
    assert printed.out == out.read_text()
    (entry,) = parse_document(out.read_bytes(), "out").devices
    assert entry.origin == "ninfer-calibrate on NVIDIA Toy"
    assert entry.calibration is not None
    assert entry.calibration.date == "2026-11-29T22:00:00Z"
    assert entry.routes["attn_prompt_fast"] == ((1, "on"),)
    assert entry.routes["gdn_two_stage/h48"] == ((4096, ""), (2147483647, "on"))
    assert entry.routes["t2_i8_small/5120x6144"] == ((3, ""), (4, "r16c8s3"), (32, ""))
    assert entry.routes["attn_i8_small/h24/int8/w1"] == ((1048576, ""),)


def test_a_replay_gives_the_same_evidence_byte_for_byte(file: Path, tmp_path: Path, evidence: Evidence) -> None:
    words = ("--replay", str(file), "--out", str(tmp_path / "p.json"), "--evidence", str(tmp_path / "again"))
    assert calibrate(*words) == 0
    again = tmp_path / "again" / "nvidia-toy-sm90" / "20261129T220000Z.json"
    assert again.read_bytes() == file.read_bytes()
    assert load_evidence(again.read_text(), "again").device == evidence.device


def test_progress_lines_are_the_engines(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate("--replay", str(file), "--out", str(tmp_path / "p.json"), "--only", "attn_prompt") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"replaying 1 route key (1 point) of {file}, guarded rule; no GPU"
    assert lines[1].startswith("attn_prompt_fast w=1 compiled ")
    assert lines[1].endswith(" us")
    assert " us -> on " in lines[1]
    assert lines[2] == "calibration: 1 keys measured, 1 routed off the compiled route in 0.5 s"
    assert lines[-1].startswith("stored 1 measured keys for nvidia-toy-sm90 (4 SMs, route catalog ")
    assert any("attn_prompt_fast" in line for line in lines[4:-1])


def test_detail_reports_every_candidate(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "p.json")
    assert calibrate("--replay", str(file), "--out", out, "--only", "t2_i8_small/5120x6144", "--detail") == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("t2_i8_small/5120x6144 w=4 r16c8s3 8") and "(compiled " in line for line in lines)


def test_another_margin_decides_anew_from_the_same_samples(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    assert calibrate("--replay", str(file), "--out", str(out), "--margin", "0.45", "--quiet") == 0
    (entry,) = json.loads(out.read_text())["devices"]
    assert entry["routes"]["gdn_two_stage/h48"] == [[2147483647, ""]]
    assert entry["routes"]["attn_prompt_fast"] == [[1, "on"]]


def test_a_stored_choice_stays_inside_the_margin_unless_decided_afresh(
    evidence: Evidence, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, place = "t2_i8_small/5120x6144", ("t2_i8_small/5120x6144", 4, "r16c8s3")
    marked = [replace(t, earlier=(t.key, t.width, t.schedule) == place) for t in evidence.trials]
    file = tmp_path / "over.json"
    file.write_text(dump_evidence(replace(evidence, trials=tuple(marked))))
    routes = []
    for words in ((), ("--afresh",)):
        out = tmp_path / f"p{len(words)}.json"
        assert calibrate("--replay", str(file), "--out", str(out), "--margin", "0.25", *words) == 0
        (entry,) = json.loads(out.read_text())["devices"]
        routes.append(entry["routes"][key])
    assert routes == [[[3, ""], [4, "r16c8s3"], [32, ""]], [[32, ""]]]
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("stored entry")]
    known = "stored entry: choices known: 1; kept against this run's own, as its samples do not tell them apart:"
    assert lines == [f"{known} 1", f"{known} 0"]


def test_a_limited_replay_keeps_the_other_keys_of_the_same_catalog(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.json"
    calibrate("--replay", str(file), "--out", str(out), "--quiet")
    whole = out.read_text()
    assert calibrate("--replay", str(file), "--out", str(out), "--only", "attn_", "--quiet") == 0
    assert out.read_text() == whole


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--help",), 0), (("--unknown",), 2), (("--repeat",), 2), (("--only", "nothing"), 2), (("--device", "x"), 2)],
)
def test_exit_codes(words: tuple[str, ...], code: int, file: Path) -> None:
    replay = ("--replay", str(file)) if words[0] == "--only" else ()
    assert calibrate(*words, *replay) == code


def test_a_missing_evidence_file_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.json"
    assert calibrate("--replay", str(path)) == 1
    assert capsys.readouterr().err == f"ninfer-calibrate: {path}: not there; expected a file. Check the path\n"


def test_a_replay_of_another_cards_evidence_is_refused_where_a_card_is_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.json"
    assert calibrate("--replay", str(file), "--out", str(out), "--card", "rtx-3090") == 1
    assert capsys.readouterr().err == (
        "ninfer-calibrate: this device is nvidia-toy-sm90 with 4 SMs, expected nvidia-geforce-rtx-3090-sm86 with 82 "
        f"(RTX 3090); replay {file} without --card\n"
    )
    assert not out.exists()


@pytest.mark.parametrize("value", ["0", "1", ""])
def test_an_override_that_would_change_a_route_refuses(value: str) -> None:
    with pytest.raises(DeviceError) as caught:
        refuse_overrides({"NINFER_PROMPT_FAST": value, "NINFER_PREFILL_ALIGN": "0"})
    assert str(caught.value) == (
        f"environment: NINFER_PROMPT_FAST={value!r}; an override wins over the schedules that calibration forces, so "
        "it would measure one route twice and store it. Unset it and run again"
    )


def test_overrides_without_effect_do_not_refuse() -> None:
    refuse_overrides({"NINFER_LINEAR_ROUTES": "Unified", "NINFER_PREFILL_ALIGN": "0", "NINFER_BUILD_ID": "x"})
    with pytest.raises(DeviceError):
        refuse_overrides({"NINFER_LINEAR_ROUTES": "unified"})


def test_the_resume_command_is_the_one_typed_with_resume() -> None:
    assert resume_command(["/x/generator/__main__.py", "calibrate", "--only", "a b"]) == (
        "python -m generator calibrate --only 'a b' --resume"
    )
    assert resume_command(["/bin/ninfer-calibrate", "--resume"]) == "ninfer-calibrate --resume"


CARDS = ", ".join(sorted(card.slug for card in load_reference(find_repository())))


def no_keys(words: str) -> str:
    """Return what a selection of nothing is told."""
    return f"{words}: selects none of the {KEYS} calibrated route keys; list them with `python -m generator catalog`\n"


def _no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test where anything of a device, its packages or its driver is looked at."""

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("looked at")

    for name in ("find_spec", "Link", "refuse_busy", "Overrides"):
        monkeypatch.setattr(f"generator.device_run.{name}", touched)
    monkeypatch.setattr("generator.verbs.calibrate.run_engine", touched)


@pytest.mark.parametrize("rest", [(), ("--device", "all"), ("--engine", "tool"), ("--replay", "none.json")])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "zzz"), no_keys("--only 'zzz'")),
        (
            ("--card", "rtx-3090x"),
            f"--card 'rtx-3090x': not in builtin_profiles/reference_gpus.toml; expected one of {CARDS}\n",
        ),
        (
            ("--only", "attn", "--no-attention"),
            no_keys("--only 'attn', without attention"),
        ),
        (("--only", "zzz", "--card", "tesla-v100-sxm2-16gb"), no_keys("--only 'zzz'")),
    ],
)
def test_what_was_typed_is_judged_before_any_device(
    rest: tuple[str, ...],
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _no_device(monkeypatch)
    assert calibrate(*words, *rest) == 2
    assert capsys.readouterr().err == f"ninfer-calibrate: {message}"


def test_a_prefix_that_the_card_asked_for_does_not_measure_is_told_before_any_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_device(monkeypatch)
    assert calibrate("--only", "attn", "--card", "tesla-v100-sxm2-16gb") == 2
    assert capsys.readouterr().err == "ninfer-calibrate: " + no_keys("--only 'attn'")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--only", "zzz"), 2, no_keys("--only 'zzz'")),
        (("--table", "none.json"), 1, "none.json: not there; expected a file. Check the path\n"),
    ],
)
def test_verify_judges_what_was_typed_before_any_device(
    words: tuple[str, ...],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _no_device(monkeypatch)
    assert run_verb("verify", words, program="verify") == code
    assert capsys.readouterr().err == f"verify: {message}"


@pytest.mark.parametrize(
    ("verb", "words", "told"),
    [
        (
            "calibrate",
            ("--card", "rtx-3090"),
            "cuda13. Use `nox -s calibrate-rtx-3090`, or `pip install -e builtin_profiles -e '.[cuda13]'`",
        ),
        (
            "calibrate",
            ("--card", "tesla-v100-sxm2-16gb", "--device", "all"),
            "cuda12. Use `nox -s calibrate-tesla-v100-sxm2-16gb`, or `pip install -e builtin_profiles -e '.[cuda12]'`",
        ),
        ("verify", (), "cuda13 (cuda12 for a Tesla V100). Use `pip install -e builtin_profiles -e '.[cuda13]'`"),
    ],
)
def test_without_cupy_the_session_of_the_card_and_verb_is_named(
    verb: str,
    words: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("generator.device_run.find_spec", lambda _name: None)
    for name in ("NINFER_PROMPT_FAST", "NINFER_LINEAR_ROUTES"):
        monkeypatch.delenv(name, raising=False)
    assert run_verb(verb, words, program=verb) == 1
    assert capsys.readouterr().err == (
        f"{verb}: {sys.prefix}: CuPy is not installed there, expected the packages of the extra {told}\n"
    )


@pytest.mark.parametrize("words", [(), ("--device", "all")])
def test_an_environment_without_cupy_is_told_which_extra_it_lacks(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generator.device_run.find_spec", lambda _name: None)
    for name in ("NINFER_PROMPT_FAST", "NINFER_LINEAR_ROUTES"):
        monkeypatch.delenv(name, raising=False)
    assert calibrate(*words) == 1
    assert capsys.readouterr().err == (
        f"ninfer-calibrate: {sys.prefix}: CuPy is not installed there, expected the packages of the extra cuda13 "
        "(cuda12 for a Tesla V100). Use `nox -s calibrate`, or `pip install -e builtin_profiles -e '.[cuda13]'`\n"
    )
