"""The tables of docs/ternary.md, groupwise.md, attention.md and gdn.md against the first committed run of the H200."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from generator.core.evidence import Outcome
from generator.core.evidence_file import load_evidence, trial_to_json
from generator.core.evidence_report import efficiencies
from generator.core.stats import median
from tests.h200_runs import h200_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from generator.core.evidence import Evidence
    from generator.core.evidence_report import Efficiency

    Best = dict[tuple[str, int], Efficiency]


@pytest.fixture(scope="module")
def run(root: Path) -> Evidence:
    source = h200_files(root)[0]
    return load_evidence(source.read_text(), source.name)


@pytest.fixture(scope="module")
def best(run: Evidence) -> Best:
    return {(item.key, item.width): item for item in efficiencies(run)}


def rows(page: Path, head: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table whose first cell is ``head``."""
    lines = iter(page.read_text().splitlines())
    titles = next(line for line in lines if line.startswith(f"| {head} |"))
    yield _cells(titles)
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield _cells(line)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


def test_floors_are_of_the_read_rate_that_the_pages_name(root: Path, run: Evidence) -> None:
    rate = f"{float(run.run['read_bytes_per_us']) / 1000:.0f} GB/s"
    for name in ("ternary", "groupwise"):
        assert f"the floor is the bytes over the {rate} of that run" in _joined(root / f"docs/{name}.md")
    assert f"the share of the speed that {rate} allow" in _joined(root / "docs/attention.md")


def test_the_ternary_table_is_of_the_first_run(root: Path, run: Evidence, best: Best) -> None:
    head, *table = rows(root / "docs/ternary.md", "key")
    assert head[1:] == ["columns", "floor µs", "compiled µs", "best µs", "floor ÷ best", "best schedule"]
    assert len(table) == 13
    key = ""
    for first, columns, *cells in table:
        key = first.split("`")[1] if first else key
        item = best[key, int(columns)]
        base = run.trial(item.key, item.width)
        assert base is not None
        figures = [f"{us:.1f}" for us in (item.floor_us, median(base.first_us), item.best_us)]
        assert cells == [*figures, f"{item.share * 100:.0f} %", item.schedule or "compiled"]


def test_the_ternary_page_tells_how_far_the_heads_reach_their_aim(root: Path, best: Best) -> None:
    assert "reach it at 1 and 2 columns and miss it by less than half a point at 3 and 4" in _joined(
        root / "docs/ternary.md"
    )
    for key in ("t2_i8_small/248320x5120", "q6_head/248320x5120"):
        shares = {item.width: item.share for item in best.values() if item.key == key}
        assert {width for width, share in shares.items() if share >= 0.8} == {1, 2}
        assert {width for width, share in shares.items() if 0.795 < share < 0.8} >= {3, 4}


def test_the_groupwise_table_is_of_the_first_run(root: Path, run: Evidence, best: Best) -> None:
    head, *table = rows(root / "docs/groupwise.md", "key")
    widths = [int(cell.split()[0]) for cell in head[1:]]
    assert [row[0].split("`")[1].partition("/")[0] for row in table] == [
        *("q5_linear_add",) * 2,
        *("q4_linear_add",) * 2,
        *("q4_linear_swiglu", "q4_q5_gdn_input", "q4_q5_attn_input"),
    ]
    for first, *cells in table:
        key = first.split("`")[1]
        for width, cell in zip(widths, cells, strict=True):
            if not cell:
                continue
            found = re.fullmatch(r"([\d.]+)(?: \([\d.]+\))?, (\d+) %, `(\w+)`", cell)
            assert found, cell
            name = found[3]
            item = best[f"unified/{key}" if name == "unified" else key, width]
            assert (found[1], found[2]) == (f"{item.best_us:.1f}", f"{item.share * 100:.0f}")
            if name != item.schedule:
                (named,) = (trial for trial in run.by_point[item.key, width] if trial.schedule == name)
                assert (item.schedule, named.outcome) == ("", Outcome.SAME)


def test_the_attention_table_is_of_the_first_run(root: Path, best: Best) -> None:
    head, *table = rows(root / "docs/attention.md", "coding")
    assert head[1:] == ["262,144 keys, 1 token", "4 tokens", "8 tokens", "8192 keys, 1 token", "4", "8"]
    assert [row[0] for row in table] == ["int8", "rk8v4", "rk4v4", "rk4v4-e8", "rk2v4-e8"]
    points = [(depth, tokens) for depth in (262144, 8192) for tokens in (1, 4, 8)]
    for coding, *cells in table:
        for (depth, tokens), cell in zip(points, cells, strict=True):
            item = best[f"attn_i8_small/h24/{coding}/w{tokens}", depth]
            short = f"{item.best_us:.1f}"
            long = f"{item.best_us:.0f} ({item.share * 100:.0f} %)"
            assert cell.partition(" -> ")[2] == (long if depth == 262144 else short)


def test_the_gdn_page_tells_the_first_runs_times(root: Path, best: Best) -> None:
    times = {key: f"{best[key].best_us:.1f}" for key in best if key[0].startswith("gdn_two_stage/")}
    text = _joined(root / "docs/gdn.md")
    at = [times[f"gdn_two_stage/h{heads}", tokens] for heads in (48, 32) for tokens in (1024, 8192)]
    assert (
        f"takes {at[0]} and {at[1]} µs at 1024 and 8192 tokens with 48 heads, {at[2]} and {at[3]} µs with 32." in text
    )


def test_the_trial_that_the_evidence_page_shows_is_one_of_the_first_run(root: Path, run: Evidence) -> None:
    page = (root / "docs/evidence.md").read_text()
    shown = json.loads(page.split("```json\n")[1].split("```")[0].replace(", …", ""))
    trial = run.trial(shown["key"], shown["width"], shown["schedule"])
    assert trial is not None
    stored = trial_to_json(trial)
    first, second = shown.pop("first_us"), shown.pop("second_us")
    assert tuple(first) == trial.first_us[: len(first)]
    assert [tuple(part) for part in second] == [
        part[: len(some)] for part, some in zip(trial.second_us, second, strict=True)
    ]
    assert shown == {name: stored[name] for name in shown}


def _joined(path: Path) -> str:
    return " ".join(path.read_text().split())
