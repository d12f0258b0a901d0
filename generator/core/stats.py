"""Statistics of samples: medians as the engine takes them, the noise of a key."""

from __future__ import annotations

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


def gain(rival_us: float, base_us: float) -> float:
    """Return the share of ``base_us`` that ``rival_us`` saves: 0.03 is 3 % faster, negative is slower."""
    return 1.0 - rival_us / base_us


def noise(ratios: Iterable[float], factor: float) -> float:
    """Return the noise that twin-to-compiled ``ratios`` show: ``factor`` times their median distance from 1.

    A median, so that one disturbed point does not hide the wins of all others. No ratios give 0.
    """
    distances = [abs(ratio - 1.0) for ratio in ratios]
    return factor * median(distances) if distances else 0.0
