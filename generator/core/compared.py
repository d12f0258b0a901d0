"""One case at one width: legacy against unified time over all rounds, compared exactly where rounding could decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.core.limits import UnifiedLimits
    from generator.core.rounds import Case

_NEAR = 1e-9
"""Relative distance from a limit below which floating point is not trusted and exact arithmetic decides."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One case at one width.

    Args:
        slots: medians in microseconds: legacy and unified of round 1, then of round 2, and so on.
        legacy, unified: their sums over the rounds; comparing sums is comparing averages.
        tie: the averages differ by less than one tick.
    """

    case: Case
    slots: Sequence[float | None]
    legacy: float
    unified: float
    tie: bool

    @classmethod
    def of(cls, case: Case, slots: Sequence[float | None], limits: UnifiedLimits) -> Compared:
        """Return the comparison of medians that are all there."""
        times = [time for time in slots if time is not None]
        legacy, unified = math.fsum(times[0::2]), math.fsum(times[1::2])
        difference, tick = abs(legacy - unified), limits.tick_us * limits.rounds
        tie = difference < tick
        if abs(difference - tick) <= _NEAR * (legacy + unified):
            exact = [sum(map(_decimal, times[place::2]), Fraction()) for place in (0, 1)]
            tie = abs(exact[0] - exact[1]) < _decimal(limits.tick_us) * limits.rounds
        return cls(case, slots, legacy, unified, tie)

    @property
    def gain(self) -> float:
        """Return legacy over unified time; 1 for a tie."""
        return 1.0 if self.tie else self.legacy / self.unified

    def words(self) -> str:
        """Return the case and its loss, for reasons."""
        return f"{self.case} takes {1 / self.gain:.4f} times the legacy time"

    def exact(self) -> tuple[Fraction, Fraction]:
        """Return both sums as the decimal numbers that the files hold; a tie is 1 and 1."""
        if self.tie:
            return Fraction(1), Fraction(1)
        times = [_decimal(time) for time in self.slots if time is not None]
        return sum(times[0::2], Fraction()), sum(times[1::2], Fraction())

    def slower(self, limits: UnifiedLimits) -> bool:
        """Return whether the loss is above the limit."""
        if self.tie:
            return False
        limit = 1 + limits.max_loss
        loss = self.unified / self.legacy
        if abs(loss - limit) > _NEAR * limit:
            return loss > limit
        legacy, unified = self.exact()
        return unified > legacy * (1 + _decimal(limits.max_loss))


def gain_holds(compared: Sequence[Compared], logs: float | None, limits: UnifiedLimits) -> bool:
    """Return whether the geometric mean of the gains is at least the limit; ``logs`` is the sum of their logarithms."""
    total = math.fsum(math.log(item.gain) for item in compared) if logs is None else logs
    limit = len(compared) * math.log(1 + limits.min_gain)
    if abs(total - limit) > _NEAR * len(compared):
        return total > limit
    legacy, unified = Fraction(1), (1 + _decimal(limits.min_gain)) ** len(compared)
    for item in compared:
        ours, theirs = item.exact()
        legacy, unified = legacy * ours, unified * theirs
    return legacy >= unified


def _decimal(value: float) -> Fraction:
    """Return the decimal number that ``value`` is written as."""
    return Fraction(repr(value))
