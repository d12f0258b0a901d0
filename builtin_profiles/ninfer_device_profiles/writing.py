"""Write profile documents, byte for byte as the engine does, in either layout.

Fields this version does not know are kept, behind those it knows. Text that cannot be UTF-8 is refused.

Source: engine-profiles, section 1.4.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ninfer_device_profiles.errors import DocumentError
from ninfer_device_profiles.jsontext import refuse_surrogates
from ninfer_device_profiles.model import SCHEMA, SCHEMA_VERSION

if TYPE_CHECKING:
    from ninfer_device_profiles.model import Calibration, Document, JsonValue, Profile

_SOURCE = "profile document to write"


def document_to_json(document: Document) -> dict[str, JsonValue]:
    """Return ``document`` as plain JSON values, fields in the writer's order, route keys in byte order."""
    known: dict[str, JsonValue] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "devices": [profile_to_json(profile) for profile in document.devices],
    }
    return {**known, **{name: value for name, value in document.extra.items() if name not in known}}


def profile_to_json(profile: Profile) -> dict[str, JsonValue]:
    """Return one entry as plain JSON values, fields in the writer's order, route keys in byte order."""
    known: dict[str, JsonValue] = {
        "hardware_class": profile.hardware_class,
        "multiprocessors": profile.multiprocessors,
        "origin": profile.origin,
        "calibration": None if profile.calibration is None else _calibration_to_json(profile.calibration),
        "routes": {
            key: [[last, schedule] for last, schedule in profile.routes[key]]
            for key in sorted(profile.routes, key=_byte_order)
        },
    }
    extra = {name: value for name, value in profile.extra.items() if name not in known}
    if profile.calibration is None:
        del known["calibration"]
    if profile.implied_origin is not None and profile.origin == profile.implied_origin:
        del known["origin"]
    return {**known, **extra}


def serialise(document: Document) -> str:
    """Return the text that the engine's writer gives: indent 1, one value per line, one final newline.

    Raises:
        DocumentError: a string is no valid Unicode, or an unknown field holds what JSON cannot.
    """
    value = document_to_json(document)
    return _checked(value, _dump(value, indent=1) + "\n")


def serialise_table(document: Document) -> str:
    """Return the built-in table's layout: one route per line (the source tree's ``device_profiles.json``).

    Raises:
        DocumentError: as `serialise`.
    """
    value = document_to_json(document)
    devices = value.pop("devices")
    assert isinstance(devices, list)
    fields = [f"{_dump(name)}: {_dump(value[name])}" for name in ("schema", "schema_version")]
    rest = "".join(
        f", {_dump(name)}: {_dump(value[name])}" for name in value if name not in {"schema", "schema_version"}
    )
    entries = ",\n".join(_table_entry(entry) for entry in devices if isinstance(entry, dict))
    body = f"[\n{entries}\n]" if entries else "[]"
    return _checked({**value, "devices": devices}, f'{{{", ".join(fields)}, "devices": {body}{rest}}}\n')


def _table_entry(entry: dict[str, JsonValue]) -> str:
    routes = entry["routes"]
    assert isinstance(routes, dict)
    first = [name for name in ("hardware_class", "multiprocessors", "origin") if name in entry]
    lines = [", ".join(f"{_dump(name)}: {_dump(entry[name])}" for name in first)]
    if "calibration" in entry:
        lines.append(f'"calibration": {_dump(entry["calibration"])}')
    body = ",\n".join(f"        {_dump(key)}: {_dump(bands)}" for key, bands in routes.items())
    lines.append(f'"routes": {{\n{body}\n     }}' if routes else '"routes": {}')
    known = {*first, "calibration", "routes"}
    rest = "".join(f", {_dump(name)}: {_dump(entry[name])}" for name in entry if name not in known)
    return "    {" + ",\n     ".join(lines) + rest + "}"


def _calibration_to_json(block: Calibration) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        "route_catalog": block.route_catalog,
        "ninfer_build": block.ninfer_build,
        "cuda_driver": block.cuda_driver,
        "cuda_runtime": block.cuda_runtime,
        "date": block.date,
    }
    return {**known, **{name: value for name, value in block.extra.items() if name not in known}}


def _dump(value: JsonValue, *, indent: int | None = None) -> str:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(
            f"{_SOURCE}: {error}; unknown fields hold JSON values, numbers are finite. Drop the field."
        ) from error


def _checked(value: JsonValue, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        refuse_surrogates(value, _SOURCE)
        raise
    return text


def _byte_order(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
