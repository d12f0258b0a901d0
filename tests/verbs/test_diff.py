"""The verb: what OLD and NEW may be, what it prints, and when the gate says no."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band

from generator.core.imported import read_imported, write_imported
from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Result

    Command = Callable[..., Result]

TABLE = "builtin_profiles/ninfer_device_profiles/device_profiles.json"
LATE_KEYS = ("q4_linear_add/5120x17408", "q6_head/248320x5120")
"""Keys of the RTX 3090 that an older line of the engine did not have."""


def without(text: str, *keys: str) -> str:
    """Return a table's text without ``keys`` of its first device."""
    head, first, rest = text.partition('"hardware_class"')
    entry, second, tail = rest.partition('{"hardware_class"')
    lines = [line for line in entry.splitlines(keepends=True) if not any(f'"{key}"' in line for key in keys)]
    return head + first + "".join(lines) + second + tail


@pytest.fixture
def repository(first_cards: Path, command: Command) -> Path:
    """A checkout under git whose HEAD holds the table of the imported entries; its first commit lacks two keys."""
    checkout = first_cards
    shutil.rmtree(checkout / "builtin_profiles/sources/measured", ignore_errors=True)
    table = checkout / TABLE
    assert command("derive", "--root", checkout, "--output", table).code == 0
    text = table.read_text()
    table.write_text(without(text, *LATE_KEYS))
    git(checkout, "init", "-q", "-b", "main")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "before")
    git(checkout, "tag", "before")
    table.write_text(text)
    git(checkout, "commit", "-q", "-a", "-m", "after")
    return checkout


def git(folder: Path, *words: str) -> None:
    identity = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, env=environment, capture_output=True)


def test_the_working_tree_is_compared_with_head_by_default(repository: Path, command: Command) -> None:
    result = command("diff", "--root", repository, "--gate")
    assert result.code == 0
    assert result.out.startswith(f"Device route profiles: HEAD -> {TABLE}\nNo routing change:")
    assert "Tesla V100-SXM2-16GB (nvidia-tesla-v100-sxm2-16gb-sm70, 80 SMs)" in result.out


def test_a_revision_stands_for_the_table_as_it_was(repository: Path, command: Command) -> None:
    for old in ("before", f"before:{TABLE}", "HEAD~1"):
        report = json.loads(command("diff", old, "--root", repository, "--json").out)
        assert {item["key"] for item in report["changes"]} == set(LATE_KEYS)
        assert {item["change"] for item in report["changes"] if item["acts_differently"]} == {"key added"}


def test_changes_of_the_shipped_table_name_their_source(repository: Path, command: Command) -> None:
    changes = json.loads(command("diff", "before", "--root", repository, "--json").out)["changes"]
    evidence = {(item["key"], item["evidence"]["rule"]) for item in changes if item["acts_differently"]}
    assert evidence == {(key, "imported") for key in LATE_KEYS}


def test_the_gate_says_no_to_lost_coverage_and_names_it(repository: Path, command: Command) -> None:
    plain = command("diff", "HEAD", "before", "--root", repository)
    gated = command("diff", "HEAD", "before", "--root", repository, "--gate")
    assert (plain.code, gated.code) == (0, 3)
    assert plain.out == gated.out
    assert gated.err == (
        "python -m generator diff: the gate says no: coverage lost on nvidia-geforce-rtx-3090-sm86 (82 SMs), "
        "'q4_linear_add/5120x17408' at widths 9-32; coverage lost on nvidia-geforce-rtx-3090-sm86 (82 SMs), "
        "'q6_head/248320x5120' at widths 1-3, 19-20. Restore what is lost, or add evidence that it should go\n"
    )


def test_the_gate_says_no_to_a_dropped_device_and_an_unknown_schedule(repository: Path, command: Command) -> None:
    document = json.loads((repository / TABLE).read_text())
    dropped = document["devices"].pop()
    document["devices"][0]["routes"]["attn_pv_f16"] = [[1, "unheard-of"]]
    (repository / "new.json").write_text(json.dumps(document))
    result = command("diff", "HEAD", repository / "new.json", "--root", repository, "--gate")
    assert result.code == 3
    assert f"device dropped on {dropped['hardware_class']} (188 SMs)" in result.err
    assert "unknown schedule on nvidia-geforce-rtx-3090-sm86 (82 SMs), 'attn_pv_f16' at width 1" in result.err


def test_a_profile_file_is_laid_over_the_old_table(repository: Path, command: Command) -> None:
    document = json.loads((repository / TABLE).read_text())
    block = {"route_catalog": DIGEST}
    routes = {"q6_head/248320x5120": [[2, ""]]}
    mine = {**document["devices"][0], "calibration": block, "routes": routes}
    (repository / "mine.json").write_text(json.dumps({**document, "devices": [mine]}))
    report = json.loads(command("diff", "HEAD", repository / "mine.json", "--root", repository, "--json").out)
    assert [(item["first"], item["last"], item["old"]["acts"], item["new"]["layer"]) for item in report["changes"]] == [
        (1, 2, "gemv", "profile file")
    ]
    assert report["new"].endswith("mine.json over HEAD")
    assert "layers meet" in {item["rule"] for item in report["findings"]}
    words = ("diff", "before", "HEAD", "--file", repository / "mine.json", "--root", repository, "--json")
    over = json.loads(command(*words).out)
    assert ("q6_head/248320x5120", 1) not in {(item["key"], item["first"]) for item in over["changes"]}


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("nowhere", "neither a file nor a revision of {root}; expected PATH, REV:PATH or REV. "),
        ("x\0y", "neither a file nor a revision of {root}; expected PATH, REV:PATH or REV. "),
        ("@{-1}:x", "neither a file nor a revision"),
        ("nowhere:table.json", "neither a file nor a revision of {root}; expected PATH, REV:PATH or REV. "),
        ("HEAD:absent.json", "has no file 'absent.json'; paths count from the repository's root. "),
        ("HEAD:builtin_profiles", "'builtin_profiles' is not a file in revision 'HEAD'; expected a profile document"),
        ("builtin_profiles", "neither a file nor a revision"),
        ("", "neither a file nor a revision"),
        ("HEAD:pyproject.toml", "HEAD:pyproject.toml"),
    ],
)
def test_what_is_no_table_is_said_in_one_line(
    repository: Path, command: Command, monkeypatch: pytest.MonkeyPatch, old: str, message: str
) -> None:
    monkeypatch.chdir(repository)
    result = command("diff", old, "HEAD", "--root", repository)
    assert result.code == 1
    assert result.out == ""
    assert message.format(root=repository) in result.err
    assert result.err.count("\n") == 1


def test_without_git_the_advice_is_to_give_paths(checkout: Path, command: Command) -> None:
    result = command("diff", "--root", checkout)
    assert result.code == 1
    assert f"HEAD: no such file, and {checkout} is not a git checkout" in result.err


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_a_report_is_written_whole_to_a_file(repository: Path, command: Command, tmp_path: Path, form: str) -> None:
    target = tmp_path / "report"
    result = command("diff", "before", "--root", repository, "--format", form, "--output", target)
    assert (result.code, result.out, result.err) == (0, "", f"wrote {target}\n")
    assert target.read_text(encoding="utf-8") == command("diff", "before", "--root", repository, "--format", form).out


@pytest.mark.golden
def test_the_markdown_of_two_added_keys_is_the_golden_report(
    repository: Path, command: Command, golden: Callable[[str, str], None]
) -> None:
    report = command("diff", "before", "HEAD", "--root", repository, "--format", "markdown").out
    golden("diff-two-keys.md", report)


def test_a_source_imported_anew_that_no_table_was_derived_from_is_noted(repository: Path, command: Command) -> None:
    note = (
        "note: the sources of this checkout give another table than the one compared here; "
        "`python -m generator derive --write` brings it up to date\n"
    )
    assert command("diff", "--root", repository).err == ""
    source = repository / "builtin_profiles/sources/imported/nvidia-geforce-rtx-3090-sm86.82.json"
    item = read_imported(source.read_bytes(), source.name)
    routes = {**item.profile.routes, "q6_head/248320x5120": (Band(1, "gemv"),)}
    source.write_text(write_imported(replace(item, profile=replace(item.profile, routes=routes))))
    assert command("diff", "--root", repository).err == note
    assert command("diff", "before", "HEAD", "--root", repository).err == ""


IMPORTED = "builtin_profiles/sources/imported/nvidia-geforce-rtx-3090-sm86.82.json"


def test_two_revisions_are_compared_though_a_source_of_the_checkout_is_broken(
    repository: Path, command: Command
) -> None:
    whole = command("diff", "before", "HEAD", "--root", repository)
    source = repository / IMPORTED
    source.write_bytes(source.read_bytes().replace(b'[[1, "on"]]', b'[[1, ""]]', 1))
    broken = command("diff", "before", "HEAD", "--root", repository)
    assert broken.code == 0
    assert broken.err.startswith(
        f"note: no evidence shown, a source of this checkout is broken: {IMPORTED}: edited by hand: its content has "
    )
    assert broken.err.count("\n") == 1
    assert [line.rstrip() for line in broken.out.splitlines()] == [
        line.partition("  imported, ")[0].removesuffix("evidence").rstrip() for line in whole.out.splitlines()
    ]
    for words in ((), ("before",), ("before", repository / TABLE)):
        refused = command("diff", *words, "--root", repository)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"python -m generator diff: {IMPORTED}: edited by hand: its content has ")


def _rtx_3060(repository: Path) -> Path:
    return repository / "builtin_profiles/sources/imported/nvidia-geforce-rtx-3060-sm86.28.json"


def _change_the_extra(repository: Path) -> None:
    source = _rtx_3060(repository)
    item = read_imported(source.read_bytes(), source.name)
    routes = {**item.profile.routes, "q6_head/248320x5120": (Band(32, "small_t"),)}
    source.write_text(write_imported(replace(item, profile=replace(item.profile, routes=routes))))


def test_a_change_of_an_extra_is_seen_with_extras(repository: Path, command: Command) -> None:
    words = ("diff", "--with-extras", "--root", repository)
    assert "No routing change:" in command(*words).out
    _change_the_extra(repository)
    assert "No routing change:" in command("diff", "--root", repository).out
    report = json.loads(command(*words, "--json").out)
    assert (report["old"], report["new"]) == ("HEAD with extras", "this checkout with extras")
    changed = [item for item in report["changes"] if item["acts_differently"]]
    assert {(item["hardware_class"], item["key"]) for item in changed} == {
        ("nvidia-geforce-rtx-3060-sm86", "q6_head/248320x5120")
    }
    assert {item["evidence"]["rule"] for item in changed} == {"imported"}
    git(repository, "commit", "-q", "-a", "-m", "extra")
    again = json.loads(command("diff", "HEAD~1", "HEAD", "--with-extras", "--root", repository, "--json").out)
    assert again["changes"] == report["changes"]


def test_with_extras_takes_revisions_alone_and_says_so(repository: Path, command: Command) -> None:
    table = str(repository / TABLE)
    words = ("diff", "--with-extras", "--root", repository)
    assert command(*words, table).err == (
        f"python -m generator diff: {table}: names a file; expected a revision, whose sources are derived anew with "
        "the extras. Give two revisions, or compare the tables alone, without --with-extras\n"
    )
    assert command(*words, "--file", table).code == 2
    _rtx_3060(repository).write_text("{}")
    git(repository, "commit", "-q", "-a", "-m", "broken")
    result = command(*words, "HEAD", "HEAD~1")
    assert result.code == 1
    assert result.err.startswith("python -m generator diff: HEAD: its sources are not what this checkout reads: ")
    assert result.err.endswith(". Compare the tables alone, without --with-extras\n")
    assert command(*words, "HEAD~1", "HEAD~2").code == 0
    git(repository, "rm", "-q", "-r", "builtin_profiles/sources")
    git(repository, "commit", "-q", "-m", "none")
    assert (
        "has no builtin_profiles/sources and builtin_profiles/reference_gpus.toml; expected one of this project's."
        in (command(*words, "HEAD", "HEAD~1").err)
    )
