"""The largest set that is planned for, 23 keys x 60 cases x 28 widths x 2 rounds x 2 tables, within its time.

Processor time is compared, so that other work on the machine does not decide.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import COLLECT_AFTER
from generator.core.bench_readers import find_programs
from generator.core.bench_readers.read import read_output
from generator.core.cases import Expected
from generator.core.round_files import round_name
from generator.core.rounds import Case, Round, Table, Time, merge_times, serialise_round
from generator.core.route import RouteKey
from generator.core.unified import select
from generator.round_store import load_round_files
from kernels.widths import UNIFIED_GRID
from tests.core.unified_rounds import DEVICE, make_round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

KEYS = tuple(RouteKey(f"unified/key_{place:02}") for place in range(23))
CASES = tuple(Case(f"5120x{64 * place}", "fp8", "a16") for place in range(1, 61))
WIDTHS = UNIFIED_GRID[:28]
EXPECTED = {key: tuple(Expected(case=case) for case in CASES) for key in KEYS}
SECONDS = 3.0


def _median(table: Table, place: int) -> float:
    """Return a time that scatters by some percent around a win of unified."""
    return round((100.0 if table is Table.LEGACY else 94.0) + place * 7919 % 613 / 100, 3)


def _times(table: Table) -> list[Time]:
    points = [(key, case, width) for key in KEYS for case in CASES for width in WIDTHS]
    return [
        Time(key, table, case, "eager", "cold", width, _median(table, place), 60.0, 140.0)
        for place, (key, case, width) in enumerate(points)
    ]


@pytest.fixture(autouse=True)
def _collector_as_the_command_sets_it() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two round files of 77,280 times each."""
    path = tmp_path_factory.mktemp("measured")
    for number in (1, 2):
        item = make_round(number, [time for table in Table for time in _times(table)])
        target = path / round_name(DEVICE, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(serialise_round(item), encoding="utf-8")
    return path


def _within(run: Callable[[], object]) -> None:
    """Pass when one of three runs keeps the limit: a neighbour on the machine slows a run, nothing speeds one up."""
    spent: list[float] = []
    for _ in range(3):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
        if spent[-1] < SECONDS:
            return
    pytest.fail(f"took {spent!r} s of processor time, allowed {SECONDS}")


@pytest.mark.slow
def test_round_files_of_the_largest_set_are_read_and_selected_in_time(
    folder: Path, benchmark: BenchmarkFixture
) -> None:
    def run() -> int:
        files = load_round_files(folder)
        (selection,) = select((file.round for file in files), EXPECTED).values()
        assert sum(len(file.round.times) for file in files) == 23 * 60 * 28 * 2 * 2
        return sum(len(item.decisions) for item in selection.keys.values())

    assert benchmark.pedantic(run, rounds=1) == 23 * 28  # type: ignore[no-untyped-call]
    _within(run)


@pytest.mark.slow
def test_benchmark_outputs_of_the_largest_set_are_read_and_selected_in_time() -> None:
    header = "key,shape,format,policy,form,batch,execution,cache,width,median_us,min_us,p95_us\n"
    texts = {
        table: header
        + "".join(
            f"{item.key},{item.case.shape},fp8,a16,,1,eager,cold,{item.width},{item.median_us},60,140\n"
            for item in _times(table)
        )
        for table in Table
    }

    def run() -> None:
        rounds: list[Round] = []
        for number in (1, 2):
            times: list[Time] = []
            for table, text in texts.items():
                content = [text.encode()]
                reading = read_output(content, "times.csv", programs=find_programs(), device=DEVICE, table=table)
                times.extend(reading.times)
            rounds.append(make_round(number, merge_times(times, "round")))
        (selection,) = select(rounds, EXPECTED).values()
        assert sum(len(item.decisions) for item in selection.keys.values()) == 23 * 28

    _within(run)
