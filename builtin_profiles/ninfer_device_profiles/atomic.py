"""Replace a file so that it is the old one or the new one, whole, whatever happens; and hold a lock beside it.

Mode and ownership stay. A symbolic link keeps being one: the file it points to is replaced. Both bytes and the folder
are flushed to disk.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ninfer_device_profiles.errors import LockedError, StoreError, system_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOCK_SUFFIX = ".lock"
LOCK_WAIT_S = 30.0
"""How long a writer waits for another one before it gives up."""

_TEMPORARY = ".ninfer-tmp"


def real_target(path: str) -> str:
    """Return the file that ``path`` names, symbolic links followed, so that all its names share one lock.

    Raises:
        StoreError: the path is none, or its links form a loop.
    """
    try:
        target = os.path.realpath(path)
        if os.path.islink(target):  # noqa: PTH114 - a loop is what realpath leaves as it is
            raise StoreError(f"{path}: symbolic links form a loop; a profile file is a regular file. Mend the links.")
    except (OSError, ValueError) as error:
        raise refusal(path, error) from error
    return target


@contextmanager
def locked(target: str, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock of ``target``, a file ``<target>.lock`` beside it, against threads and processes.

    Missing parent folders are created. What a killed writer left behind is removed.

    Raises:
        LockedError: another process holds the lock for longer than ``wait_s``.
        StoreError: the folder cannot be written.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - readers never pay for it

    lock = FileLock(target + LOCK_SUFFIX, timeout=wait_s)
    try:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)  # noqa: PTH103, PTH120 - paths stay text
        # Where no file can be created the lock would wait as if another process held it.
        os.close(os.open(target + LOCK_SUFFIX, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666))
        lock.acquire()
    except Timeout as error:
        raise LockedError(
            f"{target}{LOCK_SUFFIX}: held by another process for {wait_s:g} s; one writer at a time. "
            "Wait for the other process, or end it."
        ) from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise refusal(target, error) from error
    try:
        _remove_leftovers(target)
        yield
    finally:
        lock.release()


def replace_file(target: str, data: bytes, *, like: str | None = None) -> None:
    """Make ``data`` the content of ``target``; the caller holds its lock.

    A file that is there keeps its mode and ownership; a new one takes those of ``like`` where that is given and there.

    Raises:
        StoreError: anything went wrong; ``target`` is as it was and no temporary file is left.
    """
    replace_files({target: data}, like=like)


def replace_files(files: Mapping[str, bytes], *, like: str | None = None) -> None:
    """Replace several files as `replace_file` does one: all are written beside their places before the first moves.

    So a full disk, a folder that cannot be written or a target that is no file leaves every one as it was.

    Raises:
        StoreError: anything went wrong, and no temporary file is left.
    """
    ready: list[tuple[str, str]] = []
    target = ""
    try:
        for target, data in files.items():
            before = _stat(target)
            if before is not None and not stat.S_ISREG(before.st_mode):
                raise StoreError(f"{target}: no regular file; a written file is one. Name another path.")
            ready.append((target, f"{target}.{secrets.token_hex(6)}{_TEMPORARY}"))
            _write_new(ready[-1][1], data, _stat(like) if before is None and like is not None else before)
        for target, temporary in ready:
            os.replace(temporary, target)  # noqa: PTH105
    except (OSError, ValueError) as error:
        raise refusal(target, error) from error
    finally:
        for _, temporary in ready:
            with suppress(OSError, ValueError):
                os.unlink(temporary)  # noqa: PTH108
    for folder in {os.path.dirname(target) for target in files}:  # noqa: PTH120
        _flush_folder(folder)


def refusal(path: str, error: Exception) -> StoreError:
    """Return the error for a write that the system refused."""
    return StoreError(
        f"{path}: cannot be written ({system_reason(path, error)}); the file is as it was. "
        "Free space or mend permissions, or name another path."
    )


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - paths stay text
    except FileNotFoundError:
        return None


def _write_new(path: str, data: bytes, like: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o600 if like is not None else 0o666)
    try:
        if like is not None:
            _make_alike(handle, like)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_alike(handle: int, like: os.stat_result) -> None:
    """Give the new file the old one's owner and mode; a group alone where we may not give files away."""
    if hasattr(os, "fchown"):
        try:
            os.fchown(handle, like.st_uid, like.st_gid)
        except PermissionError:
            with suppress(PermissionError):
                os.fchown(handle, -1, like.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _flush_folder(folder: str) -> None:
    """Flush the rename itself; where folders cannot be flushed the rename is as safe as the system makes it."""
    with suppress(OSError):
        handle = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_leftovers(target: str) -> None:
    """Remove temporary files of writers that were killed; we hold the lock, so none of them is in use."""
    folder, name = os.path.split(target)
    with suppress(OSError):
        for found in os.listdir(folder or "."):  # noqa: PTH208
            if found.startswith(f"{name}.") and found.endswith(_TEMPORARY):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, found))  # noqa: PTH108, PTH118
