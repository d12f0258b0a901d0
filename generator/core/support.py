"""Which source stands behind each band of a derived table, for a review to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import COMPILED, MAX_LAST

from generator.core.diff import Support
from generator.core.routing import DeviceId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from generator.core.derive import Answer, Derivation
    from generator.core.diff import Supports
    from generator.core.route import Point, RouteKey
    from generator.core.sources import Sources


def derived_supports(derivation: Derivation, sources: Sources) -> Supports:
    """Return one support a band, also of keys that are left out since every band is the compiled route.

    A key that evidence measured and found best compiled so counts as decided, not as lost. A band's gain is the
    weakest of its measured widths, its output difference the largest.
    """
    gains = {item.file: item.gains for item in sources.measured}
    gains |= {item.file: item.gains for item in sources.selected}
    differences = {item.file: item.differences for item in sources.measured}
    return {
        (DeviceId(*device), str(key)): tuple(
            _spans(key, answer, gains.get(answer.file, {}), differences.get(answer.file, {}))
        )
        for device, answers in derivation.answers.items()
        for key, answer in answers.items()
    }


def _spans(
    key: RouteKey,
    answer: Answer,
    gains: Mapping[Point, float],
    differences: Mapping[Point, float],
) -> Iterator[Support]:
    if not answer.bands:
        yield Support(1, MAX_LAST, COMPILED, answer.kind.label, answer.file)
    first = 1
    for band in answer.bands:
        gain, difference = (
            [value for (name, width), value in values.items() if name == key and first <= width <= band.last]
            if band.schedule
            else []
            for values in (gains, differences)
        )
        weakest, largest = min(gain, default=None), max(difference, default=None)
        yield Support(first, band.last, band.schedule, answer.kind.label, answer.file, weakest, largest)
        first = band.last + 1
