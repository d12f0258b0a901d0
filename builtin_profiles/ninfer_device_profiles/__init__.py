"""Device route profiles of the NInfer inference engine: read, layer, look up, store, explain.

Names are imported at their first use, so importing the package costs next to nothing. The submodule ``sizes`` holds
the launch sizes that follow the device.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it as true; typing itself would cost its import

if TYPE_CHECKING:
    from ninfer_device_profiles.bands import (
        Band,
        Bands,
        bands_from_points,
        layer_bands,
        schedule_at,
    )
    from ninfer_device_profiles.checking import (
        Check,
        check_package,
    )
    from ninfer_device_profiles.embedded import (
        builtin_catalog,
        builtin_table,
    )
    from ninfer_device_profiles.errors import (
        DocumentError,
        EmbeddedError,
        ModeError,
        OtherVersionError,
        OverrideError,
        ProfileError,
        SizesError,
        StoreError,
        UnreadableError,
    )
    from ninfer_device_profiles.explaining import (
        Explanation,
        explain,
    )
    from ninfer_device_profiles.finding import (
        Found,
        Note,
        NoteKind,
        find_profile,
    )
    from ninfer_device_profiles.layering import (
        layer,
    )
    from ninfer_device_profiles.linting import (
        Finding,
        lint_document,
    )
    from ninfer_device_profiles.location import (
        Location,
        profile_location,
    )
    from ninfer_device_profiles.lookup import (
        Installation,
        RouteTable,
    )
    from ninfer_device_profiles.matching import (
        find_entry,
        hardware_class,
    )
    from ninfer_device_profiles.merging import (
        Merged,
        merge_entry,
    )
    from ninfer_device_profiles.model import (
        SCHEMA,
        SCHEMA_VERSION,
        Calibration,
        Document,
        JsonValue,
        Profile,
    )
    from ninfer_device_profiles.overrides import (
        Answer,
        Choice,
        Overrides,
    )
    from ninfer_device_profiles.reading import (
        parse_document,
        read_document,
    )
    from ninfer_device_profiles.schema import (
        SCHEMA_FILE,
        load_schema,
    )
    from ninfer_device_profiles.shadowing import (
        shadow_report,
    )
    from ninfer_device_profiles.startup import (
        Device,
        Level,
        Mode,
        Started,
        start_devices,
    )
    from ninfer_device_profiles.store import (
        Stored,
        replaced_entries,
        restore_profile,
        store_profile,
    )
    from ninfer_device_profiles.writing import (
        document_to_json,
        profile_to_json,
        serialise,
        serialise_table,
    )

_HOMES = {
    "Answer": "overrides",
    "Band": "bands",
    "Bands": "bands",
    "Calibration": "model",
    "Check": "checking",
    "Choice": "overrides",
    "Device": "startup",
    "Document": "model",
    "DocumentError": "errors",
    "EmbeddedError": "errors",
    "Explanation": "explaining",
    "Finding": "linting",
    "Found": "finding",
    "Installation": "lookup",
    "JsonValue": "model",
    "Level": "startup",
    "Location": "location",
    "Merged": "merging",
    "Mode": "startup",
    "ModeError": "errors",
    "Note": "finding",
    "NoteKind": "finding",
    "OtherVersionError": "errors",
    "OverrideError": "errors",
    "Overrides": "overrides",
    "Profile": "model",
    "ProfileError": "errors",
    "RouteTable": "lookup",
    "SCHEMA": "model",
    "SCHEMA_FILE": "schema",
    "SCHEMA_VERSION": "model",
    "SizesError": "errors",
    "Started": "startup",
    "StoreError": "errors",
    "Stored": "store",
    "UnreadableError": "errors",
    "bands_from_points": "bands",
    "builtin_catalog": "embedded",
    "builtin_table": "embedded",
    "check_package": "checking",
    "document_to_json": "writing",
    "explain": "explaining",
    "find_entry": "matching",
    "find_profile": "finding",
    "hardware_class": "matching",
    "layer": "layering",
    "layer_bands": "bands",
    "lint_document": "linting",
    "load_schema": "schema",
    "merge_entry": "merging",
    "parse_document": "reading",
    "profile_location": "location",
    "profile_to_json": "writing",
    "read_document": "reading",
    "replaced_entries": "store",
    "restore_profile": "store",
    "schedule_at": "bands",
    "serialise": "writing",
    "serialise_table": "writing",
    "shadow_report": "shadowing",
    "start_devices": "startup",
    "store_profile": "store",
}

__all__ = [
    "SCHEMA",
    "SCHEMA_FILE",
    "SCHEMA_VERSION",
    "Answer",
    "Band",
    "Bands",
    "Calibration",
    "Check",
    "Choice",
    "Device",
    "Document",
    "DocumentError",
    "EmbeddedError",
    "Explanation",
    "Finding",
    "Found",
    "Installation",
    "JsonValue",
    "Level",
    "Location",
    "Merged",
    "Mode",
    "ModeError",
    "Note",
    "NoteKind",
    "OtherVersionError",
    "OverrideError",
    "Overrides",
    "Profile",
    "ProfileError",
    "RouteTable",
    "SizesError",
    "Started",
    "StoreError",
    "Stored",
    "UnreadableError",
    "bands_from_points",
    "builtin_catalog",
    "builtin_table",
    "check_package",
    "document_to_json",
    "explain",
    "find_entry",
    "find_profile",
    "hardware_class",
    "layer",
    "layer_bands",
    "lint_document",
    "load_schema",
    "merge_entry",
    "parse_document",
    "profile_location",
    "profile_to_json",
    "read_document",
    "replaced_entries",
    "restore_profile",
    "schedule_at",
    "serialise",
    "serialise_table",
    "shadow_report",
    "start_devices",
    "store_profile",
]


def __getattr__(name: str) -> object:
    """Import the module that defines ``name`` and return it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only where a name is asked for

    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted({*globals(), *__all__})
