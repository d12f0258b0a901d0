"""Two commands at once, as real processes: what one would write over is held by the other, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from generator.core.rounds import Table, parse_device
from generator.core.route import CatalogDigest
from generator.errors import InUseError
from generator.files import held
from generator.journal import Header, Journal
from generator.round_store import load_round_files
from tests.core.bench_outputs import outputs_of
from tests.core.toy import DEVICE

if TYPE_CHECKING:
    from pathlib import Path

HEADER = Header(catalog=CatalogDigest("c" * 16), device=DEVICE, rule={"name": "engine"}, run={"date": "today"})
HOLDING = """
import sys, time
from pathlib import Path
from generator.journal import Journal
with Journal(Path(sys.argv[1])).held():
    print("held", flush=True)
    time.sleep(60)
"""
BOARD = "nvidia-geforce-rtx-5090-sm120/170"


def python(root: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "builtin_profiles")))}
    return subprocess.Popen(
        [sys.executable, *words], cwd=root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_a_second_run_on_one_board_is_refused_and_a_killed_one_leaves_no_lock(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "journals" / "card.jsonl"
    other = python(root, "-c", HOLDING, str(path))
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InUseError) as caught, Journal(path).held():
            pass
        assert str(caught.value) == (
            f"{path}: another run on this device holds it (lock {path}.lock); expected one at a time. Wait for it or "
            "end it, then repeat the command; the system frees the lock of a command that was killed"
        )
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with Journal(path).held():
        Journal(path).start(HEADER)
    with Journal(path).held():
        assert Journal(path).resume(HEADER) == ({}, {"date": "today"})


def test_one_waits_for_the_other_as_long_as_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rounds"
    with held(path, "the first"), pytest.raises(InUseError) as caught, held(path, "the first", wait_s=0.05):
        pass
    assert str(caught.value) == (
        f"{path}: the first holds it for 0.05 s (lock {path}.lock); expected one at a time. Wait for it or end it, "
        "then repeat the command; the system frees the lock of a command that was killed"
    )


def test_two_imports_at_once_add_up(root: Path, checkout: Path, tmp_path: Path) -> None:
    measured = checkout / "builtin_profiles/sources/measured"
    rounds = measured / BOARD.partition("/")[0] / "rounds"
    commands = []
    for table in Table:
        prefix = "unified/bf16_linear_add"
        outputs = outputs_of(parse_device(BOARD), 1, table, lambda *_: 1000.0, prefix)
        for name, text in outputs.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        files = [str(tmp_path / name) for name in outputs]
        words = ["--device", BOARD, "--round", "1", "--table", table.value, "--root", str(checkout), "--json"]
        commands.append(["-m", "generator", "bench-unified", "import", *words, *files])
    with held(rounds, "this test"):
        both = [python(root, *words) for words in commands]
        for process in both:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.2)
        assert not rounds.exists()
    found = []
    for process in both:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        found.append(json.loads(out)["rounds"][0])
    assert [row["state"] for row in found] == ["written", "written"]
    (file,) = load_round_files(measured)
    assert file.round.conditions.keys() == set(Table)
    assert len(file.round.times) == max(row["times"] for row in found) == 2 * min(row["times"] for row in found)
