"""The rule that evidence records, read back for a replay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generator.core.limits import LIMITS
from generator.core.recorded_rule import recorded_rule, rule_facts
from generator.core.verdict import Rule
from generator.errors import EvidenceError
from tests.core.toy import point


def test_what_was_recorded_comes_back_and_what_lacks_is_todays() -> None:
    limits = replace(LIMITS, samples=5, min_gain=0.0)
    assert recorded_rule(replace(point(), rule=rule_facts(Rule.ENGINE, limits))) == (Rule.ENGINE, limits)
    assert recorded_rule(replace(point(), rule={})) == (Rule.GUARDED, LIMITS)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *((name, 0, "whole number from 1") for name in ("samples", "second_pass_rounds", "graph_rounds")),
        ("second_pass_part", 0, "whole number from 1"),
        ("growth", -1, "whole number from 0"),
        ("doubt", -0.5, "number from 0"),
        ("samples", 2.5, "whole number from 1"),
    ],
)
def test_a_number_that_nothing_can_be_decided_with_is_refused(name: str, value: float, expected: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        recorded_rule(replace(point(), rule={name: value}), "e.json")
    assert str(caught.value) == (
        f"e.json['rule']['{name}']: found {value!r}; expected a {expected}; restore the file or measure again"
    )
