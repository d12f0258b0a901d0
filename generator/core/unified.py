"""The two-round rule of the ``unified/*`` switches: rounds to decisions to bands (engine-profiles 5.2).

Per case the medians of the rounds are averaged, table by table. A difference of the two averages below one timer tick
is a tie and counts as no difference at all. The gain of a case is legacy time over unified time, the gain of a width
the geometric mean over its cases. A width qualifies when its gain is at least ``1 + min_gain`` and no case's loss,
unified time over legacy time, is above ``1 + max_loss``. A band runs from the first to the last of at least two
qualifying widths that no other measured width parts, and covers the unmeasured widths between them.

Both limits are compared exactly, on the decimal numbers of the round files, so that a gain of 3 % on the dot qualifies
and a loss of 3 % on the dot does no harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import COMPILED, Band, Bands, schedule_at

from generator.core.cases import EVERY_WIDTH, Expected, Grid
from generator.core.compared import Compared, gain_holds
from generator.core.conditions import Remarks, compare_conditions
from generator.core.limits import UNIFIED_LIMITS, UnifiedLimits
from generator.core.rounds import PROGRAM_DEFAULT, Case, Round, Table
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.core.route import RouteKey
    from generator.core.sources import Device

SCHEDULE = "unified"
"""The only schedule that a ``unified/*`` key names."""


class Verdict(StrEnum):
    """What became of one width of one key."""

    QUALIFIES = "qualifies"
    GAIN = "average gain too small"
    SLOWER = "a case is slower"
    TIE = "tie within the timer's tick"
    ALONE = "one width alone"
    CASE_MISSING = "case missing"
    TABLE_MISSING = "table missing"
    ROUND_MISSING = "round missing"
    CONDITIONS = "conditions differ"


_NOTHING_TO_JUDGE = {Verdict.CASE_MISSING, Verdict.TABLE_MISSING, Verdict.ROUND_MISSING, Verdict.CONDITIONS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What the rule says of one width of one key, and why.

    ``gain`` is the geometric mean of legacy over unified time, ``worst_loss`` the largest unified over legacy time
    and ``worst_case`` its case, all after the tie rule; None and empty where nothing could be compared.
    """

    key: RouteKey
    width: int
    verdict: Verdict
    reason: str
    gain: float | None = None
    worst_loss: float | None = None
    worst_case: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeySelection:
    """All decisions on one key, by width.

    ``bands`` is None where the rounds decide nothing (a round, a table or every case is missing, or the conditions
    forbid it): what another source says of the key then stands. Without any band they decide for the compiled route.
    """

    key: RouteKey
    decisions: tuple[Decision, ...]
    bands: Bands | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What the rule selects for one device from its rounds."""

    device: Device
    rounds: tuple[int, ...]
    keys: Mapping[RouteKey, KeySelection]
    remarks: Remarks

    @property
    def bands(self) -> dict[RouteKey, Bands]:
        """Return the bands of every key that the rounds decide; none at all is "compiled at every width".

        A key that they do not decide is absent, so what another source says of it stands.
        """
        return {key: item.bands for key, item in self.keys.items() if item.bands is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """One cell that takes another route under other limits, with both decisions."""

    device: Device
    before: Decision
    after: Decision


def select(
    rounds: Iterable[Round],
    cases: Mapping[RouteKey, tuple[Expected, ...]],
    limits: UnifiedLimits = UNIFIED_LIMITS,
    grid: Grid = EVERY_WIDTH,
) -> dict[Device, Selection]:
    """Return the rule's decisions per device, in the order of the devices' names.

    Args:
        rounds: in any order; rounds numbered past ``limits.rounds`` are not judged.
        cases: per key what it is judged on.
        limits: the numbers of the rule.
        grid: which widths to judge, and which cases to leave out.

    Raises:
        EvidenceError: two rounds of one device have the same number.
    """
    by_device: dict[Device, dict[int, Round]] = {}
    for item in rounds:
        if by_device.setdefault(item.device, {}).setdefault(item.number, item) is not item:
            raise EvidenceError(f"{item.where()}: given twice; one file holds a round. Remove one of the two files")
    return {device: _select_device(device, by_device[device], cases, limits, grid) for device in sorted(by_device)}


def moved(before: Mapping[Device, Selection], after: Mapping[Device, Selection]) -> tuple[Moved, ...]:
    """Return every measured cell whose route differs between two selections from the same rounds."""
    result: list[Moved] = []
    for device, old in before.items():
        for key, item in old.keys.items():
            other = after[device].keys[key]
            decisions = {decision.width: decision for decision in other.decisions}
            result.extend(
                Moved(device=device, before=decision, after=decisions[decision.width])
                for decision in item.decisions
                if decision.width in decisions
                and schedule_at(item.bands or (), decision.width) != schedule_at(other.bands or (), decision.width)
            )
    return tuple(result)


def describe_rule(limits: UnifiedLimits = UNIFIED_LIMITS) -> str:
    """Return the rule in one line, for reports that say what admitted a band."""
    return (
        f"two-round rule: {limits.rounds} rounds a table, gain at least {1 + limits.min_gain:g} over the cases, no "
        f"case's loss above {1 + limits.max_loss:g}, ties under {limits.tick_us:g} us, "
        f"{limits.least_widths} widths a band"
    )


def _select_device(
    device: Device,
    by_number: Mapping[int, Round],
    cases: Mapping[RouteKey, tuple[Expected, ...]],
    limits: UnifiedLimits,
    grid: Grid,
) -> Selection:
    judged = [by_number[number] for number in sorted(by_number) if number <= limits.rounds]
    remarks = compare_conditions(judged)
    keys = sorted({key for item in judged for key in item.widths})
    result: dict[RouteKey, KeySelection] = {}
    tables = {
        key: {item.case: item for item in grid.cases(key, cases.get(key, ())) if item.capability <= device.capability}
        for key in keys
    }
    medians, strangers = _medians(judged, tables, limits.rounds)
    for key in keys:
        times = medians.get(key, {})
        ran = sorted({width for item in judged for width in item.widths.get(key, ())})
        asked = grid.of(key)
        absent = _absent(key, times, limits.rounds, by_number)
        notes = tuple(f"{case}: measured, not among the cases judged" for case in sorted(strangers.get(key, ())))
        decisions: list[Decision] = []
        for width in sorted({*ran, *asked}):
            if remarks.refusals:
                decision = Decision(
                    key=key, width=width, verdict=Verdict.CONDITIONS, reason="; ".join(remarks.refusals)
                )
            elif absent is not None:
                decision = Decision(key=key, width=width, verdict=absent[0], reason=absent[1])
            else:
                expected = [item.case for item in tables[key].values() if item.at(width, device.capability)]
                decision = _judge(key, width, [(case, times.get(case, {}).get(width)) for case in expected], limits)
            if not asked or width in asked or decision.verdict is Verdict.SLOWER:
                decisions.append(decision)
        final, bands = _bands(decisions, limits)
        undecided = all(item.verdict in _NOTHING_TO_JUDGE for item in final)
        result[key] = KeySelection(key=key, decisions=final, bands=None if undecided else bands, notes=notes)
    return Selection(device=device, rounds=tuple(item.number for item in judged), keys=result, remarks=remarks)


def _medians(
    rounds: Sequence[Round], tables: Mapping[RouteKey, Mapping[Case, Expected]], count: int
) -> tuple[dict[RouteKey, dict[Case, dict[int, list[float | None]]]], dict[RouteKey, set[Case]]]:
    """Return key -> case -> width -> medians, cold and in the execution to judge; and per key the other cases."""
    found: dict[RouteKey, dict[Case, dict[int, list[float | None]]]] = {}
    strangers: dict[RouteKey, set[Case]] = {}
    empty: list[float | None] = [None] * (2 * count)
    for item in rounds:
        first = 2 * (item.number - 1)
        by_default = item.execution == PROGRAM_DEFAULT
        for time in item.times:
            key, table, case, execution, cache, width, median = time[:7]
            if cache != "cold":
                continue
            expected = tables[key].get(case)
            if expected is None:
                strangers.setdefault(key, set()).add(case)
                continue
            if execution != (expected.execution if expected.fixed or by_default else item.execution):
                continue
            by_width = found.setdefault(key, {}).setdefault(case, {})
            slots = by_width.get(width)
            if slots is None:
                slots = by_width[width] = empty.copy()
            slots[first + (table is Table.UNIFIED)] = median
    return found, strangers


def _absent(
    key: RouteKey,
    times: Mapping[Case, Mapping[int, Sequence[float | None]]],
    count: int,
    by_number: Mapping[int, Round],
) -> tuple[Verdict, str] | None:
    """Return why ``key`` cannot be judged at any width: the first round or table without a time of it."""
    seen = {
        place
        for widths in times.values()
        for slots in widths.values()
        for place, t in enumerate(slots)
        if t is not None
    }
    for number in range(1, count + 1):
        first = 2 * (number - 1)
        here = [table for place, table in enumerate((Table.LEGACY, Table.UNIFIED)) if first + place in seen]
        if not here:
            why = "holds no cold time of this key's cases" if number in by_number else "is not there"
            return Verdict.ROUND_MISSING, f"round {number} {why}; {count} rounds are needed"
        if len(here) == 1:
            lacking = Table.UNIFIED if here[0] is Table.LEGACY else Table.LEGACY
            return Verdict.TABLE_MISSING, f"round {number} holds no cold time of {key} with table {lacking.value!r}"
    return None


def _judge(
    key: RouteKey, width: int, times: Sequence[tuple[Case, Sequence[float | None] | None]], limits: UnifiedLimits
) -> Decision:
    """Return the decision on one width, before its neighbours are looked at."""
    if not times:
        reason = f"no case of {key} exists at width {width} on this device"
        return Decision(key=key, width=width, verdict=Verdict.CASE_MISSING, reason=reason)
    missing = [f"{case} has no time with {_gaps(slots)}" for case, slots in times if slots is None or None in slots]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return Decision(key=key, width=width, verdict=Verdict.CASE_MISSING, reason=missing[0] + more)
    compared = [Compared.of(case, slots or (), limits) for case, slots in times]
    ties = sum(item.tie for item in compared)
    logs = math.fsum(math.log(item.gain) for item in compared)
    gain = math.exp(logs / len(compared))
    worst = min(compared, key=lambda item: (item.gain, item.case))
    slower = [item for item in compared if item.slower(limits)]
    verdict, reason = Verdict.QUALIFIES, f"gain {gain:.4f} over {_count(compared)}, {worst.words()}"
    least = f"{1 + limits.min_gain:g}"
    if slower:
        more = f" (and {len(slower) - 1} more cases)" if len(slower) > 1 else ""
        verdict = Verdict.SLOWER
        reason = f"{worst.words()}, more than {1 + limits.max_loss:g}{more}; gain {gain:.4f}"
    elif not gain_holds(compared, logs, limits):
        verdict = Verdict.GAIN
        reason = f"gain {gain:.4f} over {_count(compared)} is under {least}"
        if ties == len(compared):
            verdict = Verdict.TIE
            reason = f"{_count(compared)}, every one within one tick of {limits.tick_us:g} us"
        elif ties and gain_holds([replace(item, tie=False) for item in compared], None, limits):
            verdict = Verdict.TIE
            reason = (
                f"gain {gain:.4f} is under {least} because {ties} of {_count(compared)} are within one tick of "
                f"{limits.tick_us:g} us"
            )
    return Decision(
        key=key,
        width=width,
        verdict=verdict,
        reason=reason,
        gain=gain,
        worst_loss=1 / worst.gain,
        worst_case=str(worst.case),
    )


def _count(items: Sequence[object]) -> str:
    return f"{len(items)} case{'s' if len(items) != 1 else ''}"


def _gaps(slots: Sequence[float | None] | None) -> str:
    if slots is None:
        return "any table in any round"
    names = ("legacy", "unified")
    return ", ".join(f"{names[place % 2]} in round {place // 2 + 1}" for place, t in enumerate(slots) if t is None)


def _bands(decisions: Sequence[Decision], limits: UnifiedLimits) -> tuple[tuple[Decision, ...], Bands]:
    """Return the decisions with lone widths marked, and the bands over what is left."""
    final = list(decisions)
    bands: list[Band] = []
    start = 0
    while start < len(final):
        end = start
        while end < len(final) and final[end].verdict is Verdict.QUALIFIES:
            end += 1
        widths = [item.width for item in final[start:end]]
        if widths and len(widths) < limits.least_widths:
            for place in range(start, end):
                item = final[place]
                reason = (
                    f"{item.reason}; a band needs {limits.least_widths} qualifying widths in a row, here {len(widths)}"
                )
                final[place] = replace(item, verdict=Verdict.ALONE, reason=reason)
        elif widths:
            if widths[0] - 1 > (bands[-1].last if bands else 0):
                bands.append(Band(widths[0] - 1, COMPILED))
            bands.append(Band(widths[-1], SCHEDULE))
        start = max(end, start + 1)
    return tuple(final), tuple(bands)
