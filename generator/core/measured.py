"""Evidence as a source of the table: the bands of its complete keys under the rule that counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from generator.core.evidence import BenchKind, incomplete_keys
from generator.core.limits import LIMITS
from generator.core.sources import Device, Kind, Measured
from generator.core.verdict import Rule, decide_points, evidence_bands, false_switches
from generator.errors import EvidenceError

if TYPE_CHECKING:
    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence
    from generator.core.limits import Limits

_KINDS = {BenchKind.ENGINE: Kind.ENGINE, BenchKind.KERNELS: Kind.KERNELS}


def measured_source(
    evidence: Evidence,
    file: str,
    sha256: str,
    catalog: Catalog,
    *,
    limits: Limits = LIMITS,
    rule: Rule = Rule.GUARDED,
) -> Measured:
    """Return what ``evidence`` says of every key that it measured whole against this catalog's key digest.

    A key of another digest is stale and counts no more than one with a missing width.

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
    decisions = decide_points(evidence, catalog, limits, rule)
    return Measured(
        device=Device(evidence.device.hardware_class, evidence.device.multiprocessors),
        file=file,
        sha256=sha256,
        kind=_KINDS[evidence.bench],
        date=str(evidence.run.get("date", "")),
        power_limit_w=evidence.device.power_limit_w,
        routes=evidence_bands(evidence, catalog, limits, rule),
        incomplete=gaps,
        gains={
            point: decision.gain
            for point, decision in decisions.items()
            if decision.schedule and decision.gain is not None
        },
        seconds={
            facts.key: float(facts.conditions["seconds"]) for facts in evidence.keys if "seconds" in facts.conditions
        },
    )
