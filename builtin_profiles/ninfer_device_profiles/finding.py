"""Find the profile of a device: its entry in the profile file over its entry in the built-in table.

Source: engine-profiles, section 1.8.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.layering import layer
from ninfer_device_profiles.matching import find_entry
from ninfer_device_profiles.reading import read_document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ninfer_device_profiles.model import Profile


class NoteKind(StrEnum):
    """Why a profile file, or its entry, was left aside."""

    SKIPPED = "file skipped"
    NO_CATALOG = "entry without a calibration block"
    OTHER_CATALOG = "entry measured against another catalog"


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """One warning of `find_profile`; ``text`` is the line that the engine's log gets."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What answers for a device.

    Args:
        profile: the layers joined, or the one that exists, or None.
        measured: the file's entry, if it is in force.
        builtin: the built-in table's entry.
        ignored: the file's entry, if it is not in force.
        notes: at most one.
    """

    profile: Profile | None
    measured: Profile | None = None
    builtin: Profile | None = None
    ignored: Profile | None = None
    notes: tuple[Note, ...] = ()


def find_profile(
    hardware_class: str,
    multiprocessors: int,
    *,
    path: str | os.PathLike[str],
    builtin: Iterable[Profile],
    catalog_digest: str,
) -> Found:
    """Return the profile of a device and what it is made of.

    The file's first matching entry decides: if it is stale or has no calibration block, later ones are not tried.
    Entries of the built-in table are not checked against the digest.

    Args:
        hardware_class: see `ninfer_device_profiles.matching.hardware_class`.
        multiprocessors: SM count.
        path: the profile file; empty for none. An absent file is no fault.
        builtin: entries of the built-in table.
        catalog_digest: digest of the catalog that this build measures.
    """
    base = find_entry(builtin, hardware_class, multiprocessors)
    source = os.fspath(path)
    entry: Profile | None = None
    if source and _exists(source):
        try:
            entry = find_entry(read_document(source).devices, hardware_class, multiprocessors)
        except ProfileError as error:
            note = Note(kind=NoteKind.SKIPPED, text=f"device profile file skipped: {error}")
            return Found(profile=base, builtin=base, notes=(note,))
    if entry is None:
        return Found(profile=base, builtin=base)
    stale = note_of(entry, source, catalog_digest)
    if stale is not None:
        return Found(profile=base, builtin=base, ignored=entry, notes=(stale,))
    joined = entry if base is None else layer(entry, base)
    return Found(profile=joined, measured=entry, builtin=base)


def note_of(entry: Profile, source: str, catalog_digest: str) -> Note | None:
    """Return why an entry of the profile file ``source`` is not in force, or None where it is."""
    block = entry.calibration
    if block is None:
        return Note(
            kind=NoteKind.NO_CATALOG,
            text=(
                f"{source}: the entry of {entry.hardware_class} records no route catalog and is ignored. "
                "Recalibrate with ninfer-calibrate or --device-profile calibrate."
            ),
        )
    if block.route_catalog != catalog_digest:
        return Note(
            kind=NoteKind.OTHER_CATALOG,
            text=(
                f"{source}: the entry of {entry.hardware_class} was measured against route catalog "
                f"{block.route_catalog} by build {block.ninfer_build or 'unknown'}; this build has route catalog "
                f"{catalog_digest}, the entry is ignored. "
                "Recalibrate with ninfer-calibrate or --device-profile calibrate."
            ),
        )
    return None


def _exists(source: str) -> bool:
    try:
        os.stat(source)  # noqa: PTH116 - an unreadable folder is a note, not "absent"
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return True
