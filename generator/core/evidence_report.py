"""Reports over evidence, in Markdown: efficiency against the floor, flips between runs, regret of a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import schedule_at

from generator.core.cause import Attribution, Judged, causes
from generator.core.evidence import Evidence, Outcome, Trial
from generator.core.route import COMPILED, RouteKey, Schedule
from generator.core.settle import settled_points
from generator.core.stats import median
from generator.core.verdict import Rule, false_switches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ninfer_device_profiles.bands import Bands

    from generator.core.catalog import Catalog
    from generator.core.limits import Limits

LARGE_BYTES = 150_000_000
LARGE_SHARE = 0.80
MIDDLE_BYTES = (20_000_000, 60_000_000)
MIDDLE_SHARE = 0.55
"""Aims of docs/measured.md: share of the floor's speed for operands of 150 MB or more, and of 20 to 60 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Efficiency:
    """The best schedule at one point against the floor. ``floor_bytes`` are the fewest bytes it must move."""

    key: RouteKey
    width: int
    schedule: Schedule
    best_us: float
    floor_us: float
    floor_bytes: float

    @property
    def share(self) -> float:
        """Return the share of the floor's speed that is reached."""
        return self.floor_us / self.best_us

    @property
    def aim(self) -> float | None:
        """Return the share to reach at this size, None where none is set."""
        if self.floor_bytes >= LARGE_BYTES:
            return LARGE_SHARE
        return MIDDLE_SHARE if MIDDLE_BYTES[0] <= self.floor_bytes <= MIDDLE_BYTES[1] else None


def efficiencies(evidence: Evidence) -> tuple[Efficiency, ...]:
    """Return every measured point with a floor, in the order of a sorted evidence file."""
    rate = float(evidence.run.get("read_bytes_per_us", 0.0))
    found: list[Efficiency] = []
    for (key, width), trials in sorted(evidence.by_point.items(), key=lambda item: (item[0][0].encode(), item[0][1])):
        timed = [trial for trial in trials if trial.outcome is Outcome.TIMED and not trial.twin and trial.floor_us]
        if not timed:
            continue
        best = min(timed, key=lambda trial: median(trial.first_us))
        floor_us = best.floor_us or 0.0
        found.append(
            Efficiency(
                key=key,
                width=width,
                schedule=best.schedule,
                best_us=median(best.first_us),
                floor_us=floor_us,
                floor_bytes=floor_us * rate,
            )
        )
    return tuple(found)


def efficiency_markdown(evidence: Evidence) -> str:
    """Return the efficiency report: one row a point, points that miss their aim marked."""
    rate = float(evidence.run.get("read_bytes_per_us", 0.0))
    rows = [
        (
            f"`{item.key}`",
            str(item.width),
            f"`{item.schedule or 'compiled'}`",
            f"{item.best_us:.1f}",
            f"{item.floor_us:.1f}",
            f"{item.floor_bytes / 1e6:.1f}",
            f"{item.floor_bytes / item.best_us / 1e3:.0f}",
            f"{item.share:.0%}",
            "" if item.aim is None else ("yes" if item.share >= item.aim else f"no, aim {item.aim:.0%}"),
        )
        for item in efficiencies(evidence)
    ]
    head = ("route key", "width", "fastest", "µs", "floor µs", "MB", "GB/s", "of the floor's speed", "aim reached")
    opening = (
        f"# Efficiency on {evidence.device.name}\n\n"
        f"Fastest schedule of each route key and width, against the time that device memory needs for the fewest bytes "
        f"the operation must move, at the read rate measured in the same run ({rate / 1000:.0f} GB/s). A sample of "
        f"nothing takes {float(evidence.run.get('empty_interval_us', 0.0)):.1f} µs; it is not subtracted.\n\n"
    )
    return opening + _family_table(efficiencies(evidence)) + "\n" + _table(head, rows)


def _family_table(found: Sequence[Efficiency]) -> str:
    """Return one row a family: how many points, the lowest, median and highest share, and aims reached."""
    families: dict[str, list[Efficiency]] = {}
    for item in found:
        parts = item.key.split("/")
        name = "/".join(parts[:2]) if parts[0] == "unified" else parts[0]
        families.setdefault(name, []).append(item)
    rows = []
    for name, items in families.items():
        shares = [item.share for item in items]
        aims = [item for item in items if item.aim is not None]
        reached = sum(item.share >= (item.aim or 0.0) for item in aims)
        rows.append(
            (
                f"`{name}`",
                str(len(items)),
                f"{min(shares):.0%}",
                f"{median(shares):.0%}",
                f"{max(shares):.0%}",
                f"{reached} of {len(aims)}" if aims else "none set",
            )
        )
    return _table(("family", "points", "lowest", "median", "highest", "aims reached"), rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """One cell that two runs decide differently, with each run's reason and the cause."""

    key: RouteKey
    width: int
    first: Schedule
    second: Schedule
    first_reason: str
    second_reason: str
    cause: Attribution


def flips(
    first: Evidence, second: Evidence, catalog: Catalog, limits: Limits, rule: Rule
) -> tuple[tuple[Flip, ...], int]:
    """Return the cells that the samples of two runs decide differently, and how many both decided."""
    one, other = (Judged(evidence=item, limits=limits, rule=rule, afresh=True) for item in (first, second))
    ours, theirs = one.decide(catalog), other.decide(catalog)
    why = causes(one, other, catalog)
    both = [point for point in ours if point in theirs]
    found = tuple(
        Flip(
            key=key,
            width=width,
            first=ours[key, width].schedule,
            second=theirs[key, width].schedule,
            first_reason=ours[key, width].reason,
            second_reason=theirs[key, width].reason,
            cause=why[key, width],
        )
        for key, width in both
        if ours[key, width].schedule != theirs[key, width].schedule
    )
    return found, len(both)


def settled_changes(first: Evidence, second: Evidence, catalog: Catalog, limits: Limits) -> int:
    """Return how many cells a table changes when ``second`` joins ``first`` as its source, under rule ``guarded``."""
    before = {
        point: decision.schedule for point, decision in settled_points(first, catalog, limits, Rule.GUARDED).items()
    }
    after = settled_points(second, catalog, limits, Rule.GUARDED, before)
    return sum(1 for point, decision in after.items() if point in before and decision.schedule != before[point])


def flips_markdown(first: Evidence, second: Evidence, catalog: Catalog, limits: Limits) -> str:
    """Return the flip report under both rules, with the false switches of the hidden twins."""
    text = f"# Two runs on {first.device.name}\n\n"
    for rule in Rule:
        found, cells = flips(first, second, catalog, limits, rule)
        share = len(found) / cells if cells else 0.0
        twins = [false_switches(item, catalog, limits, rule) for item in (first, second)]
        switched, judged = sum(taken for taken, _ in twins), sum(seen for _, seen in twins)
        text += f"## Rule {rule}\n\n{len(found)} of {cells} cells differ ({share:.2%}). "
        text += f"Hidden twins switched: {switched} of {judged}.\n\n"
        if rule is Rule.GUARDED:
            changed = settled_changes(first, second, catalog, limits)
            text += (
                f"As a second source of the table the second run changes {changed} of them: derive keeps an earlier "
            )
            text += "choice that the later run does not tell from its own.\n\n"
        if found:
            head = ("route key", "width", "first run", "second run", "cause", "why, first", "why, second")
            rows = [
                (
                    f"`{item.key}`",
                    str(item.width),
                    f"`{item.first or 'compiled'}`",
                    f"`{item.second or 'compiled'}`",
                    str(item.cause),
                    item.first_reason,
                    item.second_reason,
                )
                for item in found
            ]
            text += _table(head, rows) + "\n"
    return text.rstrip("\n") + "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What a table's choice costs at one point: ``share`` 0.05 is 5 % slower than the fastest measured schedule."""

    key: RouteKey
    width: int
    chosen: Schedule
    fastest: Schedule
    chosen_us: float | None
    fastest_us: float

    @property
    def share(self) -> float | None:
        """Return the loss, None where the choice has no time."""
        return None if self.chosen_us is None else self.chosen_us / self.fastest_us - 1.0


def regrets(evidence: Evidence, catalog: Catalog, bands: Mapping[str, Bands]) -> tuple[Regret, ...]:
    """Return the regret of ``bands`` at every measured point, largest first; a choice without a time leads."""
    found: list[Regret] = []
    for (key, width), trials in evidence.by_point.items():
        told = {Outcome.TIMED, Outcome.STOPPED}  # what failed or is impossible has samples too, and no time
        times = {
            item.schedule: _us(item) for item in trials if not item.twin and item.first_us and item.outcome in told
        }
        compiled = evidence.trial(key, width)
        if compiled is None or compiled.outcome is not Outcome.TIMED:
            continue
        base = times[COMPILED]
        times |= {trial.schedule: base for trial in trials if trial.outcome is Outcome.SAME}
        chosen = catalog.route(key).effective(schedule_at(bands.get(key, ()), width), width)
        usable = {trial.schedule for trial in trials if trial.outcome in {Outcome.TIMED, Outcome.SAME}}
        fastest = min((name for name in times if name in usable), key=lambda name: times[name])
        found.append(
            Regret(
                key=key,
                width=width,
                chosen=chosen,
                fastest=fastest,
                chosen_us=times.get(chosen),
                fastest_us=times[fastest],
            )
        )
    return tuple(
        sorted(found, key=lambda item: (-(item.share if item.share is not None else 1e9), item.key, item.width))
    )


def _us(trial: Trial) -> float:
    return median(trial.first_us)


def regret_markdown(found: Sequence[Regret], title: str, least: float = 0.0) -> str:
    """Return the regret report: the mean and largest loss, and every point that loses more than ``least``."""
    shares = [item.share for item in found if item.share is not None]
    mean = sum(shares) / len(shares) if shares else 0.0
    untimed = sum(item.share is None for item in found)
    opening = (
        f"# Regret of {title}\n\n{len(found)} points; mean loss {mean:.2%}, largest {max(shares, default=0.0):.2%}; "
        f"{untimed} choices could not be timed.\n\n"
    )
    rows = [
        (
            f"`{item.key}`",
            str(item.width),
            f"`{item.chosen or 'compiled'}`",
            f"`{item.fastest or 'compiled'}`",
            "no time" if item.chosen_us is None else f"{item.chosen_us:.1f}",
            f"{item.fastest_us:.1f}",
            "unknown" if item.share is None else f"{item.share:.1%}",
        )
        for item in found
        if item.share is None or item.share > least
    ]
    head = ("route key", "width", "choice", "fastest", "choice µs", "fastest µs", "loss")
    return opening + (_table(head, rows) if rows else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def efficiency_json(item: Efficiency) -> dict[str, object]:
    """Return one point of the efficiency report as plain JSON values."""
    return {**asdict(item), "share": item.share, "aim": item.aim}


def flip_json(item: Flip) -> dict[str, object]:
    """Return one cell of the flip report as plain JSON values."""
    return {**asdict(item), "cause": {"kind": item.cause.cause.value, "reason": item.cause.reason}}


def regret_json(item: Regret) -> dict[str, object]:
    """Return one point of the regret report as plain JSON values."""
    return {**asdict(item), "loss": item.share}
