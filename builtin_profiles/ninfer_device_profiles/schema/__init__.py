"""The JSON Schema (draft 2020-12) of the profile document, as a file in the package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ninfer_device_profiles.embedded import read_embedded

if TYPE_CHECKING:
    from ninfer_device_profiles.model import JsonValue

SCHEMA_FILE = "schema/device-route-profiles.schema.json"
"""Path of the schema below the package's folder."""


def load_schema() -> dict[str, JsonValue]:
    """Return the schema.

    Raises:
        EmbeddedError: the package is not whole.
    """
    value = json.loads(read_embedded(SCHEMA_FILE))
    assert isinstance(value, dict)
    return value
