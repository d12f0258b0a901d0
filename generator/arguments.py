"""Types of command-line arguments: what a number may be is said once, and a wrong one is a usage error (exit 2)."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError

_DIGITS = re.compile(r"[0-9]{1,9}")


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
