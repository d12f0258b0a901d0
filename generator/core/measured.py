"""Evidence as a source of the table: the bands of its complete keys under the rule that counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from generator.core.evidence import BenchKind, incomplete_keys
from generator.core.limits import LIMITS
from generator.core.settle import settled_points
from generator.core.sources import Device, Kind, Measured
from generator.core.verdict import Rule, decided_bands, false_switches
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence, Trial
    from generator.core.limits import Limits
    from generator.core.route import Point, Schedule

_KINDS = {BenchKind.ENGINE: Kind.ENGINE, BenchKind.KERNELS: Kind.KERNELS}


def measured_sources(
    files: Iterable[tuple[str, str, Evidence]],
    catalog: Catalog,
    *,
    limits: Limits = LIMITS,
    rule: Rule = Rule.GUARDED,
) -> tuple[Measured, ...]:
    """Return a source for each ``(file name, SHA-256, evidence)``, in the order of their dates.

    Runs of our own kernels on one device are settled one after the other: a later run changes a choice of the one
    before only where its samples tell the two apart (`settle`).

    Raises:
        EvidenceError: as `measured_source`.
    """
    found: list[Measured] = []
    earlier: dict[Device, dict[Point, Schedule]] = {}
    for name, sha256, evidence in sorted(files, key=lambda item: (str(item[2].run.get("date", "")), item[0])):
        device = Device(evidence.device.hardware_class, evidence.device.multiprocessors)
        known = earlier.setdefault(device, {}) if evidence.bench is BenchKind.KERNELS else {}
        source = measured_source(evidence, name, sha256, catalog, limits=limits, rule=rule, earlier=known)
        known |= source.choices
        found.append(source)
    return tuple(found)


def measured_source(
    evidence: Evidence,
    file: str,
    sha256: str,
    catalog: Catalog,
    *,
    limits: Limits = LIMITS,
    rule: Rule = Rule.GUARDED,
    earlier: Mapping[Point, Schedule] | None = None,
) -> Measured:
    """Return what ``evidence`` says of every key that it measured whole against this catalog's key digest.

    A key of another digest is stale and counts no more than one with a missing width. ``earlier`` holds the choices of
    the run before on this device, if any.

    Raises:
        EvidenceError: the rule would have switched too many hidden twins, so its other choices mean nothing either.
    """
    switched, judged = false_switches(evidence, catalog, limits, rule)
    if switched > math.ceil(limits.max_false_switches * judged):
        raise EvidenceError(
            f"{file}: {switched} of {judged} hidden twins would have been switched; allowed are "
            f"{limits.max_false_switches:.0%}. Measure the idle device anew, or remove the file from the sources"
        )
    gaps = incomplete_keys(evidence, catalog)
    decisions = settled_points(evidence, catalog, limits, rule, earlier)
    keys = [facts.key for facts in evidence.keys if facts.key not in gaps]
    choices = {(key, width): decisions[key, width].schedule for key in keys for width in catalog.route(key).widths}
    return Measured(
        device=Device(evidence.device.hardware_class, evidence.device.multiprocessors),
        file=file,
        sha256=sha256,
        kind=_KINDS[evidence.bench],
        date=str(evidence.run.get("date", "")),
        power_limit_w=evidence.device.power_limit_w,
        routes=decided_bands(decisions, keys, catalog),
        incomplete=gaps,
        gains={
            point: decision.gain
            for point, decision in decisions.items()
            if decision.schedule and decision.gain is not None
        },
        seconds={
            facts.key: float(facts.conditions["seconds"]) for facts in evidence.keys if "seconds" in facts.conditions
        },
        choices=choices,
        differences={
            (key, width): difference
            for (key, width), schedule in choices.items()
            if schedule and (difference := _difference(evidence.trial(key, width, schedule))) is not None
        },
    )


def _difference(trial: Trial | None) -> float | None:
    """Return the largest difference over the planes of ``trial``, None where none was compared."""
    found = [] if trial is None else [value for value in trial.differences.values() if value is not None]
    return max(found, default=None)
