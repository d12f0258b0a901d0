"""What a release says before it writes anything."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from generator.pipeline import Release, read_sources
from generator.repository import current_day, find_repository
from tests.verbs.test_diff import git

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    from tests.verbs.conftest import Result

    Command = Callable[..., Result]


@pytest.mark.parametrize("verb", ["release", "wheel"])
@pytest.mark.parametrize("missing", [("build",), ("build", "twine")])
def test_without_the_packages_that_build_nothing_is_written(
    verb: str, missing: tuple[str, ...], checkout: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name in missing else find_spec("json")

    monkeypatch.setattr("generator.wheel.find_spec", find)
    output = checkout / "dist"
    output.mkdir()
    (output / "review.md").write_text("of before")
    result = command(verb, "--output", output, "--root", checkout)
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"python -m generator {verb}: {sys.prefix}: no {' and '.join(missing)} there, expected the packages of the "
        "extra wheel; nothing was written. Use `nox -s release`, or `pip install -e builtin_profiles -e '.[wheel]'`\n"
    )
    assert [(path.name, path.read_text()) for path in output.iterdir()] == [("review.md", "of before")]


def test_a_folder_named_build_is_not_the_package(
    checkout: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "here" / "build").mkdir(parents=True)
    for name in ("build", "hatchling", "twine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "here")])
    result = command("wheel", "--output", tmp_path / "dist", "--root", checkout)
    assert f"{sys.prefix}: no build and hatchling and twine there, " in result.err
    assert not (tmp_path / "dist").exists()


def _said(checkout: Path) -> list[str]:
    said: list[str] = []
    read_sources(
        Release(
            repository=find_repository(checkout),
            output=checkout / "dist",
            today=current_day(),
            epoch=None,
            with_extras=False,
            say=said.append,
        )
    )
    return [line for line in said if line.startswith("note: ")]


def test_uncommitted_changes_of_what_is_packed_are_noted_first(checkout: Path) -> None:
    shutil.rmtree(checkout / "builtin_profiles/sources/measured", ignore_errors=True)
    assert _said(checkout) == []
    git(checkout, "init", "-q", "-b", "main")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "all")
    assert _said(checkout) == []
    (checkout / "templates/new.txt").write_text("not packed")
    assert _said(checkout) == []
    (checkout / "builtin_profiles/README.md").write_text("changed")
    tail = "; the wheel will not be that of the commit. Commit or stash that before a release"
    assert _said(checkout) == [f"note: not as committed: builtin_profiles/README.md{tail}"]
    for name in ("a b", "c", "d"):
        (checkout / f"builtin_profiles/ninfer_device_profiles/{name}.py").write_text("")
    (note,) = _said(checkout)
    assert note == (
        "note: not as committed: builtin_profiles/README.md, builtin_profiles/ninfer_device_profiles/a b.py, "
        f"builtin_profiles/ninfer_device_profiles/c.py and 1 more{tail}"
    )
