"""Statistics of samples: medians as the engine takes them, the noise of a key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def median(samples: Sequence[float]) -> float:
    """Return element ``n // 2`` of the sorted samples: the upper middle of an even count (engine-profiles 4.2).

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples; a median needs at least one")
    return sorted(samples)[len(samples) // 2]


def midmean(samples: Sequence[float]) -> float:
    """Return the mean of the middle half: as deaf to outliers as a median, and finer than the timer's steps.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples; a mean needs at least one")
    cut = len(samples) // 4
    middle = sorted(samples)[cut : len(samples) - cut]
    return math.fsum(middle) / len(middle)


def center(samples: Sequence[float], usual: int) -> float:
    """Return the median of up to ``usual`` samples, as the engine takes it, and the midmean of more."""
    return median(samples) if len(samples) <= usual else midmean(samples)


def standard_error(samples: Sequence[float]) -> float:
    """Return the standard error of the center of ``samples`` as a ratio of it, from their interquartile range.

    For normal samples the range is 1.349 standard deviations, and a median's error 1.253 times that of a mean.
    """
    ordered = sorted(samples)
    quartiles = ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]
    return quartiles / 1.349 * 1.253 / math.sqrt(len(ordered)) / median(ordered)


def gain(rival_us: float, base_us: float) -> float:
    """Return the share of ``base_us`` that ``rival_us`` saves: 0.03 is 3 % faster, negative is slower."""
    return 1.0 - rival_us / base_us


def noise(ratios: Iterable[float], factor: float) -> float:
    """Return the noise that twin-to-compiled ``ratios`` show: ``factor`` times their median distance from 1.

    A median, so that one disturbed point does not hide the wins of all others. No ratios give 0.
    """
    distances = [abs(ratio - 1.0) for ratio in ratios]
    return factor * median(distances) if distances else 0.0
