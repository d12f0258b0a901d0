"""Evidence files: canonical text, strict reading, positions in messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.evidence import Outcome
from generator.core.evidence_file import dump_evidence, evidence_name, load_evidence
from generator.errors import EvidenceError
from tests.core.toy import evidence, other, point, timed

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.evidence import Trial

ITEM = point(timed("c", 90.5, 90.25, difference=None), other("b", Outcome.INELIGIBLE, "legal to width 4"))


def test_load_undoes_dump_and_dump_undoes_load() -> None:
    text = dump_evidence(ITEM)
    loaded = load_evidence(text, "e.json")
    assert dump_evidence(loaded) == text
    assert sorted(loaded.trials, key=lambda t: t.place) == sorted(ITEM.trials, key=lambda t: t.place)
    assert loaded.device == ITEM.device


@given(st.permutations(ITEM.trials))
def test_the_order_of_trials_does_not_reach_the_file(trials: list[Trial]) -> None:
    assert dump_evidence(evidence(trials)) == dump_evidence(ITEM)


def test_one_trial_stands_on_one_line() -> None:
    lines = dump_evidence(ITEM).splitlines()
    assert sum('"outcome"' in line for line in lines) == 4


def test_boards_that_end_a_run_in_the_same_second_keep_their_own_files() -> None:
    boards = [replace(ITEM, device=replace(ITEM.device, uuid_hash=name)) for name in ("0f3a" * 4, "77d1" * 4)]
    assert [evidence_name(item) for item in boards] == [
        "nvidia-toy-sm90/20261129T220000Z-0f3a0f3a.json",
        "nvidia-toy-sm90/20261129T220000Z-77d177d1.json",
    ]
    assert evidence_name(ITEM) == "nvidia-toy-sm90/20261129T220000Z.json"
    engine = replace(ITEM, run={**ITEM.run, "log_sha256": "ab" * 32})
    assert evidence_name(engine, "-engine") == "nvidia-toy-sm90/20261129T220000Z-abababab-engine.json"


def test_the_file_fits_its_json_schema(root: Path) -> None:
    schema = json.loads((root / "generator/core/schema/evidence.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(dump_evidence(ITEM)), schema)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"schema_version": 1',
            '"schema_version": 2',
            "e.json['schema_version']: found 2; this version reads 1; restore the file or measure again",
        ),
        (
            '"width": 1}',
            '"width": 0}',
            "e.json['trials'][0]['width']: found 0; a width is from 1 to 2147483647; restore the file or measure again",
        ),
        (
            "[90.5, ",
            "[-1.0, ",
            (
                "e.json['trials'][2]['first_us'][0]: found -1.0; a time is above 0 microseconds; "
                "restore the file or measure again"
            ),
        ),
        (
            "[90.5, ",
            "[true, ",
            (
                "e.json['trials'][2]['first_us'][0]: found True; expected a finite number; "
                "restore the file or measure again"
            ),
        ),
        (
            '"outcome": "ineligible"',
            '"outcome": "slow"',
            (
                "e.json['trials'][1]['outcome']: found 'slow'; expected one of 'timed', 'same launch', 'ineligible', "
                "'refused for output', 'impossible', 'failed', 'timed out', 'stopped early'; "
                "restore the file or measure again"
            ),
        ),
        ("[90.5, ", "[NaN, ", "e.json: not JSON: NaN is no JSON number; restore the file or measure again"),
        (
            '"schedule": "c"',
            '"schedule": "b"',
            "e.json['trials'][2]: found 'toy/1x1 w=1 b'; a trial appears once; restore the file or measure again",
        ),
        (
            '"schema": "ninfer.calibration-evidence"',
            '"schema": "x"',
            "e.json['schema']: found 'x'; expected 'ninfer.calibration-evidence'; restore the file or measure again",
        ),
    ],
)
def test_messages_say_where_and_what(old: str, new: str, message: str) -> None:
    text = dump_evidence(ITEM)
    assert old in text
    with pytest.raises(EvidenceError) as caught:
        load_evidence(text.replace(old, new), "e.json")
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**2000])
@pytest.mark.parametrize("block", ["run", "rule"])
def test_fact_that_no_float_holds_is_refused(value: int, block: str) -> None:
    data = json.loads(dump_evidence(ITEM))
    data[block]["odd"] = value
    data["keys"][0]["conditions"]["seconds"] = 0.5
    with pytest.raises(EvidenceError, match=r"\['odd'\]: found a number of many digits; expected a finite number"):
        load_evidence(json.dumps(data), "e.json")
    del data[block]["odd"]
    data["keys"][0]["conditions"]["seconds"] = value
    with pytest.raises(EvidenceError, match=r"\['seconds'\]: found a number of many digits; expected a finite number"):
        load_evidence(json.dumps(data), "e.json")


def test_a_replaced_entry_names_one_schedule_at_a_width_and_no_twin() -> None:
    """The file would say two things of which a reader could take either."""
    for trials, shown in (
        ([replace(timed("b", 90.0), earlier=True), replace(timed("c", 90.0), earlier=True)], "c"),
        ([replace(timed("", 90.0, twin=True), earlier=True)], "compiled"),
    ):
        text = dump_evidence(evidence([timed("", 100.0), *trials]))
        with pytest.raises(EvidenceError) as caught:
            load_evidence(text, "e.json")
        place = 2 if shown == "c" else 1
        assert str(caught.value) == (
            f"e.json['trials'][{place}]['earlier']: found 'toy/1x1 w=1 {shown}'; a replaced entry names one schedule "
            "at a width, and no twin; restore the file or measure again"
        )
