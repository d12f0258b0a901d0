"""Running the engine's tool: progress live, its files, and every way in which it fails. The tools here are scripts."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Document, Profile, serialise

from generator.__main__ import run_verb
from generator.core.evidence_file import load_evidence
from generator.engine import run_engine
from generator.errors import EngineError
from tests.catalog_now import DIGEST
from tests.core.engine_runs import log_of

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

PROFILE = Profile(
    hardware_class="nvidia-geforce-rtx-3060-sm86",
    multiprocessors=28,
    origin="ninfer-calibrate on NVIDIA GeForce RTX 3060",
    calibration=Calibration(route_catalog=DIGEST, ninfer_build="796f985", date="2026-10-06T13:11:18Z"),
    routes={"q6_head/248320x5120": (Band(2, "gemv"), Band(16, "small_t"), Band(32, ""))},
)


def _tool(folder: Path, body: str) -> Path:
    path = folder / "ninfer-calibrate"
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def tool(tmp_path: Path, catalog: Catalog) -> Path:
    """A script that prints what the engine's tool prints."""
    (tmp_path / "entry.json").write_text(serialise(Document(devices=(PROFILE,))), encoding="utf-8")
    (tmp_path / "log.txt").write_text("\n".join(log_of(PROFILE, catalog)) + "\n", encoding="utf-8")
    return _tool(
        tmp_path,
        f"sys.stderr.write(open({str(tmp_path / 'log.txt')!r}).read())\n"
        f"sys.stdout.write(open({str(tmp_path / 'entry.json')!r}).read())\n"
        f"open({str(tmp_path / 'words.txt')!r}, 'w').write(' '.join(sys.argv[1:]))\n",
    )


def _error(path: Path, catalog: Catalog) -> str:
    with pytest.raises(EngineError) as caught:
        run_engine(path, [], catalog, lambda _line: None)
    return str(caught.value)


def test_a_run_gives_entry_and_evidence_and_shows_every_line(tool: Path, catalog: Catalog) -> None:
    lines: list[str] = []
    done = run_engine(tool, ["--device", "1"], catalog, lines.append)
    assert done.profile == PROFILE
    assert [facts.key for facts in done.evidence.keys] == ["q6_head/248320x5120"]
    assert lines == log_of(PROFILE, catalog)
    words = (tool.parent / "words.txt").read_text(encoding="utf-8").split()
    assert words[:5] == ["--device", "1", "--print", "--detail", "--out"]
    assert len(words) == 6


def test_progress_comes_while_the_tool_runs(tmp_path: Path, catalog: Catalog) -> None:
    go = tmp_path / "go"
    body = (
        "import os, time\nprint('measuring', file=sys.stderr, flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nsys.exit(3)\n"
    )
    path = _tool(tmp_path, body)
    with pytest.raises(EngineError, match="exit status 3"):
        run_engine(path, [], catalog, lambda _line: go.touch())


def test_an_interrupted_run_ends_the_tool(tmp_path: Path, catalog: Catalog) -> None:
    body = "import time\nprint('measuring', file=sys.stderr, flush=True)\ntime.sleep(60)\n"

    def stop(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_engine(_tool(tmp_path, body), [], catalog, stop)


def test_a_tool_that_is_not_there_is_one_clear_error(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "absent"
    assert _error(path, catalog) == (
        f"{path}: No such file or directory; expected the engine's ninfer-calibrate. Give its path to --engine"
    )
    assert _error(Path("a\0b"), catalog) == (
        "a\0b: embedded null byte; expected the engine's ninfer-calibrate. Give its path to --engine"
    )
    plain = tmp_path / "plain"
    plain.write_text("", encoding="utf-8")
    assert _error(plain, catalog) == (
        f"{plain}: Permission denied; expected the engine's ninfer-calibrate. Give its path to --engine"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "print('ninfer-calibrate: no CUDA device', file=sys.stderr)\nsys.exit(1)\n",
            "exit status 1: 'ninfer-calibrate: no CUDA device'; nothing was stored. Mend that and calibrate again",
        ),
        ("sys.exit(2)\n", "exit status 2: 'nothing on stderr'; nothing was stored. Mend that and calibrate again"),
        (
            "import os\nos.kill(os.getpid(), 6)\n",
            "ended by signal 6: 'nothing on stderr'; nothing was stored. Mend that and calibrate again",
        ),
    ],
)
def test_a_tool_that_fails_is_one_clear_error(tmp_path: Path, catalog: Catalog, body: str, message: str) -> None:
    path = _tool(tmp_path, body)
    assert _error(path, catalog) == f"{path}: {message}"


def test_a_tool_that_prints_no_entry_is_one_clear_error(tmp_path: Path, catalog: Catalog) -> None:
    assert "expected one entry on stdout" in _error(_tool(tmp_path, "print('hello')\n"), catalog)
    empty = serialise(Document())
    path = _tool(tmp_path, f"sys.stdout.write({empty!r})\n")
    assert _error(path, catalog) == f"{path}: printed 0 entries; expected one. Use --print of one device"


def test_calibrate_with_the_engine_stores_the_entry_and_its_evidence(
    tool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = tmp_path / "profiles.json", tmp_path / "evidence"
    words = ["--engine", str(tool), "--out", str(out), "--evidence", str(folder), "--print", "--only", "q6_"]
    assert run_verb("calibrate", words, program="ninfer-calibrate") == 0
    printed = capsys.readouterr()
    assert "engine: q6_head/248320x5120 w=1 compiled 100.0 us -> gemv 80.0 us" in printed.err
    assert printed.err.endswith(
        f"stored 1 measured keys for nvidia-geforce-rtx-3060-sm86 (28 SMs, route catalog {DIGEST}) in {out}\n"
    )
    assert printed.out == out.read_text(encoding="utf-8")
    (path,) = folder.glob("*/*.json")
    run = load_evidence(path.read_text(encoding="utf-8"), path.name).run
    name = f"nvidia-geforce-rtx-3060-sm86/20261006T131118Z-{str(run['log_sha256'])[:8]}.json"
    assert path.relative_to(folder).as_posix() == name
    assert run["statistic"] == "median only"
    assert (tool.parent / "words.txt").read_text(encoding="utf-8").startswith("--device 0 --only q6_ --print")


def test_a_failing_engine_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, folder = tmp_path / "profiles.json", tmp_path / "evidence"
    path = _tool(tmp_path, "print('q6_head/248320x5120 w=1 compiled', file=sys.stderr)\nsys.exit(1)\n")
    words = ["--engine", str(path), "--out", str(out), "--evidence", str(folder)]
    assert run_verb("calibrate", words, program="ninfer-calibrate") == 1
    assert capsys.readouterr().err.count("Traceback") == 0
    assert not out.exists()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rule", "guarded"), "--rule beside --engine; the engine's tool has no such option"),
        (
            ("--device", "all"),
            "--device all beside --engine; the engine's tool measures one device. Name one by its index",
        ),
    ],
)
def test_options_that_the_engines_tool_lacks_are_usage_errors(
    tool: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert run_verb("calibrate", ["--engine", str(tool), *words], program="ninfer-calibrate") == 2
    assert capsys.readouterr().err == f"ninfer-calibrate: {message}\n"


def test_import_with_the_log_of_the_run_makes_evidence(
    tool: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "builtin_profiles").mkdir(parents=True)
    reference = "builtin_profiles/reference_gpus.toml"
    (checkout / reference).write_bytes((root / reference).read_bytes())
    entry, log = str(tmp_path / "entry.json"), str(tmp_path / "log.txt")
    words = [entry, "--log", log, "--root", str(checkout), "--json"]
    assert run_verb("import", words, program="import") == 0
    printed = capsys.readouterr()
    digest = hashlib.sha256(Path(log).read_bytes()).hexdigest()[:8]
    name = f"builtin_profiles/sources/measured/nvidia-geforce-rtx-3060-sm86/20261006T131118Z-{digest}-engine.json"
    assert printed.err == f"evidence of the engine's medians: {name}\n"
    assert json.loads(printed.out)[0]["keys"] == 1
    evidence = load_evidence((checkout / name).read_text(encoding="utf-8"), name)
    assert set(evidence.run) >= {"entry_sha256", "log_sha256", "statistic"}
    assert run_verb("import", [entry, entry, "--log", log, "--root", str(checkout)], program="import") == 2
    assert capsys.readouterr().err == "import: --log with 2 files; a log is of one entry. Import that one alone\n"


def test_a_tool_that_never_stops_printing_is_stopped(tmp_path: Path, catalog: Catalog) -> None:
    path = _tool(tmp_path, "while True:\n    sys.stdout.write('x' * 1000000)\n")
    assert _error(path, catalog) == (
        f"{path}: printed more than 16777216 bytes and was stopped; expected one entry on stdout. "
        "Give the engine's ninfer-calibrate to --engine"
    )
