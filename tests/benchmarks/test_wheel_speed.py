"""Speed of the wheel's library: reported by pytest-benchmark, not asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles import RouteTable, embedded, find_profile, layer, parse_document, serialise, store_profile

from tests.catalog_now import DIGEST

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

WHEEL = Path(__file__).parent.parent.parent / "builtin_profiles"
TABLE = embedded.read_embedded(embedded.TABLE)
pytestmark = pytest.mark.benchmark(max_time=0.2, min_time=0.0001, warmup=False)
KEY = "unified/q5_linear_add/5120x6144"


@pytest.mark.parametrize("program", ["pass", "import ninfer_device_profiles"], ids=["bare-interpreter", "package"])
def test_starting_an_interpreter(benchmark: BenchmarkFixture, program: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(WHEEL), "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        subprocess.run, args=(command,), kwargs={"env": environment, "check": True}, rounds=7, warmup_rounds=1
    )


def test_parsing_the_builtin_table(benchmark: BenchmarkFixture) -> None:
    document = benchmark(parse_document, TABLE, "table")
    assert len(document.devices) >= 6


def test_writing_the_builtin_table(benchmark: BenchmarkFixture) -> None:
    document = parse_document(TABLE, "table")
    assert benchmark(serialise, document)


def test_one_lookup_after_the_first(benchmark: BenchmarkFixture) -> None:
    table = RouteTable(parse_document(TABLE, "table").devices[0].routes)
    table.schedule(KEY, 40)
    assert benchmark(table.schedule, KEY, 40) in {"", "unified"}


def test_layering_a_whole_entry(benchmark: BenchmarkFixture) -> None:
    lower, upper = parse_document(TABLE, "table").devices[:2]
    assert benchmark(layer, upper, lower).routes


def test_finding_a_profile_in_file_and_table(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    devices = parse_document(TABLE, "table").devices
    path = tmp_path / "p.json"
    store_profile(devices[0], path)
    found = benchmark(
        find_profile,
        devices[0].hardware_class,
        devices[0].multiprocessors,
        path=path,
        builtin=devices,
        catalog_digest=DIGEST,
    )
    assert found.builtin is devices[0]


def test_storing_an_entry(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    entry = parse_document(TABLE, "table").devices[0]
    assert benchmark(store_profile, entry, tmp_path / "p.json").profile == entry
