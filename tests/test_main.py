"""The command itself: verbs, help, exit codes, and what it says where it cannot even start."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import main
from generator.verbs import load_verb, verb_names

if TYPE_CHECKING:
    from pathlib import Path

EXIT_CODES = "exit codes: 0 done, 1 failed, 2 usage, 3 a gate said no"


def test_an_environment_without_the_packages_is_one_line_with_the_way_out(root: Path) -> None:
    words = [sys.executable, "-S", "-m", "generator", "diff"]
    done = subprocess.run(words, cwd=root, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"python -m generator: {sys.executable} has no module '")
    assert done.stderr.endswith(
        "expected this project's packages. In the checkout, run `.venv/bin/pip install -e builtin_profiles -e .` and "
        "use .venv/bin/python\n"
    )


def test_help_names_every_verb_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in verb_names():
        assert f"\n  {name:14} {(load_verb(name).__doc__ or '').splitlines()[0]}\n" in text
    assert text.endswith(f"\n{EXIT_CODES}\n")


@pytest.mark.parametrize("verb", verb_names())
def test_each_verb_explains_itself_and_its_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: python -m generator {verb} ")
    assert text.endswith(f"\n{EXIT_CODES}\n")


@pytest.mark.parametrize("words", [[], ["nothing"], ["plan", "--nothing"]])
def test_words_that_do_not_fit_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("usage: python -m generator ")
