"""A package folder as the generator's emit fills it, for tests of what reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles import embedded

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog


@pytest.fixture(scope="session")
def catalog_keys(catalog: Catalog) -> tuple[embedded.CatalogKey, ...]:
    """The generator's catalog as the wheel's."""
    return tuple(
        embedded.CatalogKey(
            key=route.key,
            candidates=tuple(
                embedded.CatalogCandidate(schedule=c.schedule, min_width=c.min_width, max_width=c.max_width)
                for c in route.candidates
            ),
            calibrated=route.calibrated,
            acts_under=route.acts_under,
        )
        for route in catalog.routes.values()
    )


@pytest.fixture(scope="session")
def package(
    tmp_path_factory: pytest.TempPathFactory, shared_data: Path, catalog_keys: tuple[embedded.CatalogKey, ...]
) -> Path:
    """A folder with the engine's table, the catalog and build info."""
    folder = tmp_path_factory.mktemp("package")
    table = (shared_data / "engine" / "device_profiles.json").read_bytes()
    catalog_text = embedded.render_catalog(catalog_keys)
    info = embedded.BuildInfo(
        generator_version="0.1.0",
        table_sha256=embedded.sha256(table),
        catalog_sha256=embedded.sha256(catalog_text.encode()),
        catalog_digest=DIGEST,
        sources={"imported/nvidia-geforce-rtx-3090-sm86.json": "0" * 64},
    )
    (folder / embedded.TABLE).write_bytes(table)
    (folder / embedded.CATALOG).write_text(catalog_text, encoding="utf-8", newline="\n")
    (folder / embedded.BUILD_INFO).write_text(embedded.render_build_info(info), encoding="utf-8", newline="\n")
    return folder
