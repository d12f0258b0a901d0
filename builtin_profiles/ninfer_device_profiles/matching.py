"""Which entry is a device's: hardware class, SM count, first match.

Source: engine-profiles, sections 1.2 and 1.6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ninfer_device_profiles.model import Profile

_OTHER_BYTES = re.compile(rb"[^0-9a-z]+")


def hardware_class(name: str | bytes, capability: tuple[int, int]) -> str:
    """Return the hardware class of a device.

    ASCII letters and digits of the driver's name are kept in lower case, each run of other bytes becomes one hyphen
    (none at the ends); ``nvidia-`` is put in front where it is missing, ``-sm`` and the capability behind.

    Args:
        name: device name as the driver reports it.
        capability: compute capability, (major, minor).
    """
    raw = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else name
    text = _OTHER_BYTES.sub(b"-", raw.lower()).strip(b"-").decode("ascii") or "gpu"
    if text != "nvidia" and not text.startswith("nvidia-"):
        text = f"nvidia-{text}"
    return f"{text}-sm{capability[0]}{capability[1]}"


def matches(entry: Profile, wanted_class: str, multiprocessors: int) -> bool:
    """Return whether ``entry`` serves the device: equal class, and an SM count that is equal or 0 (any)."""
    return entry.hardware_class == wanted_class and entry.multiprocessors in {0, multiprocessors}


def find_entry(entries: Iterable[Profile], wanted_class: str, multiprocessors: int) -> Profile | None:
    """Return the first entry that `matches`, or None; later ones are never looked at."""
    return next((entry for entry in entries if matches(entry, wanted_class, multiprocessors)), None)
