"""The command itself: what it says where it cannot even start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from generator.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_environment_without_the_packages_is_one_line_with_the_way_out(root: Path) -> None:
    words = [sys.executable, "-S", "-m", "generator", "diff"]
    done = subprocess.run(words, cwd=root, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"python -m generator: {sys.executable} has no module '")
    assert done.stderr.endswith(
        "expected this project's packages. In the checkout, run `.venv/bin/pip install -e builtin_profiles -e .` and "
        "use .venv/bin/python\n"
    )


def test_help_says_what_the_command_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "Measure, decide, review and emit device route profiles.\n" in out
    assert "3 a gate said no" in out
