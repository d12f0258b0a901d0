"""Read a table by path, by ``REV:path``, or by a bare git revision (the built-in table as it was then)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import SourceError
from generator.repository import MAX_SOURCE_BYTES, read_bytes

if TYPE_CHECKING:
    from generator.repository import Repository


def read_table(name: str, repository: Repository) -> bytes:
    """Return the bytes that ``name`` stands for: an existing file first, then ``REV:path``, then a revision.

    Raises:
        SourceError: neither a file nor a revision, a revision without that file, or git is absent.
    """
    if _is_there(name):
        return read_bytes(Path(name), name)
    revision, colon, inside = name.partition(":")
    path = inside if colon else repository.relative(repository.table)
    commit = _commit(revision, name, repository)
    size = _git(repository, "cat-file", "-s", f"{commit}:{path}")
    if size is None:
        raise SourceError(
            f"{name}: revision {revision!r} ({commit[:12]}) has no file {path!r}; paths count from the repository's "
            f"root. Look with `git ls-tree -r --name-only {commit[:12]}`"
        )
    if int(size) > MAX_SOURCE_BYTES:
        raise SourceError(f"{name}: {int(size)} bytes; expected at most {MAX_SOURCE_BYTES}")
    content = _git(repository, "cat-file", "blob", f"{commit}:{path}")
    if content is None:
        raise SourceError(f"{name}: {path!r} is not a file in revision {revision!r}; expected a profile document")
    return content


def _is_there(name: str) -> bool:
    """Return whether ``name`` is a path to something else than a folder; a folder may bear a branch's name."""
    try:
        return bool(name) and Path(name).exists() and not Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _commit(revision: str, name: str, repository: Repository) -> str:
    if _git(repository, "rev-parse", "--git-dir") is None:
        raise SourceError(
            f"{name}: no such file, and {repository.root} is not a git checkout; give a path to a profile document"
        )
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    found = _git(repository, *words) if revision else None
    if found is None:
        raise SourceError(
            f"{name}: neither a file nor a revision of {repository.root}; expected PATH, REV:PATH or REV. "
            "List revisions with `git log --oneline` and `git tag`; fetch history that a shallow clone lacks"
        )
    return found.decode("ascii").strip()


def _git(repository: Repository, *words: str) -> bytes | None:
    """Return the output of one git command, or None where git says no."""
    git = shutil.which("git")
    if git is None:
        raise SourceError("git: not found on PATH; install git, or give both tables as paths")
    try:
        done = subprocess.run(  # noqa: S603 a list of words, no shell; what the user gave is never an option
            [git, "-C", str(repository.root), *words], capture_output=True, check=False
        )
    except (OSError, ValueError) as error:
        raise SourceError(f"git {words[0]}: {error}; give both tables as paths") from None
    return done.stdout if done.returncode == 0 else None
