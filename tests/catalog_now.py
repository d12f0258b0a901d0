"""The catalog of all families as texts of tests name it; tests/core/test_catalog.py alone pins it to the engine's."""

from __future__ import annotations

from generator.core.catalog import build_catalog
from kernels import find_families

_CATALOG = build_catalog(find_families())

DIGEST = str(_CATALOG.digest())
"""Digest of the calibrated keys and their candidates."""

KEYS = len(_CATALOG.calibrated)
"""Number of calibrated keys."""

POINTS = sum(len(route.widths) for route in _CATALOG.calibrated)
"""Number of their measured widths together."""
