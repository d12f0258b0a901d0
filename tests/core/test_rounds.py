"""Round files: canonical, whole, mergeable, and plain about what is wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.round_files import parse_round, round_name
from generator.core.rounds import (
    Conditions,
    Round,
    Source,
    Table,
    merge_rounds,
    parse_device,
    serialise_round,
    usual_order,
)
from generator.errors import EvidenceError
from tests.core.unified_rounds import DEVICE, KEY, SMALL, both, make_round, times_of

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = Source(table=Table.LEGACY, name="add.csv", program="ninfer_fp8_linear_add_bench", sha256="0" * 64)


def _round() -> Round:
    times = times_of({**both(16, 100.5, 90), **both(20, 200, 180)})
    times[0] = times[0]._replace(min_us=99.0, p95_us=103.25, samples_us=(99.0, 100.5, 103.25))
    times[1] = times[1]._replace(median_us=None)
    return replace(make_round(1, times), sources=(SOURCE,))


def test_a_round_is_read_as_it_was_written_and_written_as_it_was_read() -> None:
    text = serialise_round(_round())
    assert parse_round(text, "round.json") == _round()
    assert serialise_round(parse_round(text.encode(), "round.json")) == text
    assert text.endswith("}\n")
    assert "\r" not in text


def test_a_round_file_holds_one_fact_a_line_in_sorted_order() -> None:
    lines = serialise_round(_round()).splitlines()
    facts = [json.loads(line.rstrip(",")) for line in lines if '"median_us"' in line]
    assert len(facts) == 8
    assert facts == sorted(facts, key=lambda fact: (fact["key"], fact["table"], fact["shape"], fact["width"]))


def test_a_round_file_is_as_its_schema_says(root: Path) -> None:
    schema = json.loads((root / "generator" / "core" / "schema" / "rounds.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(serialise_round(_round())))


def test_the_order_in_which_facts_were_read_does_not_reach_the_file() -> None:
    item = _round()
    text = serialise_round(item)
    data = json.loads(text)
    data["times"].reverse()
    assert serialise_round(parse_round(json.dumps(data), "round.json")) == text


def test_merging_is_idempotent_and_either_half_may_come_first() -> None:
    whole = _round()
    halves = [
        replace(
            whole,
            times=tuple(time for time in whole.times if time.table is table),
            conditions={table: whole.conditions[table]},
            sources=tuple(source for source in whole.sources if source.table is table),
        )
        for table in Table
    ]
    assert merge_rounds(halves[0], halves[1]) == merge_rounds(halves[1], halves[0]) == whole
    assert merge_rounds(whole, whole) == whole


@given(st.lists(st.integers(0, 3), min_size=8, max_size=8), st.permutations(range(4)))
def test_files_may_be_added_in_any_order_and_any_share(shares: list[int], order: list[int]) -> None:
    whole = _round()
    parts = [
        replace(whole, times=tuple(time for time, share in zip(whole.times, shares, strict=True) if share == part))
        for part in range(4)
    ]
    merged = parts[order[0]]
    for part in order[1:]:
        merged = merge_rounds(merged, parts[part])
    assert serialise_round(merged) == serialise_round(whole)


def test_a_point_with_two_times_is_refused() -> None:
    item = _round()
    other = replace(item, times=(item.times[2]._replace(median_us=7.0),))
    with pytest.raises(EvidenceError) as caught:
        merge_rounds(item, other)
    assert str(caught.value) == (
        "nvidia-geforce-rtx-3090-sm86/82 round 1: unified/fp8_linear_add legacy fp8 5120x6144 a16 eager cold width 16: "
        "median 100.5 us and again 7.0 us; a round holds one run of a point. Import one of the two outputs"
    )


def test_a_table_imported_under_two_conditions_is_refused() -> None:
    item = _round()
    with pytest.raises(EvidenceError, match="table 'legacy' was imported under"):
        merge_rounds(item, replace(item, conditions={Table.LEGACY: Conditions(build="other")}))


def test_a_round_of_another_order_is_refused() -> None:
    item = _round()
    with pytest.raises(EvidenceError) as caught:
        merge_rounds(item, replace(item, order=usual_order(2)))
    assert str(caught.value) == (
        "nvidia-geforce-rtx-3090-sm86/82 round 1: order 'legacy-unified' in the file and 'unified-legacy' in what is "
        "added; one round has one. Import into another round, or remove the file to begin again"
    )


@pytest.mark.parametrize(
    "text", ["", "nvidia-geforce-rtx-3090-sm86", "nvidia-geforce-rtx-3090-sm86/0", "NVIDIA GeForce/82", "a-sm86/82"]
)
def test_a_device_is_a_class_and_an_sm_count(text: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_device(text)
    assert str(caught.value) == (
        f"device {text!r}: expected a hardware class and its SM count, such as 'nvidia-geforce-rtx-3090-sm86/82'"
    )


def test_a_device_tells_its_capability() -> None:
    assert (DEVICE.capability, parse_device("nvidia-geforce-rtx-5090-sm120/170").capability) == (86, 120)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "ValueError: width 0 is not a whole number above 0"),
        ({"width": True}, "ValueError: width True is not a whole number above 0"),
        ({"median_us": -1}, "ValueError: time -1 is not a number above 0"),
        ({"table": "other"}, "KeyError: 'other'"),
        (
            {"cache": "hot"},
            "ValueError: execution 'eager' and cache 'hot' are not of ('eager', 'graph') and ('cold', 'warm')",
        ),
        ({"shape": 7}, "ValueError: case (7, 'fp8', 'a16', '', 1) is not four texts and a batch"),
    ],
)
def test_a_fact_that_is_none_is_named_by_its_place(change: dict[str, object], message: str) -> None:
    data = json.loads(serialise_round(_round()))
    data["times"][3] |= change
    with pytest.raises(EvidenceError) as caught:
        parse_round(json.dumps(data), "round.json")
    assert str(caught.value) == (
        f"round.json ['times'][3]: {message}; a fact is as rounds.schema.json describes it. Import the outputs again"
    )


def test_a_width_outside_the_listed_ones_is_refused() -> None:
    item = replace(_round(), widths={KEY: (16,)})
    with pytest.raises(EvidenceError) as caught:
        parse_round(serialise_round(item), "round.json")
    assert str(caught.value) == (
        "round.json ['times'][1]: width 20 of 'unified/fp8_linear_add' is not among the widths listed under "
        "['widths']; add it there, or import the outputs again"
    )


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(serialise_round(_round())))), _json)
def test_no_text_raises_anything_else(name: str, value: object) -> None:
    data = json.loads(serialise_round(_round()))
    data[name] = value
    with suppress(EvidenceError):
        parse_round(json.dumps(data), "round.json")


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_else(text: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_round(text, "round.json")


def test_a_round_file_is_named_by_class_sm_count_and_round() -> None:
    assert round_name(DEVICE, 1) == "nvidia-geforce-rtx-3090-sm86/rounds/82sm-round-1.json"


def test_a_case_is_named_in_words() -> None:
    assert str(SMALL) == "fp8 5120x6144 a16"
    assert str(SMALL._replace(form="snapshot", batch=3)) == "fp8 5120x6144 a16 snapshot batch 3"
