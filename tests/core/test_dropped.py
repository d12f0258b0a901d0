"""Keys of measured sources that do not count are named with reason, answer and remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import Band

from generator.core.derive import derive
from generator.core.dropped import dropped_keys
from generator.core.route import HardwareClass, RouteKey
from generator.core.sources import Device, Kind, Measured, Sources
from tests.core.test_plan import CARD, measured

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

KEY = RouteKey("gdn_two_stage/h48")
GAP = "width 16: no trial of ['on']"
OTHER = "nvidia-card-two-sm90"
WHOLE = {KEY: (Band(2147483647, "on"),)}


def told(catalog: Catalog, *runs: Measured) -> list[str]:
    sources = Sources(reference=(CARD,), measured=runs)
    return [str(item) for item in dropped_keys(sources, derive(sources, catalog))]


PLACE = "'gdn_two_stage/h48' does not count: "
REMEDY = ". Restore the file, or measure the key again: nox -s {} -- --only gdn_two_stage/h48"


def test_a_key_that_no_source_answers_says_so(catalog: Catalog) -> None:
    (line,) = told(catalog, measured(CARD.hardware_class, "2026-01-01", incomplete={KEY: GAP}))
    assert line == (
        f"sources/measured/nvidia-card-one-sm70/2026-01-01.json: {PLACE}{GAP}; no other source answers"
        + REMEDY.format("calibrate-card-one")
    )


def test_an_older_run_that_answers_is_named(catalog: Catalog) -> None:
    older = measured(CARD.hardware_class, "2026-01-01", routes=WHOLE)
    (line,) = told(catalog, measured(CARD.hardware_class, "2026-02-01", incomplete={KEY: GAP}), older)
    assert line == (
        f"sources/measured/nvidia-card-one-sm70/2026-02-01.json: {PLACE}{GAP}; the source "
        "nvidia-card-one-sm70/2026-01-01.json answers (measured on our kernels)" + REMEDY.format("calibrate-card-one")
    )


def test_a_key_that_a_later_run_measured_whole_is_not_named(catalog: Catalog) -> None:
    broken = measured(CARD.hardware_class, "2026-01-01", incomplete={KEY: GAP})
    assert told(catalog, broken, measured(CARD.hardware_class, "2026-02-01", routes=WHOLE)) == []
    engine = replace(measured(CARD.hardware_class, "2025-02-01", routes=WHOLE), kind=Kind.ENGINE)
    assert told(catalog, broken, engine) == []
    elsewhere = replace(engine, device=Device(HardwareClass(OTHER), 80))
    assert len(told(catalog, broken, elsewhere)) == 1


def test_a_device_that_the_table_does_not_ship_is_named_too(catalog: Catalog) -> None:
    (line,) = told(catalog, measured(OTHER, "2026-01-01", incomplete={KEY: "the catalog has no such key"}))
    assert line == (
        f"sources/measured/nvidia-card-two-sm90/2026-01-01.json: {PLACE}the catalog has no such key"
        + REMEDY.format("calibrate")
    )
