"""Options and fixtures that every test may use."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from generator.core.catalog import Catalog, build_catalog
from generator.gpu.driver import missing_device
from kernels import find_families

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent

# A busy machine is no fault of the code under test.
# A gate gives the same answer twice: in CI examples follow from the test's text; on a desk every run draws anew.
settings.register_profile(
    "repository", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("repository")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="run the tests that need a CUDA device")
    parser.addoption("--golden", action="store_true", help="rewrite the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--gpu"):
        return
    lacking = "CuPy is not installed, use `nox -s gpu_tests`" if find_spec("cupy") is None else missing_device()
    if lacking:
        pytest.exit(f"--gpu: {lacking}; run the tests without it, or on a machine with a CUDA device", returncode=1)


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


@pytest.fixture
def golden(request: pytest.FixtureRequest, root: Path) -> Callable[[str, str], None]:
    """Compare a text with a file below ``tests/golden``; with ``--golden`` write the file first."""

    def check(name: str, text: str) -> None:
        path = root / "tests/golden" / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert text == path.read_text(encoding="utf-8")

    return check
