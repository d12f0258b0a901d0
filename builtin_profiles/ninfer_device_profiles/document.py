"""Profile documents: read, check and write ``ninfer.device-route-profiles``, schema version 2."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import MAX_LAST, Band, Bands
from ninfer_device_profiles.errors import DocumentError, OtherVersionError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "ninfer.device-route-profiles"
SCHEMA_VERSION = 2

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a calibrated entry records of the run that measured it.

    ``cuda_driver`` and ``cuda_runtime`` are CUDA's encoded versions (13010 is 13.1, 0 unknown); ``date`` is UTC,
    ``YYYY-MM-DDTHH:MM:SSZ``. ``extra`` holds fields this version does not know.
    """

    route_catalog: str
    ninfer_build: str = ""
    cuda_driver: int = 0
    cuda_runtime: int = 0
    date: str = ""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One device's entry. ``multiprocessors`` 0 stands for any SM count when an entry is looked up."""

    hardware_class: str
    multiprocessors: int = 0
    origin: str = ""
    calibration: Calibration | None = None
    routes: Mapping[str, Bands] = field(default_factory=dict)
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole document; the order of ``devices`` counts, since the first match answers."""

    devices: tuple[Profile, ...] = ()
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


def parse_document(text: str | bytes, source: str) -> Document:
    """Return the document in ``text``.

    Args:
        text: the JSON text; bytes are UTF-8, a byte-order mark is skipped.
        source: the file's path or another name; it leads every message and stands in for a missing origin.

    Raises:
        OtherVersionError: the schema version is not 2; ``newer`` says on which side.
        DocumentError: anything else that the format forbids.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise DocumentError(f"{source}: not a {SCHEMA} document")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise OtherVersionError(f"{source}: schema version {version!r}; recalibrate", newer=newer)
    devices = tuple(_profile(item, source) for item in data["devices"])
    known = {"schema", "schema_version", "devices"}
    return Document(devices=devices, extra={k: v for k, v in data.items() if k not in known})


def _profile(item: dict[str, JsonValue], source: str) -> Profile:
    routes_json = item["routes"]
    assert isinstance(routes_json, dict)
    routes: dict[str, Bands] = {}
    for key, value in routes_json.items():
        assert isinstance(value, list)
        bands: list[Band] = []
        for pair in value:
            assert isinstance(pair, list)
            last, schedule = pair
            assert isinstance(last, int)
            assert isinstance(schedule, str)
            if not (bands[-1].last if bands else 0) < last <= MAX_LAST:
                raise DocumentError(f"{source}: {key}: band bounds must increase")
            bands.append(Band(last, schedule))
        routes[key] = tuple(bands)
    block = item.get("calibration")
    known = {"hardware_class", "multiprocessors", "origin", "calibration", "routes"}
    return Profile(
        hardware_class=str(item["hardware_class"]),
        multiprocessors=int(str(item.get("multiprocessors", 0))),
        origin=str(item.get("origin", source)),
        calibration=_calibration(block) if isinstance(block, dict) else None,
        routes=routes,
        extra={k: v for k, v in item.items() if k not in known},
    )


def _calibration(block: dict[str, JsonValue]) -> Calibration:
    known = {"route_catalog", "ninfer_build", "cuda_driver", "cuda_runtime", "date"}
    return Calibration(
        route_catalog=str(block["route_catalog"]),
        ninfer_build=str(block.get("ninfer_build", "")),
        cuda_driver=int(str(block.get("cuda_driver", 0))),
        cuda_runtime=int(str(block.get("cuda_runtime", 0))),
        date=str(block.get("date", "")),
        extra={k: v for k, v in block.items() if k not in known},
    )


def document_to_json(document: Document) -> dict[str, JsonValue]:
    """Return ``document`` as plain JSON values, fields in the writer's order, route keys in byte order."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "devices": [profile_to_json(profile) for profile in document.devices],
        **document.extra,
    }


def profile_to_json(profile: Profile) -> dict[str, JsonValue]:
    """Return one entry as plain JSON values, fields in the writer's order, route keys in byte order."""
    result: dict[str, JsonValue] = {
        "hardware_class": profile.hardware_class,
        "multiprocessors": profile.multiprocessors,
        "origin": profile.origin,
    }
    block = profile.calibration
    if block is not None:
        result["calibration"] = {
            "route_catalog": block.route_catalog,
            "ninfer_build": block.ninfer_build,
            "cuda_driver": block.cuda_driver,
            "cuda_runtime": block.cuda_runtime,
            "date": block.date,
            **block.extra,
        }
    keys = sorted(profile.routes, key=lambda key: key.encode())
    result["routes"] = {key: [[band.last, band.schedule] for band in profile.routes[key]] for key in keys}
    return {**result, **profile.extra}


def serialise(document: Document) -> str:
    """Return the text that the engine's writer gives: indent 1, one value per line, one final newline."""
    return json.dumps(document_to_json(document), indent=1, ensure_ascii=False) + "\n"


def serialise_table(document: Document) -> str:
    """Return the built-in table's layout: one route per line (the source tree's ``device_profiles.json``)."""
    head = f'{{"schema": {_text(SCHEMA)}, "schema_version": {SCHEMA_VERSION}, "devices": ['
    devices = ",\n".join(_table_entry(profile) for profile in document.devices)
    tail = "".join(f", {_text(key)}: {_text(value)}" for key, value in document.extra.items())
    return f"{head}\n{devices}\n]{tail}}}\n" if document.devices else f"{head}]{tail}}}\n"


def _text(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table_entry(profile: Profile) -> str:
    fields = profile_to_json(profile)
    routes = fields.pop("routes")
    assert isinstance(routes, dict)
    known = list(fields)[: 4 if profile.calibration is not None else 3]
    head = ", ".join(f"{_text(key)}: {_text(fields[key])}" for key in known)
    lines = ",\n".join(f"        {_text(key)}: {_text(bands)}" for key, bands in routes.items())
    block = f'"routes": {{\n{lines}\n     }}' if routes else '"routes": {}'
    rest = "".join(f", {_text(key)}: {_text(fields[key])}" for key in fields if key not in known)
    return f"    {{{head},\n     {block}{rest}}}"
