"""A small checkout to work on, and the command as a person runs it."""

from __future__ import annotations

import re
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


FIRST_CARDS = {
    "RTX 3090": "gpu",
    "RTX 4090": "gpu",
    "RTX 5090": "gpu",
    "RTX PRO 6000 Blackwell Workstation Edition": "gpu",
    "RTX PRO 6000 Blackwell Max-Q Workstation Edition": "gpu",
    "RTX PRO 6000 Blackwell Server Edition": "gpu",
    "Tesla V100-SXM2-16GB": "gpu",
    "RTX 3060": "extra",
    "H200": "extra",
}


@pytest.fixture
def first_cards(checkout: Path) -> Path:
    """The copy with the first nine cards alone, the last two as extras, whatever the list says today."""
    path = checkout / "builtin_profiles/reference_gpus.toml"
    blocks = re.split(r"^\[\[\w+\]\]\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    cards = {re.findall(r'^name = "(.*)"$', block, re.MULTILINE)[0]: block for block in blocks}
    text = "".join(f"[[{kind}]]\n{cards[name]}" for name, kind in FIRST_CARDS.items())
    path.write_text(text, encoding="utf-8")
    return checkout


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``python -m generator WORDS`` in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str | Path) -> Result:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return run
