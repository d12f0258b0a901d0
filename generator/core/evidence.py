"""Evidence: what one run measured on one device, every sample of every trial, and under which conditions.

Facts only. Which schedule they make the choice is `generator.core.verdict`'s; reading and writing files is
`generator.core.evidence_file`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from generator.core.route import COMPILED, CatalogDigest, HardwareClass, Point, RouteKey, Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog

Scalar = str | int | float | bool
"""A fact of a run: JSON text, number or truth value."""


class BenchKind(StrEnum):
    """Which program took the times."""

    KERNELS = "kernels"  # this project's kernels
    ENGINE = "engine"  # the engine's own operations; medians and stated choices may be all there is


class Outcome(StrEnum):
    """What became of one trial. Only a trial that is ``TIMED`` can win."""

    TIMED = "timed"
    SAME = "same launch"  # resolves to the compiled route's very launch at this width; not timed
    INELIGIBLE = "ineligible"  # outside its legal widths; not timed
    REFUSED = "refused for output"  # output differs too much or is not finite; not timed
    IMPOSSIBLE = "impossible"  # faster than device memory can deliver the operation's bytes
    FAILED = "failed"  # the launch or the device reported an error
    TIMED_OUT = "timed out"
    STOPPED = "stopped early"  # hopeless after a few samples


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One schedule at one width.

    Args:
        schedule: the candidate; empty for the compiled route.
        twin: the compiled route timed a second time under a hidden name.
        outcome: what became of it, with ``reason`` wherever that is not ``TIMED``.
        first_us: first-pass samples in the order taken; one median is allowed in evidence of bench ``engine``.
        second_us: samples of each interleaved second-pass round, where one was run.
        differences: per output plane the largest absolute difference from the compiled route over that route's
            largest absolute value; None where a value was not finite.
        errors: the same against the wide-precision reference, at sampled elements.
        floor_us: the least time that device memory needs for the operation's bytes, where known.
        chosen: bench ``engine`` states its own choice: this trial's schedule was it.
        earlier: the entry that the run is to replace names this schedule here.
    """

    key: RouteKey
    width: int
    schedule: Schedule
    outcome: Outcome
    twin: bool = False
    reason: str = ""
    first_us: tuple[float, ...] = ()
    second_us: tuple[tuple[float, ...], ...] = ()
    differences: Mapping[str, float | None] = field(default_factory=dict)
    errors: Mapping[str, float | None] = field(default_factory=dict)
    floor_us: float | None = None
    chosen: bool = False
    earlier: bool = False

    @property
    def place(self) -> tuple[bytes, int, bool, bytes]:
        """Return where the trial stands in a sorted file: key in byte order, width, twin last, schedule."""
        return (self.key.encode(), self.width, self.twin, self.schedule.encode())


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyFacts:
    """What holds for all trials of one key.

    Args:
        digest: of the key and its candidates, by the catalog's scheme.
        kernels: digest of kernel sources, headers and compile options; empty for bench ``engine``.
        conditions: clocks, temperature, throttle reasons, power draw, other processes, seconds the key took.
    """

    key: RouteKey
    digest: CatalogDigest
    kernels: str = ""
    conditions: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceRecord:
    """The device that was measured. ``capability`` is major * 10 + minor; ``uuid_hash`` never the UUID itself."""

    hardware_class: HardwareClass
    multiprocessors: int
    name: str
    capability: int
    uuid_hash: str = ""
    pci: str = ""
    memory_bytes: int = 0
    l2_bytes: int = 0
    power_limit_w: int = 0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One run on one device.

    Args:
        bench: which program took the times.
        catalog: digest of the whole route catalog that was in force.
        device: what was measured.
        rule: name and numbers of the rule that steered the run (``{"name": "guarded", "min_gain": 0.03, ...}``).
        run: driver and runtime (CUDA's encoded versions), build, date, package versions, timer resolution, flush
            size and proof, read bandwidth, options.
        keys, trials: in any order; files hold them sorted.
    """

    bench: BenchKind
    catalog: CatalogDigest
    device: DeviceRecord
    rule: Mapping[str, Scalar] = field(default_factory=dict)
    run: Mapping[str, Scalar] = field(default_factory=dict)
    keys: tuple[KeyFacts, ...] = ()
    trials: tuple[Trial, ...] = ()

    @cached_property
    def by_point(self) -> dict[Point, tuple[Trial, ...]]:
        """Return the trials of each (key, width)."""
        found: dict[Point, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault((trial.key, trial.width), []).append(trial)
        return {point: tuple(trials) for point, trials in found.items()}

    def trial(self, key: RouteKey, width: int, schedule: Schedule = COMPILED, *, twin: bool = False) -> Trial | None:
        """Return the trial of ``schedule`` at a point, or None."""
        for item in self.by_point.get((key, width), ()):
            if item.schedule == schedule and item.twin == twin:
                return item
        return None


def incomplete_keys(evidence: Evidence, catalog: Catalog) -> dict[RouteKey, str]:
    """Return the keys of ``evidence`` that cannot be decided as a whole, each with the reason.

    A key is complete when its digest is the catalog's, and at every measured width the compiled route was timed and
    each candidate has a trial, whatever became of it; for bench ``engine`` a stated choice at every width is enough.
    """
    reasons: dict[RouteKey, str] = {}
    for facts in evidence.keys:
        route = catalog.routes.get(facts.key)
        if route is None:
            reasons[facts.key] = "the catalog has no such key"
            continue
        digest = catalog.key_digest(facts.key)
        if facts.digest != digest:
            reasons[facts.key] = f"measured against key digest {facts.digest}, the catalog's is {digest}"
            continue
        for width in route.widths:
            reason = _gap(evidence, route.key, width, tuple(item.schedule for item in route.candidates))
            if reason:
                reasons[facts.key] = f"width {width}: {reason}"
                break
    return reasons


def _gap(evidence: Evidence, key: RouteKey, width: int, candidates: tuple[Schedule, ...]) -> str:
    trials = evidence.by_point.get((key, width), ())
    if evidence.bench is BenchKind.ENGINE:
        return "" if any(item.chosen for item in trials) else "no stated choice"
    compiled = evidence.trial(key, width)
    if compiled is None:
        return "not measured"
    if compiled.outcome is not Outcome.TIMED:
        return f"the compiled route {compiled.outcome}: {compiled.reason}"
    missing = [name for name in candidates if evidence.trial(key, width, name) is None]
    return f"no trial of {missing!r}" if missing else ""


def complete_keys(evidence: Evidence, catalog: Catalog) -> tuple[RouteKey, ...]:
    """Return the keys of ``evidence`` that `incomplete_keys` has nothing against, in byte order."""
    gaps = incomplete_keys(evidence, catalog)
    return tuple(sorted((item.key for item in evidence.keys if item.key not in gaps), key=lambda key: key.encode()))
