"""The worked example of docs/unified-rule.md is what the commands print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import run_verb

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A checkout that holds the example's rounds and nothing else."""
    name = "builtin_profiles/reference_gpus.toml"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes((root / name).read_bytes())
    manifest = root / "docs" / "unified-rule" / "rounds.toml"
    words = ["import", "--manifest", str(manifest), "--root", str(tmp_path)]
    assert run_verb("bench-unified", words, program="bench-unified") == 0
    return tmp_path


def _printed_on_the_page(root: Path, command: str) -> str:
    page = (root / "docs" / "unified-rule.md").read_text(encoding="utf-8")
    found = re.search(
        rf"\$ python -m generator {re.escape(command)}\n(.*?)(?:```|^\$ )", page, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def test_the_page_shows_what_the_import_prints(root: Path, capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    name = "docs/unified-rule/rounds.toml"
    assert checkout.is_dir()
    assert capsys.readouterr().out == _printed_on_the_page(root, f"bench-unified import --manifest {name}")


@pytest.mark.parametrize("command", ["select", "select --what-if tick_us=0"])
def test_the_page_shows_what_the_command_prints(
    root: Path, checkout: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    capsys.readouterr()
    verb, *words = command.split()
    assert run_verb(verb, [*words, "--root", str(checkout)], program=verb) == 0
    assert capsys.readouterr().out == _printed_on_the_page(root, command)


def test_the_page_shows_the_picture_that_the_command_draws(root: Path, checkout: Path) -> None:
    folder = checkout / "pictures"
    assert run_verb("select", ["--picture", str(folder), "--root", str(checkout)], program="select") == 0
    (drawn,) = folder.iterdir()
    shown = root / "docs" / "unified-rule" / "fp8_linear_add.svg"
    assert drawn.read_text(encoding="utf-8") == shown.read_text(encoding="utf-8")
