"""What a measured entry changes over the built-in table, as a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import ninfer_device_profiles
from ninfer_device_profiles.model import Document
from ninfer_device_profiles.reading import parse_document

from generator.core.report import Format, render
from generator.core.review import Side, review

if TYPE_CHECKING:
    from ninfer_device_profiles.model import Profile

    from generator.core.catalog import Catalog


def shipped_table() -> Document:
    """Return the built-in table of the installed wheel."""
    path = Path(next(iter(ninfer_device_profiles.__path__))) / "device_profiles.json"
    return parse_document(path.read_bytes(), path.name)


def shipped_diff(measured: Profile, catalog: Catalog) -> str:
    """Return the text report of ``measured`` over the built-in table against that table, for this device alone."""
    table = shipped_table()
    own = [
        entry
        for entry in table.devices
        if entry.hardware_class == measured.hardware_class and entry.multiprocessors in {0, measured.multiprocessors}
    ]
    before = Document(devices=tuple(own))
    found = review(
        Side("built-in table", before),
        Side("measured over built-in table", before, Document(devices=(measured,))),
        catalog,
    )
    return render(found, Format.TEXT)
