"""Options and fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.core.catalog import Catalog, build_catalog
from kernels import find_families

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="run the tests that need a CUDA device")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gpu"):
        return
    skip = pytest.mark.skip(reason="needs a CUDA device; run with --gpu")
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of raw engine files, beside the checkout; tests that want one skip where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"raw engine files are absent ({folder.name} folder beside the checkout)")
    return folder


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The catalog of all families."""
    return build_catalog(find_families())
