"""The journal: what survives a crash, and what a resumption refuses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generator.core.route import CatalogDigest
from generator.errors import EvidenceError
from generator.journal import Header, Journal
from tests.core.hostile import changed
from tests.core.toy import DEVICE, KEY, point, timed

if TYPE_CHECKING:
    from pathlib import Path

HEADER = Header(catalog=CatalogDigest("c" * 16), device=DEVICE, rule={"name": "engine"}, run={"date": "today"})
ITEM = point(timed("c", 90.0, 90.0))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journals" / "card.jsonl")
    journal.start(HEADER)
    return journal


def test_finished_keys_come_back_with_the_facts_of_the_run_that_began(journal: Journal) -> None:
    journal.add(ITEM.keys[0], ITEM.trials)
    finished, run = Journal(journal.path).resume(replace(HEADER, run={"date": "tomorrow"}))
    assert finished == {KEY: (ITEM.keys[0], ITEM.trials)}
    assert run == {"date": "today"}


def test_a_line_that_a_crash_cut_off_is_dropped_and_written_over(journal: Journal) -> None:
    journal.add(ITEM.keys[0], ITEM.trials)
    whole = journal.path.read_text()
    journal.path.write_text(whole + '{"facts": {"key": "to')
    finished, _ = journal.resume(HEADER)
    assert list(finished) == [KEY]
    assert journal.path.read_text() == whole


def test_another_run_is_refused_with_both_values(journal: Journal) -> None:
    with pytest.raises(EvidenceError) as caught:
        journal.resume(replace(HEADER, rule={"name": "guarded"}))
    assert str(caught.value) == (
        f"{journal.path}: rule['name'] is 'engine', this run's is 'guarded'; a run is resumed only by "
        "the same one. Repeat the options it began with, or run without --resume to start anew"
    )


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (replace(HEADER, rule={"name": "engine", "doubt": 2.5}), "rule['doubt'] is None, this run's is 2.5"),
        (replace(HEADER, rule={}), "rule['name'] is 'engine', this run's is None"),
        (replace(HEADER, run={"afresh": True}), "afresh is False, this run's is True"),
    ],
)
def test_the_one_value_that_differs_is_named(journal: Journal, header: Header, what: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        journal.resume(header)
    assert str(caught.value).startswith(f"{journal.path}: {what}; a run is resumed only by the same one.")


def test_a_journal_that_does_not_say_whether_it_was_begun_afresh_was_not(journal: Journal) -> None:
    text = journal.path.read_text()
    assert '"afresh": false, ' in text
    journal.path.write_text(text.replace('"afresh": false, ', ""))
    journal.add(ITEM.keys[0], ITEM.trials)
    assert list(journal.resume(HEADER)[0]) == [KEY]
    with pytest.raises(EvidenceError, match="afresh is False, this run's is True"):
        journal.resume(replace(HEADER, run={"afresh": True}))


def test_nothing_to_resume_says_so(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    with pytest.raises(EvidenceError) as caught:
        Journal(path).resume(HEADER)
    assert str(caught.value) == (
        f"{path}: No such file or directory; nothing to resume. Run without --resume to start anew"
    )


def test_a_damaged_line_in_the_middle_is_an_error(journal: Journal) -> None:
    journal.path.write_text(journal.path.read_text() + "{]\n")
    with pytest.raises(EvidenceError, match="line 2: "):
        journal.resume(HEADER)


def test_starting_anew_keeps_the_interrupted_journal_beside_it(journal: Journal) -> None:
    journal.add(ITEM.keys[0], ITEM.trials)
    before = journal.path.read_text()
    journal.start(HEADER)
    assert journal.path.with_name("card.jsonl.previous").read_text() == before
    journal.finish()
    assert not journal.path.exists()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_whatever_a_journal_holds_it_is_resumed_or_refused(journal: Journal, data: st.DataObject) -> None:
    journal.start(HEADER)
    journal.add(ITEM.keys[0], ITEM.trials)
    lines = journal.path.read_text().splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    odd = [line.encode() for line in lines]
    odd[place] = data.draw(changed(lines[place]))
    journal.path.write_bytes(b"\n".join(odd) + b"\n")
    with suppress(EvidenceError):
        journal.resume(HEADER)


def test_a_line_separator_inside_a_reason_is_no_end_of_line(journal: Journal) -> None:
    trial = replace(ITEM.trials[0], reason="a\u2028b")
    journal.add(ITEM.keys[0], (trial,))
    finished, _ = journal.resume(HEADER)
    assert finished == {KEY: (ITEM.keys[0], (trial,))}
