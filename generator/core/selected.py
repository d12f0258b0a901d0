"""Benchmark rounds as a source of the table: the bands that the two-round rule selects, with the rounds' digests."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from generator.core.cases import EVERY_WIDTH, Grid
from generator.core.limits import UNIFIED_LIMITS
from generator.core.rounds import Table
from generator.core.sources import Selected
from generator.core.unified import select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from generator.core.cases import Expected
    from generator.core.limits import UnifiedLimits
    from generator.core.rounds import Round
    from generator.core.route import HardwareClass, RouteKey
    from generator.core.sources import Device


class RoundFile(NamedTuple):
    """One round and the file it stands in: the name as reports give it, and the digest of its bytes."""

    round: Round
    name: str
    sha256: str


def selected_sources(
    files: Iterable[RoundFile],
    cases: Mapping[RouteKey, tuple[Expected, ...]],
    *,
    grids: Mapping[HardwareClass, Grid] | None = None,
    limits: UnifiedLimits = UNIFIED_LIMITS,
) -> tuple[Selected, ...]:
    """Return what the rounds select, one source a device; a device whose rounds decide no key has none.

    A key that the rounds decide for the compiled route at every width has no bands; it still answers over an imported
    entry, and the table then leaves it out.

    Raises:
        EvidenceError: two files hold the same round of one device.
    """
    by_device: dict[Device, list[RoundFile]] = {}
    for file in files:
        by_device.setdefault(file.round.device, []).append(file)
    result: list[Selected] = []
    for device in sorted(by_device):
        grid = (grids or {}).get(device.hardware_class, EVERY_WIDTH)
        (selection,) = select((file.round for file in by_device[device]), cases, limits, grid).values()
        routes = selection.bands
        used = [file for file in by_device[device] if file.round.number in selection.rounds]
        used.sort(key=lambda file: file.round.number)
        if routes:
            dates = [block.date for file in used for block in file.round.conditions.values()]
            result.append(
                Selected(
                    device=device,
                    file=", ".join(file.name for file in used),
                    sha256=_joined([file.sha256 for file in used]),
                    date=max(dates, default=""),
                    routes=routes,
                    gains={
                        (key, decision.width): 1 - 1 / decision.gain
                        for key in routes
                        for decision in selection.keys[key].decisions
                        if decision.gain is not None
                    },
                )
            )
    return tuple(result)


def _joined(digests: list[str]) -> str:
    """Return the digest of several files' digests, one a line in the rounds' order."""
    return hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()


def rounds_present(rounds: Iterable[Round]) -> dict[Device, dict[RouteKey, int]]:
    """Return per device and ``unified/*`` key how many rounds hold a time of it with both tables."""
    result: dict[Device, dict[RouteKey, int]] = {}
    for item in rounds:
        tables: dict[RouteKey, set[Table]] = {}
        for time in item.times:
            if time.median_us is not None:
                tables.setdefault(time.key, set()).add(time.table)
        counts = result.setdefault(item.device, {})
        for key, found in tables.items():
            if len(found) == len(Table):
                counts[key] = counts.get(key, 0) + 1
    return result
