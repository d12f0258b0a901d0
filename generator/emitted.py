"""The files that others consume, by path: the package's three data files and the C++ pair the engine embeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.document import serialise_table
from ninfer_device_profiles.embedded import (
    BUILD_INFO,
    CATALOG,
    TABLE,
    BuildInfo,
    render_build_info,
    render_catalog,
    sha256,
)

from generator.core.catalog import catalog_key
from generator.core.emit import emit_cpp
from generator.core.texts import load_toml
from generator.errors import SourceError
from generator.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.derive import Derivation
    from generator.core.sources import Sources
    from generator.repository import Repository


def embedded_files(
    repository: Repository, sources: Sources, derivation: Derivation, catalog: Catalog
) -> dict[Path, bytes]:
    """Return the data files of the wheel's import package: table, catalog, build info."""
    table = serialise_table(derivation.document).encode()
    keys = render_catalog(catalog_key(route) for route in catalog.routes.values()).encode()
    info = BuildInfo(
        generator_version=_version(repository),
        table_sha256=sha256(table),
        catalog_sha256=sha256(keys),
        catalog_digest=catalog.digest(),
        sources=sources.digests,
    )
    package = repository.package
    return {package / TABLE: table, package / CATALOG: keys, package / BUILD_INFO: render_build_info(info).encode()}


def emitted_files(
    repository: Repository, sources: Sources, derivation: Derivation, catalog: Catalog
) -> dict[Path, bytes]:
    """Return every emitted file: those of the package and the C++ source and header."""
    cpp = emit_cpp(
        derivation.document, catalog, lambda name: read_text(repository.templates / name, f"templates/{name}")
    )
    files = {repository.cpp / name: text.encode() for name, text in cpp.files.items()}
    return {**embedded_files(repository, sources, derivation, catalog), **files}


def _version(repository: Repository) -> str:
    name = "pyproject.toml"
    project = load_toml(read_text(repository.root / name, name), name, "restore the file").get("project")
    version = project.get("version") if isinstance(project, dict) else None
    if not isinstance(version, str):
        raise SourceError(f"{name} ['project']['version']: found {version!r}; expected a string; restore the file")
    return version
