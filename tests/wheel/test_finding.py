"""Finding a device's profile: which file entry counts, which is set aside, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Document, Profile, serialise
from ninfer_device_profiles.finding import NoteKind, find_profile

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

BASE = Profile(hardware_class="c", multiprocessors=8, origin="built in", routes={"low": (Band(4, "l"),)})


def entry(sms: int = 8, digest: str | None = DIGEST, origin: str = "calibration") -> Profile:
    block = None if digest is None else Calibration(route_catalog=digest)
    return Profile(
        hardware_class="c", multiprocessors=sms, origin=origin, calibration=block, routes={"up": (Band(4, "u"),)}
    )


def write(path: Path, *entries: Profile) -> Path:
    path.write_text(serialise(Document(devices=entries)), encoding="utf-8")
    return path


def test_the_file_lies_over_the_builtin_table(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", entry())
    found = find_profile("c", 8, path=path, builtin=[BASE], catalog_digest=DIGEST)
    assert found.profile is not None
    assert found.profile.origin == "calibration over built in"
    assert set(found.profile.routes) == {"up", "low"}
    assert (found.measured, found.builtin, found.notes) == (entry(), BASE, ())


def test_an_absent_file_or_no_path_is_no_fault(tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "absent.json"), str(tmp_path / "absent" / "p.json")):
        found = find_profile("c", 8, path=path, builtin=[BASE], catalog_digest=DIGEST)
        assert (found.profile, found.notes) == (BASE, ())


def test_a_dangling_link_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    assert find_profile("c", 8, path=tmp_path / "link", builtin=[], catalog_digest=DIGEST).notes == ()


def test_an_entry_without_a_calibration_block_is_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", entry(digest=None))
    found = find_profile("c", 8, path=path, builtin=[BASE], catalog_digest=DIGEST)
    assert found.profile == BASE
    assert found.ignored == entry(digest=None)
    assert [(note.kind, note.text) for note in found.notes] == [
        (
            NoteKind.NO_CATALOG,
            (
                f"{path}: the entry of c records no route catalog and is ignored. "
                "Recalibrate with ninfer-calibrate or --device-profile calibrate."
            ),
        )
    ]


def test_entries_behind_a_stale_first_match_are_not_tried(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", entry(sms=0, digest="0" * 16), entry())
    found = find_profile("c", 8, path=path, builtin=[], catalog_digest=DIGEST)
    assert found.profile is None
    assert found.notes[0].kind is NoteKind.OTHER_CATALOG
    assert "by build unknown" in found.notes[0].text


def test_an_entry_with_no_routes_counts_as_found(tmp_path: Path) -> None:
    bare = Profile(hardware_class="c", multiprocessors=8, calibration=Calibration(route_catalog=DIGEST))
    path = write(tmp_path / "p.json", bare)
    assert find_profile("c", 8, path=path, builtin=[], catalog_digest=DIGEST).profile == bare


@pytest.mark.parametrize("kind", ["directory", "fifo", "text", "nul", "below a file"])
def test_a_file_that_cannot_be_read_gives_one_note_and_the_builtin_profile(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "p.json")
    if kind == "directory":
        (tmp_path / "p.json").mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "nul":
        path = "a\0b"
    else:
        (tmp_path / "p.json").write_text("{")
        path += "/x" if kind == "below a file" else ""
    found = find_profile("c", 8, path=path, builtin=[BASE], catalog_digest=DIGEST)
    assert found.profile == BASE
    assert [note.kind for note in found.notes] == [NoteKind.SKIPPED]
    assert found.notes[0].text.startswith(f"device profile file skipped: {path}: ")
