"""README and docs: every link leads somewhere, every command and code block is real."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from generator.pipeline import STAGES
from generator.verbs import verb_names

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md")), root / "builtin_profiles/README.md"]


def _sessions(root: Path) -> set[str]:
    reference = tomllib.loads((root / "builtin_profiles/reference_gpus.toml").read_text())
    cards = [card["name"] for table in ("gpu", "extra") for card in reference[table]]
    slugs = {"-".join(re.sub(r"[^a-z0-9]", " ", name.lower()).split()) for name in cards}
    plain = set(re.findall(r"@nox\.session\ndef (\w+)", (root / "noxfile.py").read_text()))
    return plain | {f"calibrate-{slug}" for slug in slugs}


def test_every_link_leads_to_a_file_of_the_project(root: Path) -> None:
    for page in _pages(root):
        for target in _LINK.findall(page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_of_docs_is_reached_from_the_readme(root: Path) -> None:
    reached, waiting = set(), [root / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        found = {
            (page.parent / target).resolve() for target in _LINK.findall(page.read_text()) if target.endswith(".md")
        }
        waiting += sorted(found - reached)
    assert set((root / "docs").glob("*.md")) <= reached


def test_the_release_page_lists_the_stages_in_order(root: Path) -> None:
    rows = re.findall(r"^\| (\w+) \|", (root / "docs/releasing.md").read_text(), re.MULTILINE)
    assert rows == ["stage", *(stage.name for stage in STAGES)]


def test_every_session_and_verb_that_a_page_names_exists(root: Path) -> None:
    sessions, verbs = _sessions(root), set(verb_names())
    examples = {"calibrate-rtx-4080-super"}  # the card that adding-a-gpu.md adds
    for page in _pages(root):
        text = page.read_text()
        assert set(re.findall(r"nox (?:--no-venv )?-s ([\w-]+)", text)) <= sessions | examples, page.name
        assert set(re.findall(r"python -m generator ([a-z-]+)", text)) <= verbs, page.name


def test_readme_code_block_gives_what_its_comment_says(root: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        *lines, last = block.strip().splitlines()
        expression, comment = last.split("#")
        scope: dict[str, object] = {}
        exec("\n".join(lines), scope)
        assert repr(eval(expression.strip(), scope)) == comment.strip()


def test_readme_shows_the_digest_of_the_committed_table(root: Path) -> None:
    import hashlib

    table = (root / "builtin_profiles/ninfer_device_profiles/device_profiles.json").read_bytes()
    assert hashlib.sha256(table).hexdigest() in (root / "README.md").read_text()


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", ".ci/run", "builtin_profiles/LICENSE"])
def test_usual_files_are_there(name: str, root: Path) -> None:
    assert (root / name).stat().st_size > 0
