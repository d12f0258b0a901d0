"""Profile documents: read, check and write ``ninfer.device-route-profiles``, schema version 2."""

from __future__ import annotations

from ninfer_device_profiles.model import SCHEMA, SCHEMA_VERSION, Calibration, Document, JsonValue, Profile
from ninfer_device_profiles.reading import parse_document, read_document
from ninfer_device_profiles.writing import document_to_json, profile_to_json, serialise, serialise_table

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "Calibration",
    "Document",
    "JsonValue",
    "Profile",
    "document_to_json",
    "parse_document",
    "profile_to_json",
    "read_document",
    "serialise",
    "serialise_table",
]
