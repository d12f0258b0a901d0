"""Rounds to test the two-round rule with, made from tables of times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from generator.core.cases import Expected
from generator.core.rounds import Case, Conditions, Round, Table, Time, parse_device, usual_order
from generator.core.route import RouteKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from generator.core.sources import Device

DEVICE = parse_device("nvidia-geforce-rtx-3090-sm86/82")
KEY = RouteKey("unified/fp8_linear_add")
SMALL = Case("5120x6144", "fp8", "a16")
LARGE = Case("5120x17408", "fp8", "a16")
CASES = {KEY: (Expected(case=SMALL), Expected(case=LARGE))}
CONDITIONS = Conditions(
    build="v0.13.0", cuda_driver=13010, power_limit_w=420, sm_clock_mhz=1695, date="2026-09-27", gpu="gpu-0"
)

Times = Mapping[tuple[Case, int], tuple[float, float]]
"""(case, width) -> medians (legacy, unified) in microseconds."""


def times_of(times: Times, key: RouteKey = KEY) -> list[Time]:
    return [
        Time(key, table, case, "eager", "cold", width, median)
        for (case, width), pair in times.items()
        for table, median in zip((Table.LEGACY, Table.UNIFIED), pair, strict=True)
    ]


def make_round(
    number: int,
    times: Iterable[Time],
    *,
    widths: Mapping[RouteKey, tuple[int, ...]] | None = None,
    conditions: Mapping[Table, Conditions] | None = None,
    device: Device = DEVICE,
) -> Round:
    facts = tuple(sorted(times))
    ran: dict[RouteKey, set[int]] = {}
    for time in facts:
        ran.setdefault(time.key, set()).add(time.width)
    return Round(
        device=device,
        number=number,
        order=usual_order(number),
        conditions=conditions or dict.fromkeys(Table, CONDITIONS),
        widths=widths or {key: tuple(sorted(found)) for key, found in sorted(ran.items())},
        times=facts,
    )


def two_rounds(first: Times, second: Times | None = None) -> tuple[Round, Round]:
    return make_round(1, times_of(first)), make_round(2, times_of(second or first))


def both(width: int, legacy: float, unified: float) -> dict[tuple[Case, int], tuple[float, float]]:
    """Return the same two medians for both cases at one width."""
    return {(case, width): (legacy, unified) for case in (SMALL, LARGE)}
