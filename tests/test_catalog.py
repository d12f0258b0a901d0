"""The catalog: its keys, its order, its digest."""

from __future__ import annotations

from generator.core.catalog import build_catalog
from kernels import find_families


def test_calibrated_catalog_has_the_digest_stamped_into_the_rtx_3060_profile() -> None:
    catalog = build_catalog(find_families())
    assert catalog.digest() == "ac2d7b3e311831b0"
    assert len(catalog.calibrated) == 67
    assert sum(len(route.widths) for route in catalog.calibrated) == 492
