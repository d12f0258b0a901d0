"""A small checkout to work on, and the command as a person runs it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A copy of the files that verbs read and write."""
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", "dist", "*.egg-info")
    shutil.copytree(root / "builtin_profiles", copy / "builtin_profiles", ignore=ignored)
    shutil.copytree(root / "templates", copy / "templates")
    shutil.copy(root / "pyproject.toml", copy)
    return copy


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``python -m generator WORDS`` in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str | Path) -> Result:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return run
