"""The rule that steered a run and its numbers, as evidence records them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from generator.core.limits import Limits
from generator.core.verdict import Rule
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from generator.core.evidence import Evidence, Scalar

_FROM_ONE = frozenset({"samples", "second_pass_rounds", "graph_rounds", "second_pass_part"})
"""Counts that a median or a quotient is taken of."""


def rule_facts(rule: Rule, limits: Limits) -> dict[str, Scalar]:
    """Return the rule's name and numbers as evidence stores them."""
    return {
        "name": rule.value,
        "min_gain": limits.min_gain,
        "second_pass_share": limits.second_pass_share,
        "second_pass_rounds": limits.second_pass_rounds,
        "max_mismatch": limits.max_mismatch,
        "warmups": limits.warmups,
        "samples": limits.samples,
        "noise_factor": limits.noise_factor,
        "close_share": limits.close_share,
        "graph_rounds": limits.graph_rounds,
        "graph_spread_us": limits.graph_spread_us,
        "doubt": limits.doubt,
        "growth": limits.growth,
        "second_pass_part": limits.second_pass_part,
        "most_samples": limits.most_samples,
        "extend_below_us": limits.extend_below_us,
        "stop_after": limits.stop_after,
        "stop_ratio": limits.stop_ratio,
        "floor_share": limits.floor_share,
    }


def recorded_rule(evidence: Evidence, source: str = "evidence") -> tuple[Rule, Limits]:
    """Return the rule and numbers that steered ``evidence``, for a replay; what it lacks is today's.

    Raises:
        EvidenceError: the rule is none, or a number is none or too small to divide by.
    """
    numbers: dict[str, float] = {}
    for field in fields(Limits):
        value = evidence.rule.get(field.name, field.default)
        whole = isinstance(field.default, int)
        least = int(field.name in _FROM_ONE)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or value < least:
            raise EvidenceError(
                f"{source}['rule'][{field.name!r}]: found {value!r}; expected a {'whole ' if whole else ''}number from "
                f"{least}; restore the file or measure again"
            )
        numbers[field.name] = value
    name = evidence.rule.get("name", Rule.GUARDED.value)
    if name not in {rule.value for rule in Rule}:
        raise EvidenceError(
            f"{source}['rule']['name']: found {name!r}; expected one of {[rule.value for rule in Rule]!r}; restore the "
            "file or measure again"
        )
    return Rule(name), Limits(**numbers)  # type: ignore[arg-type]  # each was checked
