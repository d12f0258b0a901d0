"""Manifests and width grids: what they say, and what is wrong with them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.cases import Grid
from generator.core.manifest import Manifest, OutputFile, Run, parse_grid, parse_manifest
from generator.core.rounds import Conditions, Table, parse_device
from generator.core.route import RouteKey
from generator.errors import SourceError

TEXT = """
device = "nvidia-geforce-rtx-3090-sm86/82"
execution = "graph"
[conditions]
build = "v0.13.0"
power_limit_w = 420
[[run]]
round = 2
table = "legacy"
conditions = { power_limit_w = 350 }
files = ["a.csv", { path = "b.txt", program = "ninfer_linear_pair_bench", k = 2048 }]
"""


def test_a_manifest_names_files_rounds_tables_and_conditions() -> None:
    assert parse_manifest(TEXT, "rounds.toml") == Manifest(
        device=parse_device("nvidia-geforce-rtx-3090-sm86/82"),
        execution="graph",
        runs=(
            Run(
                round=2,
                table=Table.LEGACY,
                order=(Table.UNIFIED, Table.LEGACY),
                conditions=Conditions(build="v0.13.0", power_limit_w=350),
                files=(
                    OutputFile(path="a.csv"),
                    OutputFile(path="b.txt", program="ninfer_linear_pair_bench", settings={"k": "2048"}),
                ),
            ),
        ),
    )


def test_the_first_table_may_be_named() -> None:
    text = TEXT.replace("round = 2", 'round = 2\nfirst = "legacy"')
    assert parse_manifest(text, "rounds.toml").runs[0].order == (Table.LEGACY, Table.UNIFIED)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("round = 2", "round = 0", "rounds.toml [[run]] 1 round: found 0; expected a number from 1. Correct the file"),
        (
            'table = "legacy"',
            'table = "old"',
            "rounds.toml [[run]] 1: found 'old'; expected one of ['legacy', 'unified']. Correct the file",
        ),
        (
            "build =",
            "built =",
            (
                "rounds.toml [conditions]: found 'built'; expected only build, cuda_driver, power_limit_w, "
                "sm_clock_mhz, date, gpu. Correct the file"
            ),
        ),
        (
            "power_limit_w = 420",
            "power_limit_w = true",
            "rounds.toml [conditions] power_limit_w: found True; expected a whole number. Correct the file",
        ),
        (
            "k = 2048",
            "k = [1]",
            "rounds.toml [[run]] 1 files 2 k: found [1]; expected a text or a whole number. Correct the file",
        ),
        (
            'execution = "graph"',
            'execution = "both"',
            (
                "rounds.toml execution: found 'both'; expected one of ['eager', 'graph', 'program default']. "
                "Correct the file"
            ),
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_manifest(TEXT.replace(old, new), "rounds.toml")
    assert str(caught.value) == message


def test_a_grid_has_widths_for_all_keys_for_one_key_and_cases_to_leave_out() -> None:
    text = 'widths = [4, 1, 4]\n[keys]\n"unified/a" = [2]\n[leave_out]\n"unified/*" = ["* snapshot *"]\n'
    grid = parse_grid(text, "grid.toml")
    assert grid == Grid(
        widths=(1, 4),
        by_key={RouteKey("unified/a"): (2,)},
        leave_out={"unified/*": ("* snapshot *",)},
    )


@pytest.mark.parametrize("text", ["widths = 3", "widths = [0]", "widths = [true]", "other = 1", "=", "[keys]\na = 1"])
def test_a_text_that_is_no_grid_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"^grid\.toml"):
        parse_grid(text, "grid.toml")


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_source_error(text: str) -> None:
    for parse in (parse_grid, parse_manifest):
        with suppress(SourceError):
            parse(text, "x.toml")
