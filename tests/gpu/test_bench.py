"""The bench on a real device, over a toy family: flush, floor, refusals, faults and hangs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from generator.core.catalog import build_catalog
from generator.core.evidence import Evidence, Outcome
from generator.core.limits import LIMITS, Limits
from generator.core.sweep import KeyResult, Sweep
from generator.core.verdict import Rule, key_noise
from tests.kernels import toy_sum

if TYPE_CHECKING:
    from generator.core.route import RouteFamily

pytestmark = pytest.mark.gpu


def measure(name: str, families: tuple[RouteFamily, ...], limits: Limits) -> tuple[KeyResult, Evidence]:
    from generator.gpu.bench import GpuBench
    from generator.gpu.kernel_cache import KernelCache
    from generator.gpu.link import Link
    from generator.gpu.references import ensure_references, references_digest

    loader = f"tests.kernels.toy_sum:{name}"
    catalog = build_catalog(families)
    points = [(route.key, width) for route in catalog.calibrated for width in route.widths]
    assert ensure_references(loader, references_digest(toy_sum.ROOT), points, jobs=1) == {}
    link = Link(loader, 0, limits)
    try:
        bench = GpuBench(
            link=link,
            root=toy_sum.ROOT,
            catalog=catalog,
            limits=limits,
            kernels=KernelCache(None),
            clock=time.monotonic,
        )
        bench.start()
        facts = bench.facts()
        sweep = Sweep(catalog=catalog, limits=limits, rule=Rule.GUARDED)
        (result,) = sweep.keys(catalog.calibrated, bench, lambda _key, _width: None)
    finally:
        link.stop()
    evidence = Evidence(
        bench=facts.kind,
        catalog=catalog.digest(),
        device=facts.device,
        run=facts.run,
        keys=(result.facts,),
        trials=result.trials,
    )
    return result, evidence


def outcomes(evidence: Evidence, width: int) -> dict[str, Outcome]:
    return {trial.schedule: trial.outcome for trial in evidence.trials if trial.width == width and not trial.twin}


def test_a_sweep_times_checks_and_stops_as_it_should() -> None:
    result, evidence = measure("families", toy_sum.families(), LIMITS)
    assert outcomes(evidence, 32) == {
        "": Outcome.TIMED,
        "t32": outcomes(evidence, 32)["t32"],
        "t256": Outcome.SAME,
        "t1024": outcomes(evidence, 32)["t1024"],
        "hopeless": Outcome.STOPPED,
        "wrong": Outcome.REFUSED,
    }
    assert all(len(trial.first_us) == LIMITS.samples for trial in evidence.trials if trial.outcome is Outcome.TIMED)
    for trial in evidence.trials:
        if trial.outcome is Outcome.TIMED and not trial.twin:
            error = trial.errors["out"]
            assert error is not None
            assert error < 1e-5
    assert float(evidence.run["probe_cold_us"]) > float(evidence.run["probe_warm_us"])
    assert key_noise(evidence, result.facts.key, LIMITS) < 0.3  # three kernels of 6 to 13 us
    assert len(result.decisions) == 3


def test_straying_faulting_and_hanging_candidates_are_recorded_and_the_run_goes_on() -> None:
    limits = replace(LIMITS, time_limit_s=4.0)
    _, evidence = measure("wild_families", toy_sum.wild_families(), limits)
    assert outcomes(evidence, 4) | {"t32": Outcome.TIMED, "t1024": Outcome.TIMED} == {
        "": Outcome.TIMED,
        "t32": Outcome.TIMED,
        "stray": Outcome.REFUSED,
        "fault": Outcome.FAILED,
        "hang": Outcome.TIMED_OUT,
        "t1024": Outcome.TIMED,
    }
    (stray,) = [trial for trial in evidence.trials if trial.schedule == "stray"]
    assert stray.reason == "4 bytes written outside its outputs"
