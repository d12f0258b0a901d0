"""Where the profile file is: a function of the environment and the platform alone.

Source: engine-profiles, section 1.5. No ``~`` and no variable inside a value is expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "device-profiles.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """The profile file's path, and why it is that one.

    Args:
        path: as the engine would open it; relative paths are relative to the current directory.
        source: ``--device-profile-path``, the variable that decided, or ``current directory``.
        reason: one sentence for people.
    """

    path: str
    source: str
    reason: str


def profile_location(environment: Mapping[str, str], *, platform: str, explicit: str = "") -> Location:
    """Return where the profile file is.

    Args:
        environment: variables by name; an empty value counts as unset.
        platform: as ``sys.platform``; ``win32`` asks ``LOCALAPPDATA`` too.
        explicit: the path option's value; empty when not given.
    """
    if explicit:
        return Location(path=explicit, source="--device-profile-path", reason="the path option names it")
    candidates = [("NINFER_DEVICE_PROFILES", "")]
    if platform == "win32":
        candidates.append(("LOCALAPPDATA", f"\\ninfer\\{FILE_NAME}"))
    candidates += [("XDG_CACHE_HOME", f"/ninfer/{FILE_NAME}"), ("HOME", f"/.cache/ninfer/{FILE_NAME}")]
    unset: list[str] = []
    for name, below in candidates:
        if value := environment.get(name):
            return Location(path=value + below, source=name, reason=_reason(name, unset))
        unset.append(name)
    return Location(path=FILE_NAME, source="current directory", reason=_reason("", unset))


def _reason(name: str, unset: list[str]) -> str:
    before = f"; {', '.join(unset)} {'is' if len(unset) == 1 else 'are'} unset or empty" if unset else ""
    return (
        f"{name} names {'it' if name == 'NINFER_DEVICE_PROFILES' else 'its folder'}{before}"
        if name
        else (f"the current directory is the last resort{before}")
    )
