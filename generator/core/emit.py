"""The table as the files that others consume: JSON, C++ source and header."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from ninfer_device_profiles.document import serialise_table

from generator.core.cpp import LITERAL_LIMIT_BYTES, cpp_pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog

NOTICE = "Written by `python -m generator emit --write`; do not edit. Change a source and derive the table again."
HEADER_NAME = "ninfer_device_profiles.hpp"
SOURCE_NAME = "ninfer_device_profiles.cpp"


@dataclass(frozen=True, slots=True)
class Emitted:
    """File names below the C++ folder and their contents."""

    files: dict[str, str]


def emit_cpp(document: Document, catalog: Catalog, template: Callable[[str], str]) -> Emitted:
    """Return the C++17 header and source that embed the table's text.

    Args:
        document: the derived table.
        catalog: names the digest that the header states.
        template: returns the text of a template by file name.
    """
    return emit_cpp_text(serialise_table(document), len(document.devices), catalog.digest(), template)


def emit_cpp_text(text: str, devices: int, catalog_digest: str, template: Callable[[str], str]) -> Emitted:
    """Return the header and source that embed ``text``, whatever it holds."""
    content = text.encode()
    values = {
        "notice": NOTICE,
        "devices": devices,
        "table_bytes": len(content),
        "table_sha256": hashlib.sha256(content).hexdigest(),
        "catalog_digest": catalog_digest,
        "header_name": HEADER_NAME,
        "literal_limit": LITERAL_LIMIT_BYTES,
        "pieces": cpp_pieces(text),
    }
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C++ text; every value is a literal made by cpp.py, a number or a digest
    )
    return Emitted(
        files={
            name: environment.from_string(template(stem)).render(values)
            for name, stem in ((HEADER_NAME, "device_profiles.hpp.jinja"), (SOURCE_NAME, "device_profiles.cpp.jinja"))
        }
    )
