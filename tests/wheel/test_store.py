"""Storing: what the file holds afterwards, and that nothing is lost on the way."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles import atomic, jsontext
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Calibration, Profile, read_document
from ninfer_device_profiles.errors import StoreError, UnreadableError
from ninfer_device_profiles.store import KEPT, replaced_entries, restore_profile, store_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEEL = Path(__file__).parent.parent.parent / "builtin_profiles"
AS_IT_WAS = "the file is as it was"


DOCUMENTS = (
    '{"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": []}',
    '{"schema": "ninfer.device-route-profiles", "schema_version": 1, "devices": [1]}',
    '{"schema": "ninfer.device-route-profiles", "schema_version": 3, "devices": []}',
    (
        '{"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": ['
        '{"hardware_class": "a", "routes": {"k": [[4, "x"]]}}]}'
    ),
)


def entry(name: str = "c", sms: int = 8, *, origin: str = "calibration", catalog: str = "d1", **keys: str) -> Profile:
    return Profile(
        hardware_class=name,
        multiprocessors=sms,
        origin=origin,
        calibration=Calibration(route_catalog=catalog),
        routes={key: (Band(8, schedule),) for key, schedule in (keys or {"key": "a"}).items()},
    )


def names(folder: Path) -> set[str]:
    """Files in ``folder``, the lock left out: its file may stay."""
    return {item.name for item in folder.iterdir() if not item.name.endswith(".lock")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device-profiles.json"


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "p.json"
    stored = store_profile(entry(), deep)
    assert read_document(deep).devices == (entry(),)
    assert (stored.path, stored.changed, stored.replaced) == (str(deep), True, ())


def test_other_devices_keep_their_place_and_their_unknown_fields(path: Path) -> None:
    path.write_text(
        '{"schema": "ninfer.device-route-profiles", "schema_version": 2, "note": "mine", "devices": ['
        '{"hardware_class": "a", "routes": {}, "power_limit_w": 300},'
        '{"hardware_class": "c", "multiprocessors": 8, "routes": {}, "seen": 1,'
        ' "calibration": {"route_catalog": "d1", "uuid": "u"}}]}'
    )
    store_profile(entry(), path)
    store_profile(entry("b"), path)
    value = json.loads(path.read_text())
    assert value["note"] == "mine"
    assert value["devices"][0] == {"hardware_class": "a", "multiprocessors": 0, "routes": {}, "power_limit_w": 300}
    assert value["devices"][1]["seen"] == 1
    assert value["devices"][1]["calibration"]["uuid"] == "u"
    assert [item["hardware_class"] for item in value["devices"]] == ["a", "c", "b"]


def test_zero_sms_match_zero_alone_when_storing(path: Path) -> None:
    store_profile(entry(sms=0), path)
    store_profile(entry(sms=8), path)
    assert [item.multiprocessors for item in read_document(path).devices] == [0, 8]


def test_further_entries_of_the_same_device_are_overwritten_too(path: Path) -> None:
    store_profile(entry(one="a"), path)
    value = json.loads(path.read_text())
    second = {**value["devices"][0], "routes": {"two": [[4, "x"]]}}
    value["devices"] += [second, {**second, "multiprocessors": 9}]
    path.write_text(json.dumps(value))
    stored = store_profile(entry(three="c"), path)
    devices = read_document(path).devices
    assert devices[0] == devices[1] == stored.profile
    assert set(stored.profile.routes) == {"one", "three"}
    assert [set(item.routes) for item in stored.replaced] == [{"one"}, {"two"}]
    assert devices[2].multiprocessors == 9


def test_an_entry_without_a_calibration_block_takes_no_keys_over(path: Path) -> None:
    store_profile(entry(one="a"), path)
    bare = Profile(hardware_class="c", multiprocessors=8, origin="hand", routes={"two": (Band(4, "b"),)})
    assert store_profile(bare, path).profile == bare
    assert store_profile(entry(three="c"), path).profile == entry(three="c")


def test_storing_what_is_there_changes_nothing(path: Path) -> None:
    store_profile(entry(), path)
    before = path.stat()
    stored = store_profile(entry(), path)
    assert not stored.changed
    assert path.stat().st_ino == before.st_ino
    assert names(path.parent) == {path.name}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("not JSON", "line 1 column 1: invalid JSON (Expecting value)"),
        ('{"schema": "x"}', "schema 'x': not a ninfer.device-route-profiles document"),
        ('{"schema": "ninfer.device-route-profiles", "schema_version": 3}', "schema_version 3 was written by a newer"),
        ('{"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": [1]}', "1; an entry is an object"),
        ('{"schema": "ninfer.device-route-profiles", "x": 1, "x": 2}', "key 'x' appears twice"),
    ],
)
def test_a_file_that_is_no_document_of_ours_is_left_alone(path: Path, text: str, found: str) -> None:
    path.write_text(text)
    with pytest.raises(StoreError) as caught:
        store_profile(entry(), path)
    assert str(caught.value).startswith(str(path))
    assert found in str(caught.value)
    assert str(caught.value).endswith(f"Nothing was stored; {AS_IT_WAS}.")
    assert path.read_text() == text
    assert names(path.parent) == {path.name}


def test_an_older_file_is_replaced_as_a_whole_and_kept_beside(path: Path, shared_data: Path) -> None:
    old = (shared_data / "profiles" / "builtin-v1-six-devices.json").read_bytes()
    path.write_bytes(old)
    store_profile(entry(), path)
    assert read_document(path).devices == (entry(),)
    assert path.with_name(path.name + ".old-version").read_bytes() == old


def test_an_entry_that_could_not_be_read_back_is_not_written(path: Path) -> None:
    for bad in (
        entry("", 8),
        entry(origin="\ud800"),
        Profile(hardware_class="c", routes={"k": ()}),
        Profile(hardware_class="c", routes={"k": (Band(8, "a"), Band(8, "b"))}),
    ):
        with pytest.raises(StoreError, match=AS_IT_WAS):
            store_profile(bad, path)
    assert names(path.parent) == set()


def test_special_files_and_endless_links_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("fifo", "loop", "."):
        with pytest.raises(StoreError):
            store_profile(entry(), tmp_path / name)
    for name in ("a\0b", "/proc/absent/p.json", ""):
        with pytest.raises(StoreError):
            store_profile(entry(), name)
    assert names(tmp_path) == {"fifo", "loop"}


def test_a_link_keeps_being_one_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to("real/p.json")
    store_profile(entry(), link)
    store_profile(entry("other"), link)
    assert link.is_symlink()
    assert len(read_document(tmp_path / "real" / "p.json").devices) == 2
    assert names(tmp_path) == {"link.json", "real"}


def test_mode_and_ownership_stay(path: Path) -> None:
    store_profile(entry(), path)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
    before = path.stat()
    store_profile(entry("other"), path)
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_what_is_kept_beside_a_private_file_is_private_too(path: Path) -> None:
    store_profile(entry(key="a"), path)
    path.chmod(0o600)
    store_profile(entry(key="b"), path)
    path.write_text('{"schema": "ninfer.device-route-profiles", "schema_version": 1}')
    store_profile(entry(key="b"), path)
    for suffix in (".replaced", ".old-version"):
        assert stat.S_IMODE(path.with_name(path.name + suffix).stat().st_mode) == 0o600


def test_a_new_file_has_the_mode_that_the_umask_gives(path: Path) -> None:
    old = os.umask(0o027)
    try:
        store_profile(entry(), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_bytes_are_flushed_before_the_rename_and_the_folder_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flush(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def rename(source: str, target: str) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    store_profile(entry(), path)
    assert steps == ["file", "rename", "folder"]


def test_the_replaced_entry_is_on_disk_before_the_file_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_profile(entry(key="old"), path)
    before = path.read_bytes()
    replace = os.replace

    def rename(source: str, target: str) -> None:
        if target == str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(StoreError, match="Input/output error"):
        store_profile(entry(key="new"), path)
    assert path.read_bytes() == before
    assert replaced_entries(path) == (entry(key="old"),)


def test_where_a_file_cannot_be_given_away_its_group_and_mode_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_profile(entry(), path)
    path.chmod(0o660)
    asked: list[tuple[int, int]] = []

    def refuse(_handle: int, user: int, group: int) -> None:
        asked.append((user, group))
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    store_profile(entry("other"), path)
    found = path.stat()
    assert asked == [(found.st_uid, found.st_gid), (-1, found.st_gid)]
    assert stat.S_IMODE(found.st_mode) == 0o660


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "open"])
def test_a_full_disk_leaves_the_file_and_no_temporary(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    store_profile(entry(), path)
    before = path.read_bytes()
    real = getattr(os, call)

    def full(*args: object, **options: object) -> object:
        if call == "open" and not str(args[0]).endswith("-tmp"):
            return real(*args, **options)
        if call == "write":
            real(args[0], bytes(args[1])[:10])  # type: ignore[call-overload]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(StoreError) as caught:
        store_profile(entry("other"), path)
    monkeypatch.undo()
    assert str(caught.value) == (
        f"{path}: cannot be written (No space left on device); {AS_IT_WAS}. "
        "Free space or mend permissions, or name another path."
    )
    assert path.read_bytes() == before
    assert names(path.parent) == {path.name}


def test_a_real_file_size_limit_leaves_the_file_and_no_temporary(path: Path) -> None:
    store_profile(entry(), path)
    before = path.read_bytes()
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from ninfer_device_profiles.document import Profile\n"
        "from ninfer_device_profiles.errors import StoreError\n"
        "from ninfer_device_profiles.store import store_profile\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "try:\n    store_profile(Profile(hardware_class='n' * 500), sys.argv[1])\n"
        "except StoreError as error:\n    print(error)\n"
    )
    done = run(program, str(path))
    assert done == (
        f"{path}: cannot be written (File too large); {AS_IT_WAS}. "
        "Free space or mend permissions, or name another path.\n"
    )
    assert path.read_bytes() == before
    assert names(path.parent) == {path.name}


@contextmanager
def without_privileges() -> Iterator[None]:
    """Go on as nobody where the tests run as root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that nobody can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def read_only(open_folder: Path) -> Iterator[Path]:
    """A folder with a profile file that the present user may read but not write."""
    inner = open_folder / "cache"
    inner.mkdir()
    store_profile(entry(), inner / "p.json")
    for item in inner.iterdir():
        item.chmod(0o444)
    inner.chmod(0o555)
    with without_privileges():
        yield inner
    inner.chmod(0o755)


def test_a_file_that_may_not_be_read_is_one_clear_error(open_folder: Path) -> None:
    path = open_folder / "p.json"
    store_profile(entry(), path)
    path.chmod(0)
    open_folder.chmod(0o777)
    with without_privileges():
        with pytest.raises(UnreadableError) as caught:
            read_document(path)
        assert str(caught.value) == (
            f"{path}: cannot be read (Permission denied); a profile file is a readable regular file. "
            "Check the path and its permissions."
        )
        with pytest.raises(StoreError, match="Permission denied"):
            store_profile(entry(), path)


def test_a_read_only_folder_is_one_clear_error(read_only: Path) -> None:
    path = read_only / "p.json"
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        store_profile(entry("other"), path)
    assert str(caught.value) == (
        f"{path}: cannot be written (Permission denied); {AS_IT_WAS}. "
        "Free space or mend permissions, or name another path."
    )
    with pytest.raises(StoreError, match="Permission denied"):
        store_profile(entry(), read_only / "below" / "p.json")
    assert path.read_bytes() == before
    assert names(read_only) == {"p.json"}


def test_a_lock_that_is_held_too_long_is_one_clear_error(path: Path) -> None:
    with atomic.locked(str(path)), pytest.raises(StoreError) as caught:
        store_profile(entry(), path, wait_s=0.05)
    assert str(caught.value) == (
        f"{path}.lock: held by another process for 0.05 s; one writer at a time. Wait for the other process, or end it."
    )
    assert not path.exists()


def test_what_a_killed_writer_left_is_removed(path: Path) -> None:
    left = path.with_name(path.name + ".0123456789ab.ninfer-tmp")
    left.write_text("half")
    engine = path.with_name(path.name + ".tmp.77.123")
    engine.write_text("the engine may be writing this")
    store_profile(entry(), path)
    assert names(path.parent) == {path.name, engine.name}


def test_the_replaced_entry_comes_back(path: Path) -> None:
    store_profile(entry(key="old", kept="k"), path)
    store_profile(entry("other"), path)
    store_profile(entry(key="new"), path)
    assert replaced_entries(path) == (entry(key="old", kept="k"),)
    back = restore_profile("c", 8, path)
    assert back.profile == entry(key="old", kept="k")
    assert read_document(path).devices == (entry(key="old", kept="k"), entry("other"))
    assert restore_profile("c", 8, path).profile == entry(key="new", kept="k")
    assert read_document(path).devices[0] == entry(key="new", kept="k")


def test_so_many_replaced_entries_are_kept_a_device(path: Path) -> None:
    for place in range(KEPT + 3):
        store_profile(entry(key=f"s{place}"), path)
        store_profile(entry("other", key=f"t{place % 2}"), path)
    assert [item.routes["key"][0].schedule for item in replaced_entries(path, "c")] == [
        f"s{place}" for place in range(KEPT + 1, 1, -1)
    ]
    assert len(replaced_entries(path, "other")) == 2
    assert len(replaced_entries(path, "other", 9)) == 0


def test_without_a_replaced_entry_there_is_no_way_back(path: Path) -> None:
    store_profile(entry(), path)
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        restore_profile("c", 8, path)
    assert str(caught.value) == (
        f"{path}.replaced: no replaced entry of 'c' with 8 SMs; storing keeps one when it replaces one. "
        "List what is kept with `ninfer-profiles list --replaced`."
    )
    assert path.read_bytes() == before


def test_a_damaged_file_of_replaced_entries_is_put_aside(path: Path) -> None:
    path.with_name(path.name + ".replaced").write_text("broken")
    store_profile(entry(key="a"), path)
    store_profile(entry(key="b"), path)
    assert path.with_name(path.name + ".replaced.unreadable").read_text() == "broken"
    assert replaced_entries(path) == (entry(key="a"),)


def test_a_document_that_would_grow_past_the_limit_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "MAX_BYTES", 600)
    store_profile(entry(), path)
    with pytest.raises(StoreError, match=r"a profile document has at most 600\."):
        store_profile(entry("n" * 400), path)
    assert len(read_document(path).devices) == 1


@given(data=st.binary(max_size=80) | st.sampled_from(DOCUMENTS).map(str.encode), cut=st.integers(0, 400))
def test_whatever_the_file_holds_storing_works_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "p.json"
    path.write_bytes(data[:cut])
    try:
        store_profile(entry("new"), path)
    except StoreError:
        assert path.read_bytes() == data[:cut]
        assert names(path.parent) == {path.name}
    else:
        assert read_document(path).devices[-1] == entry("new")


STORE_ONE = (
    "import sys\n"
    "from ninfer_device_profiles.bands import Band\n"
    "from ninfer_device_profiles.document import Calibration, Profile\n"
    "from ninfer_device_profiles.store import store_profile\n"
    "path, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
    "routes = {f'key{i}': (Band(8, 'x' * 20), Band(99, '')) for i in range(60)}\n"
    "print('ready', flush=True)\n"
    "for turn in range(times):\n"
    "    store_profile(Profile(hardware_class=name, multiprocessors=8, origin=str(turn),\n"
    "                          calibration=Calibration(route_catalog='d'), routes=routes), path)\n"
)


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(WHEEL)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def run(program: str, *arguments: str) -> str:
    with start(program, *arguments) as process:
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return text


def test_sixteen_processes_storing_at_once_lose_no_entry(path: Path) -> None:
    writers = [start(STORE_ONE, str(path), f"device-{place}", "2") for place in range(16)]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    devices = read_document(path).devices
    assert sorted(item.hardware_class for item in devices) == sorted(f"device-{place}" for place in range(16))
    assert {item.origin for item in devices} == {"1"}
    assert names(path.parent) == {path.name, f"{path.name}.replaced"}


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(path: Path) -> None:
    store_profile(entry("other"), path)
    for turn in range(8):
        with start(STORE_ONE, str(path), "device", "100000") as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.003 + 0.0071 * turn)
            writer.send_signal(signal.SIGKILL)
        devices = read_document(path).devices
        assert devices[0] == entry("other")
        assert all(len(item.routes) == 60 for item in devices[1:])
    store_profile(entry("last"), path, wait_s=1)
    assert not [name for name in names(path.parent) if name.endswith("-tmp")]
