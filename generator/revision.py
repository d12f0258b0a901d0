"""What git says of the checkout: its commit, its newest release, and tables as they were in a revision."""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import SourceError
from generator.files import MAX_SOURCE_BYTES, read_bytes
from generator.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPOCH = re.compile(r"[0-9]{1,12}")


def git_output(root: Path, *words: str) -> str | None:
    """Return the text that ``git WORDS`` prints at ``root``, or None where git is absent or refuses."""
    output = _git(root, *words)
    return None if output is None else output.decode("utf-8", "replace").strip()


def commit_epoch(root: Path) -> int | None:
    """Return the time of the checked-out commit in seconds, or None outside a repository."""
    text = git_output(root, "log", "-1", "--format=%ct")
    return int(text) if text is not None and _EPOCH.fullmatch(text) else None


def uncommitted(root: Path, *paths: str) -> tuple[str, ...]:
    """Return the files below ``paths`` that differ from the checked-out commit, new ones included; none without git."""
    output = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *paths)
    return tuple(os.fsdecode(entry[3:]) for entry in (output or b"").split(b"\0") if entry)


def newest_release(root: Path) -> str | None:
    """Return the newest release tag (``v…``) that the checkout contains, or None."""
    return git_output(root, "describe", "--tags", "--match", "v*", "--abbrev=0") or None


def read_table(name: str, repository: Repository) -> bytes:
    """Return the bytes that ``name`` stands for: an existing file first, then ``REV:path``, then a revision.

    Raises:
        SourceError: neither a file nor a revision, a revision without that file, or git is absent.
    """
    if _is_there(name):
        return read_bytes(Path(name), name)
    if shutil.which("git") is None:
        raise SourceError("git: not found on PATH; install git, or give both tables as paths")
    revision, colon, inside = name.partition(":")
    path = inside if colon else repository.relative(repository.table)
    commit = _commit(revision, name, repository)
    size = _git(repository.root, "cat-file", "-s", f"{commit}:{path}")
    if size is None:
        raise SourceError(
            f"{name}: revision {revision!r} ({commit[:12]}) has no file {path!r}; paths count from the repository's "
            f"root. Look with `git ls-tree -r --name-only {commit[:12]}`"
        )
    if int(size) > MAX_SOURCE_BYTES:
        raise SourceError(f"{name}: {int(size)} bytes; expected at most {MAX_SOURCE_BYTES}")
    content = _git(repository.root, "cat-file", "blob", f"{commit}:{path}")
    if content is None:
        raise SourceError(f"{name}: {path!r} is not a file in revision {revision!r}; expected a profile document")
    return content


@contextmanager
def sources_at(revision: str, repository: Repository) -> Iterator[tuple[Repository, dt.date]]:
    """Lay the sources of ``revision`` out in a folder of their own, for as long as the context lasts.

    Returns:
        The folder as a repository, without the files that are derived, and the day of the commit.

    Raises:
        SourceError: no such revision, or it has no sources.
    """
    if shutil.which("git") is None:
        raise SourceError("git: not found on PATH; install git")
    if ":" in revision or _is_there(revision):
        raise SourceError(
            f"{revision}: names a file; expected a revision, whose sources are derived anew with the extras. "
            "Give two revisions, or compare the tables alone, without --with-extras"
        )
    commit = _commit(revision, revision, repository)
    folders = [repository.relative(repository.sources), repository.relative(repository.reference)]
    archive = _git(repository.root, "archive", "--format=tar", commit, "--", *folders)
    seconds = _git(repository.root, "log", "-1", "--format=%ct", commit)
    if archive is None or seconds is None:
        raise SourceError(
            f"{revision}: revision {commit[:12]} has no {' and '.join(folders)}; expected one of this project's. "
            "Compare the tables alone, without --with-extras"
        )
    with tempfile.TemporaryDirectory(prefix="ninfer-sources-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as content:
            content.extractall(folder, filter="data")
        yield Repository(Path(folder)), dt.datetime.fromtimestamp(int(seconds), tz=dt.UTC).date()


def _is_there(name: str) -> bool:
    """Return whether ``name`` is a path to something else than a folder; a folder may bear a branch's name."""
    try:
        return bool(name) and Path(name).exists() and not Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _commit(revision: str, name: str, repository: Repository) -> str:
    if _git(repository.root, "rev-parse", "--git-dir") is None:
        raise SourceError(
            f"{name}: no such file, and {repository.root} is not a git checkout; give a path to a profile document"
        )
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    found = _git(repository.root, *words) if revision else None
    if found is None:
        raise SourceError(
            f"{name}: neither a file nor a revision of {repository.root}; expected PATH, REV:PATH or REV. "
            "List revisions with `git log --oneline` and `git tag`; fetch history that a shallow clone lacks"
        )
    return found.decode("ascii").strip()


def _git(root: Path, *words: str) -> bytes | None:
    """Return the output of one git command, or None where git is absent or says no."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - git itself, no shell; what the user gave is never an option
            [git, "-C", str(root), *words], capture_output=True, check=False
        )
    except (OSError, ValueError):  # a null byte in a word
        return None
    return done.stdout if done.returncode == 0 else None
