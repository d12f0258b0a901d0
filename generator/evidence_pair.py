"""Evidence of two runs on one card, to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.evidence_file import load_evidence
from generator.errors import UsageError
from generator.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.evidence import Evidence


def load_pair(first: Path, second: Path) -> tuple[Evidence, Evidence]:
    """Return the evidence in two files.

    Raises:
        UsageError: the files are of different cards.
    """
    one, other = (load_evidence(read_text(path, str(path)), str(path)) for path in (first, second))
    ours, theirs = one.device, other.device
    if (ours.hardware_class, ours.multiprocessors) != (theirs.hardware_class, theirs.multiprocessors):
        raise UsageError(
            f"{second}: of {theirs.hardware_class} with {theirs.multiprocessors} SMs, {first} is "
            f"of {ours.hardware_class} with {ours.multiprocessors}; compare two runs on one card"
        )
    return one, other
