"""import, derive, emit and plan on a copy of the checkout."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.model import Document
from ninfer_device_profiles.writing import serialise

from generator.core.imported import read_imported, write_imported
from tests.catalog_now import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.verbs.conftest import Result

    Command = Callable[..., Result]

SHIPPED = "3ad04f8cf8264a17daa9a6e637d6e98ace261cd5603b495b77c6544057c31718"


def _table(checkout: Path) -> Path:
    return checkout / "builtin_profiles/ninfer_device_profiles/device_profiles.json"


def test_import_and_derive_rebuild_the_shipped_table_from_nothing(
    checkout: Path, shared_data: Path, command: Command
) -> None:
    for path in (checkout / "builtin_profiles/sources/imported").glob("*.json"):
        path.unlink()
    for path in (checkout / "builtin_profiles/sources/measured").glob("*/*.json"):
        path.unlink()
    _table(checkout).unlink()
    assert command("import", shared_data / "engine/device_profiles.json", "--root", checkout).code == 0
    result = command("derive", "--write", "--root", checkout)
    assert result.code == 0
    assert "MISSING: nobody has measured it yet" in result.out
    assert hashlib.sha256(_table(checkout).read_bytes()).hexdigest() == SHIPPED
    assert command("derive", "--check", "--root", checkout).code == 0


def test_importing_twice_changes_nothing(checkout: Path, shared_data: Path, command: Command) -> None:
    file = shared_data / "profiles/rtx3060-calibrated.json"
    command("import", file, "--root", checkout)
    result = command("import", file, "--root", checkout)
    assert result.out == (
        "builtin_profiles/sources/imported/nvidia-geforce-rtx-3060-sm86.28.json: 67 keys of "
        "nvidia-geforce-rtx-3060-sm86 (28 SMs), unchanged\n"
    )


def test_older_document_is_not_imported(checkout: Path, shared_data: Path, command: Command) -> None:
    result = command("import", shared_data / "profiles/builtin-v1-six-devices.json", "--root", checkout)
    assert result.code == 1
    assert "recalibrate" in result.err.lower()
    assert "Traceback" not in result.err


def test_hand_edited_table_is_found_with_its_line(checkout: Path, command: Command) -> None:
    table = _table(checkout)
    lines = table.read_text().splitlines(keepends=True)
    number, line = next((number, line) for number, line in enumerate(lines) if '": [[' in line)
    edited = re.sub(r"\[\[.*\]\]", '[[1, "edited"]]', line)
    table.write_text("".join([*lines[:number], edited, *lines[number + 1 :]]))
    result = command("derive", "--check", "--root", checkout)
    assert result.code == 1
    assert result.err == (
        "python -m generator derive: builtin_profiles/ninfer_device_profiles/device_profiles.json line "
        f"{number + 1}: found {edited.rstrip()[:100]!r}, expected {line.rstrip()[:100]!r}; run "
        "`python -m generator derive --write` and review the difference\n"
    )


def test_a_hand_edited_source_is_refused_until_it_is_imported_again(
    checkout: Path, tmp_path: Path, command: Command
) -> None:
    name = "builtin_profiles/sources/imported/nvidia-geforce-rtx-4090-sm89.128.json"
    source = checkout / name
    document = tmp_path / "engine.json"
    profile = read_imported(source.read_bytes(), name).profile
    document.write_text(serialise(Document(devices=(profile,))))
    assert command("import", document, "--root", checkout).code == 0
    before, table = source.read_bytes(), _table(checkout).read_bytes()
    source.write_bytes(before.replace(b'[[1, "on"]]', b'[[1, ""]]', 1))
    for words in ((), ("--check",), ("--write",)):
        result = command("derive", *words, "--root", checkout)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"python -m generator derive: {name}: edited by hand: its content has the digest ")
    assert _table(checkout).read_bytes() == table
    assert command("import", document, "--root", checkout).code == 0
    assert source.read_bytes() == before
    assert command("derive", "--check", "--root", checkout).code == 0


def test_a_source_under_another_name_is_told_its_own(checkout: Path, command: Command) -> None:
    folder = checkout / "builtin_profiles/sources/imported"
    (folder / "copy.json").write_bytes((folder / "nvidia-geforce-rtx-4090-sm89.128.json").read_bytes())
    result = command("derive", "--root", checkout)
    assert result.code == 1
    assert result.err == (
        "python -m generator derive: builtin_profiles/sources/imported/copy.json: holds the entry of "
        "'nvidia-geforce-rtx-4090-sm89' (128 SMs), whose file is 'nvidia-geforce-rtx-4090-sm89.128.json'. Rename the "
        "file, or remove it if that one is there\n"
    )


def test_every_emitted_file_is_checked(checkout: Path, command: Command) -> None:
    assert command("emit", "--check", "--root", checkout).code == 0
    emitted = [row["file"] for row in json.loads(command("emit", "--json", "--root", checkout).out)]
    assert len(emitted) == 5
    for name in emitted:
        path = checkout / name
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        assert command("emit", "--check", "--root", checkout).code == 1
        path.unlink()
        assert f"{name}: not there" in command("emit", "--check", "--root", checkout).err
        path.write_bytes(content)


def test_extras_are_shipped_only_when_asked_for(first_cards: Path, tmp_path: Path, command: Command) -> None:
    checkout = first_cards
    command("derive", "--with-extras", "--output", tmp_path / "all.json", "--root", checkout)
    command("derive", "--output", tmp_path / "default.json", "--root", checkout)
    assert "nvidia-geforce-rtx-3060-sm86" in (tmp_path / "all.json").read_text()
    assert "nvidia-geforce-rtx-3060-sm86" not in (tmp_path / "default.json").read_text()


def test_plan_names_the_card_nobody_has_measured_and_the_command(checkout: Path, command: Command) -> None:
    result = command("plan", "--root", checkout)
    assert (
        "MISSING: Tesla V100-SXM2-16GB has no entry; nobody has measured one. On a machine with the card: "
        "nox -s calibrate-tesla-v100-sxm2-16gb (CUDA 12, 2 keys)\n"
    ) in result.out
    plans = {row["name"]: row for row in json.loads(command("plan", "--json", "--root", checkout).out)}
    assert set(plans["Tesla V100-SXM2-16GB"]["keys"]) == {"gdn_two_stage/h48", "gdn_two_stage/h32"}
    assert len(plans["RTX 3060"]["keys"]) == KEYS


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder, "a folder; expected a file. Check the path"),
        (lambda folder: folder / "absent.json", "not there; expected a file. Check the path"),
        (_fifo, "not a regular file; expected a file. Check the path"),
    ],
)
def test_path_that_is_no_file_is_one_line_and_exit_1(
    make: Callable[[Path], Path], message: str, checkout: Path, tmp_path: Path, command: Command
) -> None:
    path = make(tmp_path)
    result = command("import", path, "--root", checkout)
    assert (result.code, result.out, result.err) == (1, "", f"python -m generator import: {path}: {message}\n")


def test_huge_file_is_refused_before_it_is_read(checkout: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as handle:
        handle.truncate(100 * 1024 * 1024)
    result = command("import", path, "--root", checkout)
    assert (
        result.err
        == f"python -m generator import: {path}: 104857600 bytes; expected at most 67108864. Check the path\n"
    )


def test_folder_that_is_no_checkout_is_named(tmp_path: Path, command: Command) -> None:
    result = command("derive", "--root", tmp_path)
    assert result.code == 1
    assert result.err.startswith(f"python -m generator derive: {tmp_path}: no builtin_profiles/reference_gpus.toml;")


def test_unknown_verb_is_a_usage_error(command: Command) -> None:
    assert command("bake").code == 2
    assert command("derive", "--bake").code == 2
    assert command("--help").code == 0


def test_derive_says_whether_it_wrote_and_what_comes_next(checkout: Path, command: Command) -> None:
    name = "builtin_profiles/ninfer_device_profiles/device_profiles.json"
    assert command("derive", "--write", "--root", checkout).err.startswith(f"{name}: unchanged\n")
    _table(checkout).write_text("{}")
    written = f"{name}: written; now run `python -m generator emit --write`\n"
    assert command("derive", "--write", "--root", checkout).err.startswith(written)


def test_a_plain_derive_says_whether_the_committed_table_differs(checkout: Path, command: Command) -> None:
    name = "builtin_profiles/ninfer_device_profiles/device_profiles.json"
    assert command("derive", "--root", checkout).err.startswith(f"{name}: what the sources give\n")
    _table(checkout).write_text("{}")
    differs = command("derive", "--root", checkout)
    assert differs.code == 0
    assert differs.err.startswith(f"note: not the committed table: {name} line 1: found '{{}}', expected '{{")
    _table(checkout).unlink()
    assert command("derive", "--root", checkout).err.startswith(
        f"note: not the committed table: {name}: not there; run `python -m generator derive --write` and review the "
        "difference\n"
    )
    assert "committed" not in command("derive", "--with-extras", "--root", checkout).err


def test_a_device_that_is_left_out_says_whether_it_is_an_extra_or_unknown(first_cards: Path, command: Command) -> None:
    checkout = first_cards
    source = checkout / "builtin_profiles/sources/imported/nvidia-geforce-rtx-3060-sm86.28.json"
    other = source.with_name("nvidia-geforce-rtx-3061-sm86.28.json")
    item = read_imported(source.read_bytes(), source.name)
    renamed = replace(item.profile, hardware_class="nvidia-geforce-rtx-3061-sm86")
    other.write_text(write_imported(replace(item, profile=renamed)))
    result = command("derive", "--root", checkout)
    assert [line for line in result.err.splitlines() if line.startswith("left out: nvidia-geforce-rtx-306")] == [
        "left out: nvidia-geforce-rtx-3060-sm86 (28 SMs): an extra, which ships only with --with-extras",
        (
            "left out: nvidia-geforce-rtx-3061-sm86 (28 SMs): not in reference_gpus.toml; add a [[gpu]] or [[extra]] "
            "table there to ship it"
        ),
    ]
    everything = command("derive", "--with-extras", "--root", checkout).out
    assert "67 imported; 14 of them compiled at every width, so not in the table" in everything


def test_no_name_is_cut_however_narrow_the_pipe_says_it_is(
    checkout: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    longest = "nvidia-rtx-pro-6000-blackwell-workstation-edition-sm120"
    assert f" {longest} " in command("derive", "--root", checkout).out
    session = "calibrate-rtx-pro-6000-blackwell-max-q-workstation-edition, about "
    assert f" {session}" in command("plan", "--root", checkout).out
    catalog = command("catalog").out
    assert " q4_q5_attn_input/5120x6144x1024 " in catalog
    assert "\u2026" not in catalog


def test_an_import_of_no_entry_names_the_classes_that_there_are(checkout: Path, command: Command) -> None:
    result = command("import", _table(checkout), "--device", "rtx", "--root", checkout)
    assert result.code == 1
    classes = [entry["hardware_class"] for entry in json.loads(_table(checkout).read_text())["devices"]]
    assert result.out.startswith(f"nothing taken: no entry of class 'rtx'; found {', '.join(classes)}")


def test_a_key_of_a_measured_source_that_does_not_count_is_named(first_cards: Path, command: Command) -> None:
    checkout = first_cards
    assert command("derive", "--write", "--root", checkout).code == 0
    measured = checkout / "builtin_profiles/sources/measured"
    (source,) = measured.glob("nvidia-h200-sm90/*.json")
    document = json.loads(source.read_text(encoding="utf-8"))
    trials = document["trials"]
    document["trials"] = [
        item
        for item in trials
        if (item["key"], item["width"], item["schedule"]) != ("q6_head/248320x5120", 20, "small_t")
    ]
    assert len(document["trials"]) < len(trials)
    source.write_text(json.dumps(document), encoding="utf-8")
    note = (
        f"note: sources/measured/{source.relative_to(measured).as_posix()}: 'q6_head/248320x5120' does not count: "
        "width 20: no trial of ['small_t']"
    )
    remedy = ". Restore the file, or measure the key again: nox -s calibrate-h200 -- --only q6_head/248320x5120\n"
    for words in (["derive"], ["derive", "--check"], ["derive", "--json"], ["emit"]):
        result = command(*words, "--root", checkout)
        assert result.code == 0
        assert result.err.startswith(f"{note}{remedy}")
    (dropped,) = json.loads(command("derive", "--json", "--root", checkout).out)["dropped"]
    assert (dropped["key"], dropped["reason"]) == ("q6_head/248320x5120", "width 20: no trial of ['small_t']")
    for words in (["derive", "--with-extras"], ["plan"]):
        result = command(*words, "--root", checkout)
        assert result.code == 0
        assert result.err.startswith(f"{note}; no other source answers{remedy}")
