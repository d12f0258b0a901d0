"""Whether two rounds may be averaged: which conditions must be equal, and which only deserve a word.

Within a round the two tables are compared with each other, so everything that moves a time must be equal there.
Between rounds only the build and the card's model must be: power limit, clocks, driver and the single card may differ
(the built-in rows of the RTX 4090 were measured at 300 to 450 W), which is said and not refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from generator.core.rounds import Round, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIELDS = ("build", "cuda_driver", "power_limit_w", "sm_clock_mhz", "gpu")
_WORDS = {
    "build": "engine build",
    "cuda_driver": "CUDA driver",
    "power_limit_w": "power limit in W",
    "sm_clock_mhz": "SM clock in MHz",
    "gpu": "GPU",
}
_EQUAL_BETWEEN_ROUNDS = ("build",)


@dataclass(frozen=True, slots=True)
class Remarks:
    """What the conditions of a device's rounds say: ``refusals`` forbid a selection, ``warnings`` do not."""

    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def compare_conditions(rounds: Sequence[Round]) -> Remarks:
    """Return what speaks against judging ``rounds``, all of one device, by number."""
    refusals: list[str] = []
    warnings: list[str] = []
    for item in rounds:
        blocks = [item.conditions[table] for table in Table if table in item.conditions]
        for name in _FIELDS:
            values = [getattr(block, name) for block in blocks]
            if not all(values):
                warnings.append(f"round {item.number}: {_WORDS[name]} is not recorded for every table")
            elif len(set(values)) > 1:
                refusals.append(
                    f"round {item.number}: {_WORDS[name]} is {values[0]!r} for legacy and {values[1]!r} for unified"
                )
    for left, right in pairwise(rounds):
        if left.order == right.order:
            refusals.append(
                f"rounds {left.number} and {right.number} both ran {left.order[0]} first; "
                "the second round runs the tables in opposite order"
            )
        if left.execution != right.execution:
            refusals.append(
                f"round {left.number} is to be judged in execution {left.execution!r} and "
                f"round {right.number} in {right.execution!r}"
            )
        for name in _FIELDS:
            first, second = (_recorded(item, name) for item in (left, right))
            if first and second and first != second:
                text = (
                    f"{_WORDS[name]} is {_list(first)} in round {left.number} and {_list(second)} "
                    f"in round {right.number}"
                )
                (refusals if name in _EQUAL_BETWEEN_ROUNDS else warnings).append(text)
    return Remarks(tuple(refusals), tuple(warnings))


def _recorded(item: Round, name: str) -> frozenset[object]:
    return frozenset(value for block in item.conditions.values() if (value := getattr(block, name)))


def _list(values: frozenset[object]) -> str:
    return ", ".join(sorted(map(repr, values)))
