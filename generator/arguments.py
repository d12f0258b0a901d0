"""Arguments that verbs share: what a number may be is said once, and a wrong one is a usage error (exit 2)."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

_DIGITS = re.compile(r"[0-9]{1,9}")


def add_root(parser: ArgumentParser) -> None:
    """Add ``--root``, the checkout that a verb reads and writes."""
    parser.add_argument("--root", type=Path, help="the checkout (default: the one this code runs from)")


def device_index(text: str) -> int:
    """Return the CUDA device index in ``text``."""
    if not _DIGITS.fullmatch(text):
        raise ArgumentTypeError(f"{_shown(text)}; expected a CUDA device index (0, 1, …)")
    return int(text)


def device_or_all(text: str) -> int | None:
    """Return the CUDA device index in ``text``, None for ``all``."""
    if text == "all":
        return None
    if not _DIGITS.fullmatch(text):
        raise ArgumentTypeError(f"{_shown(text)}; expected a CUDA device index (0, 1, …) or all")
    return int(text)


def count(text: str) -> int:
    """Return the number from 1 in ``text``."""
    if not _DIGITS.fullmatch(text) or int(text) < 1:
        raise ArgumentTypeError(f"{_shown(text)}; expected a whole number from 1")
    return int(text)


def share(text: str) -> float:
    """Return the share in ``text``: from 0, below 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise ArgumentTypeError(f"{_shown(text)}; expected a share from 0, below 1, such as 0.03")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
