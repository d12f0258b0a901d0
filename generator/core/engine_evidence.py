"""An engine calibration's entry and log as evidence of bench ``engine``: medians alone, and the choices it states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from generator.core.evidence import BenchKind, DeviceRecord, Evidence, KeyFacts, Outcome, Scalar, Trial
from generator.core.route import COMPILED, RouteKey, Schedule
from generator.core.sources import Device
from generator.core.verdict import Rule, route_bands
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ninfer_device_profiles.document import Profile

    from generator.core.catalog import Catalog
    from generator.core.engine_log import EngineLog, LoggedPoint
    from generator.core.route import Route

_ORIGIN = "ninfer-calibrate on "
STATISTIC = "median only"


def engine_evidence(
    profile: Profile, log: EngineLog, catalog: Catalog, source: str, *, run: Mapping[str, Scalar] | None = None
) -> Evidence:
    """Return the evidence of one engine calibration.

    Args:
        profile: the entry that ``--print`` gave; keys that the log does not decide are left to `import`.
        log: the run's lines.
        catalog: of this build.
        source: the log's name; it leads every message.
        run: further facts, such as digests of the entry and the log.

    Returns:
        Evidence whose ``run`` says that each ``first_us`` is a median and no sample.

    Raises:
        SourceError: entry, log and catalog are not of one run.
    """
    block = profile.calibration
    device = Device(log.hardware_class, log.multiprocessors)
    _same(source, "hardware class and SM count", str(device), f"{profile.hardware_class}/{profile.multiprocessors}")
    _same(source, "route catalog", log.catalog, block.route_catalog if block is not None else "none")
    if log.catalog != catalog.digest():
        raise SourceError(
            f"{source}: measured against route catalog {log.catalog!r}; this catalog is {catalog.digest()!r}. Measure "
            "again with an engine build of this catalog"
        )
    points: dict[RouteKey, dict[int, LoggedPoint]] = {}
    for point in log.points:
        points.setdefault(point.key, {})[point.width] = point
    trials: list[Trial] = []
    for key, by_width in points.items():
        route = catalog.routes.get(key)
        if route is None or not route.calibrated:
            raise SourceError(
                f"{source} line {next(iter(by_width.values())).line}: key {key!r} is not one that this catalog "
                "calibrates; the log is of another engine build"
            )
        _check_bands(source, profile, route, by_width)
        for point in by_width.values():
            trials.extend(_trials(source, route, point, detailed=log.detailed))
    facts: dict[str, Scalar] = {"statistic": STATISTIC, "engine_seconds": log.seconds, **(run or {})}
    if block is not None:
        facts |= {
            "ninfer_build": block.ninfer_build,
            "cuda_driver": block.cuda_driver,
            "cuda_runtime": block.cuda_runtime,
            "date": block.date,
        }
    return Evidence(
        bench=BenchKind.ENGINE,
        catalog=log.catalog,
        device=DeviceRecord(
            hardware_class=device.hardware_class,
            multiprocessors=device.multiprocessors,
            name=profile.origin.removeprefix(_ORIGIN),
            capability=device.capability,
        ),
        rule={"name": Rule.ENGINE.value},
        run=facts,
        keys=tuple(KeyFacts(key=key, digest=catalog.key_digest(key)) for key in points),
        trials=tuple(trials),
    )


def _same(source: str, what: str, log: str, entry: str) -> None:
    if log != entry:
        raise SourceError(
            f"{source}: {what} {log!r} in the log and {entry!r} in the entry; bring the log and the --print output of "
            "one run"
        )


def _check_bands(source: str, profile: Profile, route: Route, by_width: Mapping[int, LoggedPoint]) -> None:
    """Refuse a log that lacks a measured width or decides otherwise than the entry does."""
    for width, point in by_width.items():
        if width not in route.widths:
            raise SourceError(
                f"{source} line {point.line}: {route.key} w={width}; this catalog measures {list(route.widths)!r}. "
                "The log is of another engine build"
            )
    missing = [width for width in route.widths if width not in by_width]
    if missing:
        raise SourceError(
            f"{source} line {max(point.line for point in by_width.values())}: {route.key}: the decisions up to here "
            f"are of {len(by_width)} widths, no line decides {missing!r}; expected all {len(route.widths)} widths of "
            "this catalog. Lines are missing: bring the whole log, or calibrate again"
        )
    decided = route_bands(route, {width: point.schedule for width, point in by_width.items()})
    stored = profile.routes.get(route.key)
    if stored != decided:
        shown = [[list(band) for band in bands] if bands is not None else None for bands in (decided, stored)]
        raise SourceError(
            f"{source}: {route.key}: the log's decisions give {shown[0]!r} and the entry holds {shown[1]!r}; bring the "
            "log and the --print output of one run"
        )


def _trials(source: str, route: Route, point: LoggedPoint, *, detailed: bool) -> Iterator[Trial]:
    """Yield the compiled route's trial and one of each candidate that the log tells of."""
    names = [item.schedule for item in route.candidates]
    for name in (*point.timed, *point.refused, point.schedule):
        if name and name not in names:
            raise SourceError(
                f"{source} line {point.line}: {route.key} w={point.width}: schedule {name!r}; expected one of {names!r}"
            )
    yield _timed(point, COMPILED, point.compiled_us)
    for candidate in route.candidates:
        name = candidate.schedule
        us = point.timed.get(name, point.chosen_us if name == point.schedule else None)
        if us is not None:
            yield _timed(point, name, us)
        elif name in point.refused:
            yield _untimed(point, name, Outcome.REFUSED, point.refused[name])
        elif not candidate.legal(point.width):
            yield _untimed(point, name, Outcome.INELIGIBLE, "not legal at this width")
        elif detailed:
            yield _untimed(point, name, Outcome.FAILED, "no line in the engine's log: its checked run failed")


def _timed(point: LoggedPoint, name: Schedule, us: float) -> Trial:
    finite = math.isfinite(us)
    return Trial(
        key=point.key,
        width=point.width,
        schedule=name,
        outcome=Outcome.TIMED if finite else Outcome.FAILED,
        reason="" if finite else "infinite median: a timed launch failed",
        first_us=(us,) if finite else (),
        chosen=name == point.schedule,
    )


def _untimed(point: LoggedPoint, name: Schedule, outcome: Outcome, reason: str) -> Trial:
    return Trial(key=point.key, width=point.width, schedule=name, outcome=outcome, reason=reason)
