"""Evidence as a source: what it says of its whole keys, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band

from generator.core.limits import LIMITS
from generator.core.measured import measured_source
from generator.core.sources import Kind
from generator.core.verdict import Rule
from generator.errors import EvidenceError
from tests.core.toy import KEY, STRETCHED, evidence, timed, toy_catalog

if TYPE_CHECKING:
    from generator.core.evidence import Trial

CATALOG = toy_catalog()
KEYS = ((KEY, 1, "c"), (KEY, 8, "c"), (STRETCHED, 8192, "x"), (STRETCHED, 262144, "x"))


def run(*twins_us: float) -> list[Trial]:
    """Return trials of four points whose candidates save a tenth, each with a twin of its own time."""
    return [
        trial
        for (key, width, schedule), twin_us in zip(KEYS, twins_us, strict=True)
        for trial in (
            timed("", 100.0, 100.0, key=key, width=width),
            timed("", twin_us, twin_us, key=key, width=width, twin=True),
            timed(schedule, 90.0, 90.0, key=key, width=width),
        )
    ]


def test_bands_and_gains_of_whole_keys_are_taken() -> None:
    source = measured_source(evidence(run(100.0, 100.0, 100.0, 100.0)), "a.json", "0" * 64, CATALOG)
    assert source.kind is Kind.KERNELS
    assert source.routes == {STRETCHED: (Band(1048576, "x"),)}
    assert source.incomplete == {KEY: "width 1: no trial of ['a', 'b']"}
    assert source.gains[STRETCHED, 8192] == pytest.approx(0.1)


def test_a_run_that_switches_its_twins_is_no_source() -> None:
    noisy = evidence(run(90.0, 100.0, 90.0, 100.0))
    with pytest.raises(EvidenceError) as error:
        measured_source(noisy, "card/a.json", "0" * 64, CATALOG, rule=Rule.ENGINE)
    assert str(error.value) == (
        "card/a.json: 2 of 4 hidden twins would have been switched; allowed are 1%. "
        "Measure the idle device anew, or remove the file from the sources"
    )


def test_one_switched_twin_of_a_small_run_is_within_the_limit() -> None:
    one = evidence(run(90.0, 100.0, 100.0, 100.0))
    assert measured_source(one, "a.json", "0" * 64, CATALOG, rule=Rule.ENGINE).routes
    none = replace(LIMITS, max_false_switches=0.0)
    with pytest.raises(EvidenceError, match="1 of 4 hidden twins"):
        measured_source(one, "a.json", "0" * 64, CATALOG, limits=none, rule=Rule.ENGINE)
