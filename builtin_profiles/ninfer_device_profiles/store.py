"""Store an entry in the profile file, and bring a replaced one back.

Where the engine takes no lock and no flush, this does both: storing holds a lock beside the file, never loses another
process's entry, keeps fields it does not know, and leaves the file untouched on any failure.

A way back: what storing replaces goes first into ``<file>.replaced``, itself a profile document, newest first, at most
`KEPT` entries a device. A file of an older version, which storing replaces as a whole, is kept as
``<file>.old-version``; a damaged file of replaced entries as ``<file>.replaced.unreadable``.

Source: engine-profiles, sections 1.10 and 1.11.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ninfer_device_profiles.atomic import LOCK_WAIT_S, locked, real_target, refusal, replace_file
from ninfer_device_profiles.errors import DocumentError, OtherVersionError, ProfileError, StoreError
from ninfer_device_profiles.merging import Merged, merge_entry, same_device
from ninfer_device_profiles.model import Document
from ninfer_device_profiles.reading import parse_document, read_bytes
from ninfer_device_profiles.writing import profile_to_json, serialise

if TYPE_CHECKING:
    from collections.abc import Callable

    from ninfer_device_profiles.model import Profile

REPLACED_SUFFIX = ".replaced"
OLD_SUFFIX = ".old-version"
UNREADABLE_SUFFIX = ".unreadable"

KEPT = 8
"""Replaced entries that are kept a device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What storing did.

    Args:
        profile: the entry as it now stands in the file, with the keys it kept.
        path: the file that was written, symbolic links followed.
        changed: False where the file already held exactly this.
        replaced: entries that the file no longer holds as they were; they are in the file beside it.
    """

    profile: Profile
    path: str
    changed: bool
    replaced: tuple[Profile, ...] = ()


def store_profile(profile: Profile, path: str | os.PathLike[str], *, wait_s: float = LOCK_WAIT_S) -> Stored:
    """Put ``profile`` into the profile file at ``path`` and return what now stands there.

    Entries of the same class and exactly the same SM count are replaced (keys that ``profile`` lacks are kept if both
    were measured against one catalog); other devices' entries stay as they are. A file of an older version is replaced
    as a whole.

    Raises:
        StoreError: the file is of a newer version, is no profile document, or cannot be written, or ``profile``
            cannot be. The file is then as it was.
    """
    return _update(path, lambda document, _: merge_entry(document, profile), wait_s)


def restore_profile(
    hardware_class: str, multiprocessors: int, path: str | os.PathLike[str], *, wait_s: float = LOCK_WAIT_S
) -> Stored:
    """Bring the device's newest replaced entry back, whole, and keep the present one in its place.

    So restoring twice gives the present entry again.

    Raises:
        StoreError: no replaced entry is kept, or the file cannot be written. The file is then as it was.
    """

    def exchange(document: Document, target: str) -> Merged:
        kept = replaced_entries(target, hardware_class, multiprocessors)
        if not kept:
            raise StoreError(
                f"{target}{REPLACED_SUFFIX}: no replaced entry of {hardware_class!r} with {multiprocessors} SMs; "
                "storing keeps one when it replaces one. List what is kept with `ninfer-profiles list --replaced`."
            )
        return _exchanged(document, kept[0])

    return _update(path, exchange, wait_s)


def replaced_entries(
    path: str | os.PathLike[str], hardware_class: str | None = None, multiprocessors: int | None = None
) -> tuple[Profile, ...]:
    """Return the replaced entries kept beside ``path``, newest first; none where nothing was replaced.

    Raises:
        DocumentError: the file beside ``path`` is damaged.
    """
    beside = real_target(os.fspath(path)) + REPLACED_SUFFIX
    if not os.path.lexists(beside):
        return ()
    return tuple(
        entry
        for entry in parse_document(read_bytes(beside), beside).devices
        if hardware_class in {None, entry.hardware_class} and multiprocessors in {None, entry.multiprocessors}
    )


def _update(path: str | os.PathLike[str], change: Callable[[Document, str], Merged], wait_s: float) -> Stored:
    target = real_target(os.fspath(path))
    if os.path.lexists(target) and not os.path.isfile(target):  # noqa: PTH113 - paths stay text
        raise StoreError(f"{target}: no regular file; a profile file is one. Name another path.")
    with locked(target, wait_s=wait_s):
        before = _bytes_or_none(target)
        document, outdated = _present(before, target)
        merged = change(document, target)
        data = _checked_bytes(merged.document, target)
        changed = data != before
        if changed:
            if outdated and before is not None:
                replace_file(target + OLD_SUFFIX, before, like=target)
            if merged.replaced:
                _remember(merged.replaced, target)
            replace_file(target, data)
    return Stored(profile=merged.stored, path=target, changed=changed, replaced=merged.replaced)


def _bytes_or_none(target: str) -> bytes | None:
    if not os.path.lexists(target):
        return None
    try:
        return read_bytes(target)
    except DocumentError as error:
        raise _not_stored(error) from error


def _present(before: bytes | None, target: str) -> tuple[Document, bool]:
    """Return the document in force, and whether the file holds one of an older version."""
    if before is None:
        return Document(), False
    try:
        return parse_document(before, target), False
    except OtherVersionError as error:
        if error.newer:
            raise _not_stored(error) from error
        return Document(), True
    except DocumentError as error:
        raise _not_stored(error) from error


def _checked_bytes(document: Document, target: str) -> bytes:
    """Return the text to write, once reading it back gives a sound document."""
    try:
        data = serialise(document).encode("utf-8")
        parse_document(data, f"{target} as it would be written")
    except DocumentError as error:
        raise _not_stored(error) from error
    return data


def _exchanged(document: Document, wanted: Profile) -> Merged:
    places = [place for place, item in enumerate(document.devices) if same_device(item, wanted)]
    others = [item for place, item in enumerate(document.devices) if place not in places]
    others.insert(places[0] if places else len(others), wanted)
    replaced = tuple(item for item in (document.devices[place] for place in places) if not _same_text(item, wanted))
    return Merged(document=replace(document, devices=tuple(others)), stored=wanted, replaced=replaced)


def _remember(entries: tuple[Profile, ...], target: str) -> None:
    """Write ``entries`` to the file of replaced ones, before they leave the profile file."""
    beside = target + REPLACED_SUFFIX
    try:
        kept = list(replaced_entries(target))
    except DocumentError:
        kept = []
        try:
            os.replace(beside, beside + UNREADABLE_SUFFIX)  # noqa: PTH105
        except OSError as error:
            raise refusal(beside, error) from error
    result: list[Profile] = []
    for entry in (*entries, *kept):
        same = [item for item in result if same_device(item, entry)]
        if len(same) < KEPT and not any(_same_text(item, entry) for item in same):
            result.append(entry)
    replace_file(beside, _checked_bytes(Document(devices=tuple(result)), beside), like=target)


def _same_text(one: Profile, other: Profile) -> bool:
    return profile_to_json(one) == profile_to_json(other)


def _not_stored(error: ProfileError) -> StoreError:
    return StoreError(f"{error} Nothing was stored; the file is as it was.")
