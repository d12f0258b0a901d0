"""Imported sources: entries taken over from an engine document, one file a device, with where they came from.

Each file holds a digest of its own content, so that an edit by hand does not pass for what the engine wrote.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import Document, Profile, parse_document, profile_to_json
from ninfer_device_profiles.errors import ProfileError

from generator.core.texts import load_json
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog

FORMAT = "ninfer-profile-generator.imported-entry"
VERSION = 2

_OWN = ("format", "version", "taken_from", "digest")
"""Names that a source has beside those of its entry."""

_CLASS = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-sm[0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """One device's entry and the document it was taken from (its base name and SHA-256)."""

    profile: Profile
    file: str
    sha256: str


def source_name(hardware_class: str, multiprocessors: int) -> str:
    """Return the file name of a device's source.

    Raises:
        SourceError: the class is not of the form the engine writes, so it cannot safely name a file.
    """
    if not _CLASS.fullmatch(hardware_class) or multiprocessors <= 0:
        raise SourceError(
            f"entry {hardware_class!r} with {multiprocessors} SMs: expected a class of lower-case words that ends in "
            "-sm and digits, and a positive SM count; take the entry from a file that the engine or its tool wrote"
        )
    return f"{hardware_class}.{multiprocessors}.json"


def take_entries(text: bytes, source: str, sha256: str, catalog: Catalog) -> tuple[tuple[Imported, ...], list[str]]:
    """Return every entry of an engine document as a source, and notes on what is odd in them.

    A calibrated entry of another catalog, and a key or schedule that the catalog does not have, is an error: a table
    made from it would name schedules that the build ignores.

    Raises:
        DocumentError: ``text`` is no profile document of this version.
        SourceError: an entry cannot be taken.
    """
    document = parse_document(text, source)
    if not document.devices:
        raise SourceError(f"{source} ['devices']: no entry; nothing to import")
    file = source.replace("\\", "/").rpartition("/")[2]
    taken: dict[str, Imported] = {}
    notes: list[str] = []
    for profile in document.devices:
        name = source_name(profile.hardware_class, profile.multiprocessors)
        if name in taken:
            notes.append(f"{profile.hardware_class}: a second entry of the same device was left out; the first answers")
            continue
        _check(profile, source, catalog, notes)
        taken[name] = Imported(profile=profile, file=file, sha256=sha256)
    return tuple(taken.values()), notes


def _check(profile: Profile, source: str, catalog: Catalog, notes: list[str]) -> None:
    taken = [name for name in _OWN if name in profile_to_json(profile)]
    if taken:
        raise SourceError(
            f"{source} [{profile.hardware_class!r}]: has the unknown fields {taken!r}, whose names a source needs "
            "itself; expected other names. Rename or remove them there"
        )
    block = profile.calibration
    if block is not None and block.route_catalog != catalog.digest():
        raise SourceError(
            f"{source} [{profile.hardware_class!r}]: measured against route catalog {block.route_catalog!r} by build "
            f"{block.ninfer_build!r}; this catalog is {catalog.digest()!r}. Measure again with a build of this catalog."
        )
    for key, bands in profile.routes.items():
        where = f"{source} [{profile.hardware_class!r}] ['routes'] [{key!r}]"
        route = catalog.routes.get(catalog.route(key, f"{source} [{profile.hardware_class!r}]").key)
        assert route is not None
        first = 1
        for band in bands:
            candidate = route.candidate(band.schedule)
            if band.schedule and candidate is None:
                names = [item.schedule for item in route.candidates]
                raise SourceError(f"{where}: schedule {band.schedule!r}; expected one of {names!r} or ''")
            if candidate is not None and not candidate.legal(band.last):
                notes.append(
                    f"{profile.hardware_class} {key}: {band.schedule!r} at widths {first} to {band.last} reaches "
                    "beyond its legal widths; the engine ignores it there"
                )
            first = band.last + 1


def write_imported(imported: Imported) -> str:
    """Return the canonical text of an imported source: one route a line, keys in byte order, its digest on a line."""
    return _rendered(imported, {"digest": content_digest(imported)})


def content_digest(imported: Imported) -> str:
    """Return the SHA-256, in hexadecimal, of the canonical text without the line of the digest."""
    return hashlib.sha256(_rendered(imported, {}).encode()).hexdigest()


def _rendered(imported: Imported, digest: Mapping[str, str]) -> str:
    fields = profile_to_json(imported.profile)
    routes = fields.pop("routes")
    assert isinstance(routes, dict)
    origin = {"file": imported.file, "sha256": imported.sha256}
    head = {"format": FORMAT, "version": VERSION, "taken_from": origin, **digest, **fields}
    lines = [f"  {_text(key)}: {_text(value)}," for key, value in head.items()]
    rows = ",\n".join(f"    {_text(key)}: {_text(bands)}" for key, bands in routes.items())
    body = f'  "routes": {{\n{rows}\n  }}' if routes else '  "routes": {}'
    return "{\n" + "\n".join(lines) + f"\n{body}\n}}\n"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_imported(text: bytes, source: str) -> Imported:
    """Return the imported source in ``text``.

    Layout and the order of keys are free; content that `write_imported` did not write is refused.

    Raises:
        SourceError: the text is no imported source, or its content is not what its digest is of.
    """
    data = load_json(text, source, "restore the file, or import the entry again")
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise SourceError(f"{source}: not a {FORMAT} of version {VERSION}; restore the file, or import the entry again")
    origin = data.get("taken_from")
    if not isinstance(origin, dict) or not all(isinstance(origin.get(name), str) for name in ("file", "sha256")):
        raise SourceError(f"{source} ['taken_from']: found {origin!r}; expected the names 'file' and 'sha256'")
    digest = data.get("digest")
    entry = {key: value for key, value in data.items() if key not in _OWN}
    wrapped = {"schema": "ninfer.device-route-profiles", "schema_version": 2, "devices": [entry]}
    try:
        document: Document = parse_document(json.dumps(wrapped, ensure_ascii=False), source)
    except (ProfileError, ValueError) as error:
        raise SourceError(str(error)) from None
    imported = Imported(profile=document.devices[0], file=origin["file"], sha256=origin["sha256"])
    if digest != content_digest(imported):
        raise SourceError(
            f"{source}: edited by hand: its content has the digest {content_digest(imported)!r}, expected {digest!r}, "
            "that of the import. Import the document that has the change (`python -m generator import FILE`), decide "
            "the key in sources/overrides.toml, or restore the file"
        )
    return imported
