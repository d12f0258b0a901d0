"""README and docs: every link leads somewhere, every command and code block is real."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.checking import check_package

from generator.core.derive import derive
from generator.pipeline import STAGES
from generator.repository import find_repository, load_sources
from generator.verbs import verb_names

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md")), root / "builtin_profiles/README.md"]


def _sessions(root: Path) -> set[str]:
    reference = tomllib.loads((root / "builtin_profiles/reference_gpus.toml").read_text())
    cards = [card["name"] for table in ("gpu", "extra") for card in reference.get(table, [])]
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


def _printed(root: Path, catalog: Catalog) -> dict[str, str]:
    """Return lines that a release and ``ninfer-profiles verify`` print of the committed table, by their pattern."""
    checks = check_package(root / "builtin_profiles/ninfer_device_profiles")
    assert all(check.holds for check in checks)
    lines = {rf"ok     {re.escape(check.name)}: .*": f"ok     {check.name}: {check.found}" for check in checks}
    derived = derive(load_sources(find_repository(root), catalog, dt.date(2026, 12, 1)), catalog)
    same = "devices; the committed files are what the sources give"
    lines[rf"\d+ {re.escape(same)}"] = f"{len(derived.document.devices)} {same}"
    unmeasured = "has no entry; nobody has measured it (python -m generator plan)"
    missing = [f"MISSING: {card.name} {unmeasured}" for card in derived.missing]
    lines[rf"MISSING: .* {re.escape(unmeasured)}(\n *MISSING: .*)*"] = "\n    ".join(missing)
    return lines


@pytest.mark.golden
@pytest.mark.parametrize(("name", "least"), [("README.md", 3), ("docs/library.md", 7)])
def test_excerpts_are_of_the_committed_table(
    name: str, least: int, root: Path, catalog: Catalog, request: pytest.FixtureRequest
) -> None:
    page = root / name
    text, found = page.read_text(), 0
    for pattern, line in _printed(root, catalog).items():
        text, count = re.subn(rf"(?m)^( *){pattern}$", r"\g<1>" + line.replace("\\", r"\\"), text)
        found += count
    assert found >= least
    if request.config.getoption("--golden"):
        page.write_text(text, encoding="utf-8", newline="\n")
    assert page.read_text() == text


def test_both_projects_and_the_changelog_name_one_version(root: Path) -> None:
    files = (root / "pyproject.toml", root / "builtin_profiles/pyproject.toml")
    (version,) = {tomllib.loads(path.read_text())["project"]["version"] for path in files}
    found = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert found
    assert found[1] == version


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", ".ci/run", "builtin_profiles/LICENSE"])
def test_usual_files_are_there(name: str, root: Path) -> None:
    assert (root / name).stat().st_size > 0
