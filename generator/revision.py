"""What git says of the checkout; never an error where there is no git."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def git_output(root: Path, *words: str) -> str | None:
    """Return what ``git WORDS`` prints at ``root``, or None where git is absent or refuses."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(root), *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - git itself, no shell
    return result.stdout.strip() if result.returncode == 0 else None


def commit_epoch(root: Path) -> int | None:
    """Return the time of the checked-out commit in seconds, or None outside a repository."""
    text = git_output(root, "log", "-1", "--format=%ct")
    return int(text) if text is not None and text.isdecimal() else None


def newest_release(root: Path) -> str | None:
    """Return the newest release tag (``v…``) that the checkout contains, or None."""
    return git_output(root, "describe", "--tags", "--match", "v*", "--abbrev=0") or None
