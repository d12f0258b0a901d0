"""Files as verbs read and write them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ninfer_device_profiles.errors import StoreError

from generator.errors import SourceError
from generator.files import MAX_SOURCE_BYTES, listed, listed_below, read_bytes, read_chunks, read_text, write_files


def odd_paths(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nothing")
    with (folder / "huge").open("wb") as handle:
        handle.truncate(MAX_SOURCE_BYTES + 1)
    return {
        "a folder; expected a file. Check the path": folder,
        "not there; expected a file. Check the path": folder / "absent",
        "Too many levels of symbolic links; check the path and its permissions": folder / "loop",
        f"{MAX_SOURCE_BYTES + 1} bytes; expected at most {MAX_SOURCE_BYTES}. Check the path": folder / "huge",
        "File name too long; check the path and its permissions": folder / ("x" * 5000),
        "embedded null byte; check the path and its permissions": folder / "a\0b",
    }


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    for message, path in odd_paths(tmp_path).items():
        with pytest.raises(SourceError) as caught:
            read_bytes(path, "f")
        assert str(caught.value) == f"f: {message}"
    for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(SourceError) as caught:
            read_bytes(path, "f")
        assert str(caught.value) == "f: not a regular file; expected a file. Check the path"


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generator.files.MAX_SOURCE_BYTES", 100_000)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 70_000)
    chunks = read_chunks(path, "log")
    next(chunks)
    with path.open("ab") as handle:
        handle.write(b"x" * 70_000)
    with pytest.raises(SourceError) as caught:
        list(chunks)
    assert str(caught.value) == "log: more than 100000 bytes; expected at most 100000. Check the path"


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_text(path, "a") == "a = 1"


def test_sources_that_cannot_be_seen_are_not_absent(tmp_path: Path) -> None:
    assert listed(tmp_path / "absent", "sources") == ()
    (tmp_path / "file").touch()
    with pytest.raises(SourceError) as caught:
        listed(tmp_path / "file", "sources")
    assert str(caught.value) == "sources: Not a directory; expected a readable folder"


def test_files_below_folders_are_found_and_a_folder_that_is_none_is_passed_over(tmp_path: Path) -> None:
    for name in ("b/rounds/1.json", "a/rounds/2.json", "a/rounds/x.toml", "a/other/3.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "file").touch()
    found = listed_below(tmp_path, "sources", "*", "rounds", "*.json")
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a/rounds/2.json", "b/rounds/1.json"]


def test_several_files_are_written_all_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "no" / "b"
    first.write_bytes(b"old")
    (tmp_path / "no").touch()
    with pytest.raises(StoreError):
        write_files({first: b"new", second: b"new"})
    assert first.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "no"]


def test_a_full_disk_leaves_every_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"old")
    written = os.write

    def write(handle: int, data: bytes) -> int:
        if len(data) > 10:
            raise OSError(28, os.strerror(28))
        return written(handle, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StoreError) as caught:
        write_files({first: b"new", second: b"much too long"})
    assert str(caught.value) == (
        f"{second}: cannot be written (No space left on device); the file is as it was. Free space or mend "
        "permissions, or name another path."
    )
    assert first.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null"])
def test_a_device_is_never_replaced(path: str) -> None:
    with pytest.raises(StoreError):
        write_files({Path(path): b"x"})
    assert not stat.S_ISREG(Path(path).stat().st_mode)


def test_links_and_modes_stay_and_equal_content_is_not_written(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert write_files({link: b"new"}) == (link,)
    assert write_files({link: b"new"}) == ()
    assert link.is_symlink()
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (b"new", 0o640)
