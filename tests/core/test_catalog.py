"""The catalog: its keys, its order, its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator.core.catalog import Catalog


def test_calibrated_catalog_has_the_digest_stamped_into_the_rtx_3060_profile(catalog: Catalog) -> None:
    assert catalog.digest() == "ac2d7b3e311831b0"
    assert len(catalog.calibrated) == 67
    assert sum(len(route.widths) for route in catalog.calibrated) == 492
