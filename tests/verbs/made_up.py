"""Evidence of all calibrated keys, times made up, for tests of verbs that read evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.evidence import Evidence
from generator.core.limits import LIMITS
from generator.core.recorded_rule import rule_facts
from generator.core.sweep import Sweep
from generator.core.verdict import Rule
from tests.catalog_now import POINTS
from tests.core.fake_bench import FakeBench, Truth

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

TRUTH: Truth = {
    ("t2_i8_small/5120x6144", 4, "r16c8s3"): 80.0,
    ("gdn_two_stage/h48", 8192, "on"): 60.0,
    ("attn_prompt_fast", 1, "on"): 50.0,
}


_MADE: dict[int, Evidence] = {}


def made_up_evidence(catalog: Catalog, seed: int = 0) -> Evidence:
    """Return the evidence of one run, made once; another ``seed`` is another run of the same board."""
    if seed not in _MADE:
        _MADE[seed] = _made(catalog, seed)
    return _MADE[seed]


def _made(catalog: Catalog, seed: int) -> Evidence:
    bench = FakeBench(catalog, TRUTH, seed=seed, spread=0.002)
    sweep = Sweep(catalog=catalog, limits=LIMITS, rule=Rule.GUARDED)
    results = list(sweep.keys(catalog.calibrated, bench, lambda _key, _width: None))
    facts = bench.facts()
    return Evidence(
        bench=facts.kind,
        catalog=catalog.digest(),
        device=facts.device,
        rule=rule_facts(Rule.GUARDED, LIMITS),
        run={
            **facts.run,
            "date": "2026-11-29T22:00:00Z",
            "ninfer_build": "test",
            "twins_judged": POINTS,
            "twins_switched": 0,
        },
        keys=tuple(result.facts for result in results),
        trials=tuple(trial for result in results for trial in result.trials),
    )
