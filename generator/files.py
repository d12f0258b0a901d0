"""Files as the verbs read and write them: regular ones alone, of sensible size, replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.atomic import LOCK_SUFFIX, LOCK_WAIT_S, locked, real_target, refusal, replace_files
from ninfer_device_profiles.errors import LockedError, system_reason

from generator.errors import InUseError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from generator.output import Output

MAX_SOURCE_BYTES = 64 * 1024 * 1024
"""No source is near this size; a larger file is refused."""

_CHUNK_BYTES = 1 << 16


def read_chunks(path: Path, name: str) -> Iterator[bytes]:
    """Yield the content of a regular file; a FIFO or device never blocks, and nothing past the limit is read.

    Raises:
        SourceError: not a regular file, too large, or not readable.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            _refuse_special(os.fstat(handle), name)
            size = 0
            while chunk := file.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > MAX_SOURCE_BYTES:
                    raise _too_large(name, f"more than {MAX_SOURCE_BYTES}")
                yield chunk
    except (OSError, ValueError) as error:
        raise _unreadable(path, name, error) from None


def read_bytes(path: Path, name: str) -> bytes:
    """Return the content of a regular file of sensible size.

    Raises:
        SourceError: not a regular file, too large, or not readable.
    """
    return b"".join(read_chunks(path, name))


def read_text(path: Path, name: str) -> str:
    """Return the UTF-8 text of a file, a byte-order mark skipped.

    Raises:
        SourceError: as `read_bytes`, or the content is not UTF-8.
    """
    return utf8(read_bytes(path, name), name)


def utf8(content: bytes, name: str) -> str:
    """Return ``content`` as text, a byte-order mark skipped.

    Raises:
        SourceError: it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{name}: byte {error.start} is not UTF-8; restore the file, or save it as UTF-8") from None


def listed(folder: Path, name: str, pattern: str = "*") -> tuple[Path, ...]:
    """Return what is in ``folder`` and matches ``pattern``, sorted; nothing where there is no such folder.

    Unlike a glob, a folder that cannot be read is an error: sources that cannot be seen are not absent.

    Raises:
        SourceError: ``folder`` is no folder, or cannot be read.
    """
    try:
        names = os.listdir(folder)  # noqa: PTH208 - its errors are the point
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror or error}; expected a readable folder") from None
    return tuple(sorted(path for path in (folder / item for item in names) if path.match(pattern)))


def listed_below(folder: Path, name: str, *patterns: str) -> tuple[Path, ...]:
    """Return what is below ``folder`` and matches one pattern a level, sorted; as `listed` at every level.

    Raises:
        SourceError: a folder on the way cannot be read.
    """
    found = listed(folder, name, patterns[0])
    for pattern in patterns[1:]:
        names = {path: f"{name}/{path.relative_to(folder).as_posix()}" for path in found if path.is_dir()}
        found = tuple(item for path, label in names.items() for item in listed(path, label, pattern))
    return found


def write_files(files: Mapping[Path, bytes]) -> tuple[Path, ...]:
    """Write the files whose content differs, all of them or none; return those written.

    Raises:
        StoreError: a file could not be written; all are as they were.
    """
    changed: dict[str, bytes] = {}
    written: list[Path] = []
    for path, content in files.items():
        target = real_target(str(path))
        try:
            if _holds(Path(target), content):
                continue
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise refusal(str(path), error) from None
        changed[target] = content
        written.append(path)
    replace_files(changed)
    return tuple(written)


@contextmanager
def held(path: Path, holder: str, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold ``path`` against every other command, by a lock of the system beside it: one that is killed leaves none.

    Args:
        path: what is held; it need not be there, folders on the way are made.
        holder: who else may hold it, as the message says it.
        wait_s: how long to wait for the other command.

    Raises:
        InUseError: another command holds it for longer.
        StoreError: the folder cannot be written.
    """
    with ExitStack() as lock:
        target = real_target(str(path))
        try:
            lock.enter_context(locked(target, wait_s=wait_s))
        except LockedError:
            waited = f" for {wait_s:g} s" if wait_s else ""
            raise InUseError(
                f"{path}: {holder} holds it{waited} (lock {target}{LOCK_SUFFIX}); expected one at a time. Wait for it "
                "or end it, then repeat the command; the system frees the lock of a command that was killed"
            ) from None
        yield


def _holds(target: Path, content: bytes) -> bool:
    """Return whether ``target`` is a regular file with this content already; a device or FIFO is never opened."""
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == len(content) and target.read_bytes() == content


def _refuse_special(found: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"{name}: {_kind(found.st_mode)}; expected a file. Check the path")
    if found.st_size > MAX_SOURCE_BYTES:
        raise _too_large(name, str(found.st_size))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISLNK(mode):
        return "a loop of symbolic links"
    return "not a regular file"


def _too_large(name: str, size: str) -> SourceError:
    return SourceError(f"{name}: {size} bytes; expected at most {MAX_SOURCE_BYTES}. Check the path")


def _unreadable(path: Path, name: str, error: Exception) -> SourceError:
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{name}: a folder; expected a file. Check the path")
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{name}: not there; expected a file. Check the path")
    if isinstance(error, OSError):
        with suppress(OSError, ValueError):
            if not stat.S_ISREG(path.stat().st_mode):
                return SourceError(f"{name}: {_kind(path.stat().st_mode)}; expected a file. Check the path")
    return SourceError(f"{name}: {system_reason(str(path), error)}; check the path and its permissions")


def write_report(text: str, path: Path | None, output: Output) -> None:
    """Write a report to ``path``, or to stdout where there is none.

    Raises:
        StoreError: the file could not be written; it is as it was.
    """
    if path is None:
        output.text(text)
        return
    write_files({path: text.encode()})
    output.note(f"wrote {path}")
