"""Read profile documents: every rule of the format, each broken one reported with its position.

Positions are collected while an error unwinds, so sound documents pay nothing for them.

Source of the rules and their order: engine-profiles, section 1.3.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import MAX_LAST, Band, Bands
from ninfer_device_profiles.errors import DocumentError, OtherVersionError, UnreadableError, system_reason
from ninfer_device_profiles.jsontext import MAX_BYTES, at, load_json, refuse_depth, shown, too_large
from ninfer_device_profiles.model import SCHEMA, SCHEMA_VERSION, Calibration, Document, Profile

if TYPE_CHECKING:
    from ninfer_device_profiles.jsontext import Duplicates, Step
    from ninfer_device_profiles.model import JsonValue

_CORRECT = "Correct it there, or remove the file and recalibrate."
_DOCUMENT_FIELDS = frozenset(("schema", "schema_version", "devices"))
_PROFILE_FIELDS = frozenset(("hardware_class", "multiprocessors", "origin", "calibration", "routes"))
_CALIBRATION_FIELDS = frozenset(("route_catalog", "ninfer_build", "cuda_driver", "cuda_runtime", "date"))
_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
_CHUNK = 1 << 20

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class _Fault(Exception):  # noqa: N818 - never leaves this module
    """A broken rule on its way up; each level adds its step."""

    def __init__(self, text: str, *steps: Step) -> None:
        super().__init__(text)
        self.steps: list[Step] = list(reversed(steps))


def parse_document(text: str | bytes, source: str, *, duplicates: Duplicates = "refuse") -> Document:
    """Return the document in ``text``.

    Args:
        text: the JSON text; bytes are UTF-8, a byte-order mark is skipped.
        source: the file's path or another name; it leads every message and stands in for a missing origin.
        duplicates: a key that an object has twice is an error by default, since storing would drop one of its two
            values; ``"last"`` reads the last one, as the engine does.

    Raises:
        OtherVersionError: the schema version is not 2; ``newer`` says on which side.
        DocumentError: anything else that the format forbids.
    """
    data = load_json(text, source, duplicates=duplicates)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = f"schema {shown(data.get('schema'))}" if isinstance(data, dict) else shown(data)
        raise DocumentError(
            f"{source}: {found}: not a {SCHEMA} document; the top level is an object with that schema. "
            "Check the path, or remove the file and recalibrate."
        )
    version = data.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise _other_version(source, version)
    try:
        return _document(data, source)
    except _Fault as fault:
        raise DocumentError(f"{at(source, fault.steps[::-1])}: {fault}. {_CORRECT}") from None


def read_document(path: str | os.PathLike[str], *, duplicates: Duplicates = "refuse") -> Document:
    """Return the document in the file at ``path``.

    Never blocks: a FIFO, directory, socket or device is refused, also one that replaces the file meanwhile.

    Raises:
        UnreadableError: there is no readable regular file, or it is larger than `MAX_BYTES`.
        OtherVersionError, DocumentError: as `parse_document`.
    """
    return parse_document(read_bytes(path), os.fspath(path), duplicates=duplicates)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the regular file at ``path``, at most `MAX_BYTES` of them.

    Raises:
        UnreadableError: as `read_document`.
    """
    source = os.fspath(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        _refuse_special(os.stat(source), source)  # noqa: PTH116 - pathlib would cost its import
        handle = os.open(source, flags)
        try:
            _refuse_special(os.fstat(handle), source)
            return _read_all(handle, source)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise UnreadableError(
            f"{source}: cannot be read ({system_reason(source, error)}); a profile file is a readable regular file. "
            "Check the path and its permissions."
        ) from error


def _refuse_special(found: os.stat_result, source: str) -> None:
    if stat.S_ISREG(found.st_mode):
        if found.st_size > MAX_BYTES:
            raise too_large(source, found.st_size)
        return
    kind = next((name for test, name in _KINDS if test(found.st_mode)), "no regular file")
    raise UnreadableError(f"{source}: {kind}; a profile file is a readable regular file. Name another path.")


def _read_all(handle: int, source: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(handle, _CHUNK):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise too_large(source, None)
    return b"".join(parts)


def _other_version(source: str, version: JsonValue) -> OtherVersionError:
    newer = type(version) is int and version > SCHEMA_VERSION
    what = "written by a newer build" if newer else "written by an older build, or without a version"
    remedy = (
        "Use the build that wrote it, or name another file and recalibrate there; this file stays untouched."
        if newer
        else "Run ninfer-calibrate or --device-profile calibrate to recalibrate, which replaces the file."
    )
    return OtherVersionError(
        f"{source}: schema_version {shown(version)} was {what}; this build reads version {SCHEMA_VERSION} alone. "
        f"{remedy}",
        newer=newer,
    )


def _document(data: dict[str, JsonValue], source: str) -> Document:
    devices = data.get("devices")
    if not isinstance(devices, list):
        raise _Fault(f"{_found(data, 'devices')}; devices is an array of entries", "devices")
    entries: list[Profile] = []
    place = 0
    try:
        for place, item in enumerate(devices):  # noqa: B007 - the error names where it stopped
            entries.append(_profile(item, source))
    except _Fault as fault:
        fault.steps += [place, "devices"]
        raise
    return Document(devices=tuple(entries), extra=_extra(data, _DOCUMENT_FIELDS))


def _profile(item: JsonValue, source: str) -> Profile:
    if not isinstance(item, dict):
        raise _Fault(f"{shown(item)}; an entry is an object")
    for name in ("hardware_class", "routes"):
        if name not in item:
            raise _Fault(f"{name} is missing; an entry has hardware_class and routes")
    hardware_class = _string(item, "hardware_class", "")
    if not hardware_class:
        raise _Fault("empty; hardware_class names the device", "hardware_class")
    multiprocessors = _integer(item, "multiprocessors")
    origin = _string(item, "origin", source)
    calibration = None
    if "calibration" in item:
        try:
            calibration = _calibration(item["calibration"], hardware_class)
        except _Fault as fault:
            fault.steps.append("calibration")
            raise
    routes = item["routes"]
    if not isinstance(routes, dict):
        raise _Fault(f"{shown(routes)}; routes is an object of route keys", "routes")
    return Profile(
        hardware_class=hardware_class,
        multiprocessors=multiprocessors,
        origin=origin,
        calibration=calibration,
        routes=_routes(routes),
        extra=_extra(item, _PROFILE_FIELDS),
        implied_origin=None if "origin" in item else source,
    )


def _calibration(block: JsonValue, hardware_class: str) -> Calibration:
    of = f"of {shown(hardware_class)}"
    if not isinstance(block, dict):
        raise _Fault(f"calibration block {of} is {shown(block)}; it is an object that records route_catalog")
    catalog = block.get("route_catalog")
    if not isinstance(catalog, str) or not catalog:
        raise _Fault(
            f"route_catalog {of}: {_found(block, 'route_catalog')}; "
            "a calibration block records the digest of the catalog that was measured"
        )
    return Calibration(
        route_catalog=catalog,
        ninfer_build=_string(block, "ninfer_build", ""),
        cuda_driver=_integer(block, "cuda_driver"),
        cuda_runtime=_integer(block, "cuda_runtime"),
        date=_string(block, "date", ""),
        extra=_extra(block, _CALIBRATION_FIELDS),
    )


def _routes(routes: dict[str, JsonValue]) -> dict[str, Bands]:
    result: dict[str, Bands] = {}
    key = ""
    try:
        for key, value in routes.items():
            result[key] = _bands(value)
    except _Fault as fault:
        fault.steps += [key, "routes"]
        raise
    return result


def _bands(value: JsonValue) -> Bands:
    if not isinstance(value, list) or not value:
        raise _Fault(f"{shown(value)}; bands are a non-empty array of [last, schedule]")
    bands: list[Band] = []
    reached = 0
    for place, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2:
            raise _Fault(f"{shown(pair)}; a band is [last, schedule]", place)
        last, schedule = pair
        if type(last) is not int:
            raise _Fault(f"{shown(last)}; a band is [last, schedule], last an integer", place, 0)
        if not isinstance(schedule, str):
            raise _Fault(f"{shown(schedule)}; a band is [last, schedule], schedule a string", place, 1)
        if not reached < last <= MAX_LAST:
            raise _Fault(_bound_fault(last, reached), place)
        bands.append(Band(last, schedule))
        reached = last
    return tuple(bands)


def _bound_fault(last: int, reached: int) -> str:
    if last <= 0:
        return f"band ends at width {shown(last)}; widths are positive"
    if last > MAX_LAST:
        return f"band ends at width {shown(last)}; the widest is {MAX_LAST}"
    return f"band ends at width {last} after a band that ends at {reached}; band bounds must increase"


def _string(item: dict[str, JsonValue], name: str, default: str) -> str:
    value = item.get(name, default)
    if not isinstance(value, str):
        raise _Fault(f"{shown(value)}; {name} is a string", name)
    return value


def _integer(item: dict[str, JsonValue], name: str) -> int:
    """Return a count as the engine reads it: a fraction is cut, a boolean is 0 or 1, absent is 0."""
    value = item.get(name, 0)
    if not isinstance(value, bool | int | float):
        raise _Fault(f"{shown(value)}; {name} is an integer", name)
    if not _MIN_INT <= value <= _MAX_INT:
        raise _Fault(f"{shown(value)}; {name} fits 32 bits", name)
    return int(value)


def _extra(item: dict[str, JsonValue], known: frozenset[str]) -> dict[str, JsonValue]:
    if known.issuperset(item):
        return {}
    extra = {name: value for name, value in item.items() if name not in known}
    for name, value in extra.items():
        try:
            refuse_depth(value, "")
        except DocumentError:
            raise _Fault("nested too deeply; unknown fields nest at most 64 levels", name) from None
    return extra


def _found(item: dict[str, JsonValue], name: str) -> str:
    return shown(item[name]) if name in item else "missing"
