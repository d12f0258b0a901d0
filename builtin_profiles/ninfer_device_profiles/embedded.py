"""What this package carries: the built-in table, the catalog it was built from, and how it was built.

Three files lie in the package:

* ``device_profiles.json``: the built-in table, a profile document in the one-route-per-line layout;
* ``catalog.json``: every route key with its candidates, as `render_catalog` writes it;
* ``build_info.json``: digests of the other two and of the sources, as `render_build_info` writes it.

All three are written by the generator's ``emit`` and re-checked by ``ninfer-profiles verify``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import parse_document
from ninfer_device_profiles.errors import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.resources.abc import Traversable

    from ninfer_device_profiles.document import Document

TABLE = "device_profiles.json"
CATALOG = "catalog.json"
BUILD_INFO = "build_info.json"

TABLE_SOURCE = "compiled device profiles"
"""Name that stands for the built-in table in messages, as the engine has it."""

CATALOG_FORMAT = "ninfer.route-catalog"
BUILD_INFO_FORMAT = "ninfer.profile-build-info"
FORMAT_VERSION = 1

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_WORD = (1 << 64) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogCandidate:
    """One schedule of a key and the widths at which the engine takes it; ``max_width`` None is "no upper end"."""

    schedule: str
    min_width: int = 1
    max_width: int | None = None

    def legal(self, width: int) -> bool:
        """Return whether the engine takes the schedule at ``width``; elsewhere it ignores the name."""
        return self.min_width <= width and (self.max_width is None or width <= self.max_width)


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogKey:
    """One route key of the catalog.

    Args:
        key: route key.
        candidates: in catalog order, which counts for the digest.
        calibrated: whether calibration measures the key, and so whether the digest covers it.
        acts_under: (route key, schedule) inside which alone a switch acts, or None.
    """

    key: str
    candidates: tuple[CatalogCandidate, ...]
    calibrated: bool = True
    acts_under: tuple[str, str] | None = None

    def candidate(self, schedule: str) -> CatalogCandidate | None:
        """Return the candidate named ``schedule``, or None."""
        return next((item for item in self.candidates if item.schedule == schedule), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedCatalog:
    """The catalog that the package was built from: its stated digest, and its keys by name."""

    digest: str
    keys: Mapping[str, CatalogKey]

    def computed_digest(self) -> str:
        """Return the digest that the calibrated keys give; it equals ``digest`` in a sound package."""
        return catalog_digest(item for item in self.keys.values() if item.calibrated)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildInfo:
    """How the package's data was made.

    Args:
        generator_version: version of the generator that emitted the files.
        table_sha256: of ``device_profiles.json``, 64 lower-case hexadecimal digits.
        catalog_sha256: of ``catalog.json``, likewise.
        catalog_digest: the 16-digit digest that profile entries record as ``route_catalog``.
        sources: path below the generator's ``sources`` folder -> SHA-256 of that file.
    """

    generator_version: str
    table_sha256: str
    catalog_sha256: str
    catalog_digest: str
    sources: Mapping[str, str] = field(default_factory=dict)


def catalog_digest(keys: Iterable[CatalogKey]) -> str:
    """Return the engine's digest of ``keys``: FNV-1a, 64 bit, 16 lower-case hexadecimal digits.

    Keys are fed in byte order, each followed by a newline byte and its candidates in the given order, each of which
    is followed by a zero byte (engine-profiles, Appendix A).
    """
    value = _FNV_OFFSET
    for item in sorted(keys, key=lambda item: item.key.encode()):
        names = b"".join(candidate.schedule.encode() + b"\0" for candidate in item.candidates)
        for byte in item.key.encode() + b"\n" + names:
            value = ((value ^ byte) * _FNV_PRIME) & _WORD
    return f"{value:016x}"


def render_catalog(keys: Iterable[CatalogKey]) -> str:
    """Return the text of ``catalog.json``: keys in byte order, one a line, one final newline.

    A candidate is ``[schedule, first width, last width or null]``.
    """
    ordered = sorted(keys, key=lambda item: item.key.encode())
    digest = catalog_digest(item for item in ordered if item.calibrated)
    lines = []
    for item in ordered:
        value: dict[str, object] = {
            "calibrated": item.calibrated,
            "candidates": [[c.schedule, c.min_width, c.max_width] for c in item.candidates],
        }
        if item.acts_under is not None:
            value["acts_under"] = list(item.acts_under)
        lines.append(f"  {_text(item.key)}: {_text(value)}")
    body = "{\n" + ",\n".join(lines) + "\n }" if lines else "{}"
    return (
        f'{{\n "format": {_text(CATALOG_FORMAT)},\n "format_version": {FORMAT_VERSION},\n'
        f' "digest": {_text(digest)},\n "keys": {body}\n}}\n'
    )


def render_build_info(info: BuildInfo) -> str:
    """Return the text of ``build_info.json``: one fact a line, sources sorted, one final newline."""
    value = {
        "format": BUILD_INFO_FORMAT,
        "format_version": FORMAT_VERSION,
        "generator_version": info.generator_version,
        "table_sha256": info.table_sha256,
        "catalog_sha256": info.catalog_sha256,
        "catalog_digest": info.catalog_digest,
        "sources": {name: info.sources[name] for name in sorted(info.sources, key=lambda name: name.encode())},
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def read_embedded(name: str, folder: Traversable | None = None) -> bytes:
    """Return the bytes of an embedded file.

    Args:
        name: `TABLE`, `CATALOG` or `BUILD_INFO`.
        folder: where the files lie; the package itself when None.

    Raises:
        EmbeddedError: the file is absent or cannot be read.
    """
    place = resources.files(__package__) if folder is None else folder
    try:
        return place.joinpath(name).read_bytes()
    except OSError as error:
        raise EmbeddedError(
            f"{name}: not readable in the package ({error.strerror or error}); "
            "a whole package carries it. Reinstall ninfer-device-profiles."
        ) from error


def load_table(folder: Traversable | None = None) -> Document:
    """Return the built-in table, read afresh; see `builtin_table` for the one that is kept.

    Raises:
        EmbeddedError: the file is absent.
        DocumentError: the file is no profile document of this version.
    """
    return parse_document(read_embedded(TABLE, folder), TABLE_SOURCE)


def load_catalog(folder: Traversable | None = None) -> EmbeddedCatalog:
    """Return the embedded catalog, read afresh.

    Raises:
        EmbeddedError: the file is absent or not as `render_catalog` writes it.
    """
    data = _document(CATALOG, CATALOG_FORMAT, folder)
    try:
        digest, keys = data["digest"], data["keys"]
        if not isinstance(digest, str) or not isinstance(keys, dict):
            raise _damaged(CATALOG, "'digest' is no string or 'keys' no object")
        return EmbeddedCatalog(digest=digest, keys={key: _catalog_key(key, value) for key, value in keys.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(CATALOG, f"{type(error).__name__} at {error}") from error


def load_build_info(folder: Traversable | None = None) -> BuildInfo:
    """Return the embedded build info, read afresh.

    Raises:
        EmbeddedError: the file is absent or not as `render_build_info` writes it.
    """
    data = _document(BUILD_INFO, BUILD_INFO_FORMAT, folder)
    names = ("generator_version", "table_sha256", "catalog_sha256", "catalog_digest")
    texts = {name: value for name in names if isinstance(value := data.get(name), str)}
    sources = data.get("sources")
    if len(texts) != len(names) or not isinstance(sources, dict):
        missing = sorted({*names, "sources"} - set(texts) - ({"sources"} if isinstance(sources, dict) else set()))
        raise _damaged(BUILD_INFO, f"{', '.join(missing)} absent or of another type")
    return BuildInfo(**texts, sources={str(name): str(digest) for name, digest in sources.items()})


@cache
def builtin_table() -> Document:
    """Return the package's built-in table; read once and kept."""
    return load_table()


@cache
def builtin_catalog() -> EmbeddedCatalog:
    """Return the package's catalog; read once and kept."""
    return load_catalog()


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _document(name: str, form: str, folder: Traversable | None) -> dict[str, object]:
    try:
        data = json.loads(read_embedded(name, folder).decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(name, str(error)) from error
    if not isinstance(data, dict) or data.get("format") != form or data.get("format_version") != FORMAT_VERSION:
        raise _damaged(name, f"no {form} document of version {FORMAT_VERSION}")
    return data


def _catalog_key(key: str, value: object) -> CatalogKey:
    if not isinstance(value, dict):
        raise TypeError(repr(key))
    under = value.get("acts_under")
    return CatalogKey(
        key=key,
        candidates=tuple(
            CatalogCandidate(
                schedule=str(schedule), min_width=int(first), max_width=None if last is None else int(last)
            )
            for schedule, first, last in value["candidates"]
        ),
        calibrated=bool(value["calibrated"]),
        acts_under=None if under is None else (str(under[0]), str(under[1])),
    )


def _damaged(name: str, what: str) -> EmbeddedError:
    return EmbeddedError(f"{name}: {what}; the generator's emit writes it otherwise. Reinstall ninfer-device-profiles.")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
