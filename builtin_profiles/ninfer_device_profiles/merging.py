"""Put an entry into a document, as storing does: pure, without a file.

Source: engine-profiles, section 1.10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ninfer_device_profiles.model import Document, Profile


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """What storing an entry gives.

    Args:
        document: the new document.
        stored: the entry as it now stands in it, with the keys it kept.
        replaced: entries that are no longer there as they were, in document order.
    """

    document: Document
    stored: Profile
    replaced: tuple[Profile, ...] = ()


def merge_entry(document: Document, entry: Profile) -> Merged:
    """Return ``document`` with ``entry`` in place of the entries of the same class and exactly the same SM count.

    Keys that the first of those has and ``entry`` lacks are kept if both were measured against the same catalog;
    bands of one key are never mixed. Provenance and origin are the new entry's; fields this version does not know are
    kept where the new entry does not set them. Without such an entry the new one is appended.
    """
    places = [place for place, item in enumerate(document.devices) if same_device(item, entry)]
    if not places:
        return Merged(document=replace(document, devices=(*document.devices, entry)), stored=entry)
    stored = _keeping(entry, document.devices[places[0]])
    devices = tuple(stored if place in places else item for place, item in enumerate(document.devices))
    replaced = tuple(item for item in (document.devices[place] for place in places) if item != stored)
    return Merged(document=replace(document, devices=devices), stored=stored, replaced=replaced)


def same_device(one: Profile, other: Profile) -> bool:
    """Return whether two entries are of one device when stored: equal class and equal SM count, 0 being no wildcard."""
    return (one.hardware_class, one.multiprocessors) == (other.hardware_class, other.multiprocessors)


def _keeping(entry: Profile, old: Profile) -> Profile:
    stored = replace(entry, extra={**old.extra, **entry.extra})
    new_block, old_block = entry.calibration, old.calibration
    if new_block is None or old_block is None or new_block.route_catalog != old_block.route_catalog:
        return stored
    block = replace(new_block, extra={**old_block.extra, **new_block.extra})
    return replace(stored, calibration=block, routes={**old.routes, **entry.routes})
