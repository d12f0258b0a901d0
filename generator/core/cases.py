"""Which cases a ``unified/*`` key is judged on: shapes, formats, policies, forms and batches, each with its widths.

The list is closed. A row of a case that is not in it is kept as a fact and judged by nobody, so that the cases of a
decision do not depend on which outputs happen to be there; a case in the list that lacks a time takes the width out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from generator.core.rounds import Case
    from generator.core.route import RouteKey

BLACKWELL = 120
"""First compute capability that runs the A8 and A4 policies (engine-profiles 5.2: they count on Blackwell)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """One case and where it exists.

    Args:
        case: what the benchmark runs.
        execution: the execution that the benchmark program has by default, ``eager`` or ``graph``.
        first, last: widths at which the case exists, both inclusive; None is no upper end.
        step: the case exists at multiples of this width alone (a batch of 3 rows has 3, 6, 9 … columns).
        capability: first compute capability that runs the case.
        fixed: the program knows no other execution, so this one is judged whatever a round asks for.
    """

    case: Case
    execution: str = "eager"
    first: int = 1
    last: int | None = None
    step: int = 1
    capability: int = 0
    fixed: bool = False

    def at(self, width: int, capability: int) -> bool:
        """Return whether a device of ``capability`` has the case at ``width``."""
        return (
            self.first <= width
            and (self.last is None or width <= self.last)
            and width % self.step == 0
            and self.capability <= capability
        )


CasesByKey = dict["RouteKey", tuple[Expected, ...]]


def join_cases(feeds: Iterable[Mapping[RouteKey, tuple[Expected, ...]]]) -> CasesByKey:
    """Return the cases of every key over all ``feeds``, sorted by case; a case two programs feed counts once."""
    found: dict[RouteKey, dict[Case, Expected]] = {}
    for feed in feeds:
        for key, cases in feed.items():
            for expected in cases:
                found.setdefault(key, {}).setdefault(expected.case, expected)
    return {key: tuple(found[key][case] for case in sorted(found[key])) for key in sorted(found)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Another width grid, or fewer cases, to try a selection with.

    Args:
        widths: the widths to judge; empty judges every width that a round ran.
        by_key: keys with widths of their own.
        leave_out: per key or pattern of keys, patterns of cases (in words, as reasons name them) not to judge.
    """

    widths: tuple[int, ...] = ()
    by_key: Mapping[RouteKey, tuple[int, ...]] | None = None
    leave_out: Mapping[str, tuple[str, ...]] | None = None

    def of(self, key: RouteKey) -> tuple[int, ...]:
        """Return the widths to judge ``key`` at; empty for those that the rounds ran."""
        return (self.by_key or {}).get(key, self.widths)

    def cases(self, key: RouteKey, cases: tuple[Expected, ...]) -> tuple[Expected, ...]:
        """Return those of ``cases`` that are not left out for ``key``."""
        patterns = [
            pattern
            for keys, texts in sorted((self.leave_out or {}).items())
            if fnmatchcase(key, keys)
            for pattern in texts
        ]
        return tuple(item for item in cases if not any(fnmatchcase(str(item.case), text) for text in patterns))


EVERY_WIDTH = Grid()
