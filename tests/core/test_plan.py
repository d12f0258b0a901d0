"""What each reference GPU has, lacks, and how long measuring the rest takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from generator.core.derive import derive
from generator.core.limits import LIMITS
from generator.core.plan import CardPlan, State, make_plan
from generator.core.reference import ReferenceGpu
from generator.core.route import Group, HardwareClass, RouteKey
from generator.core.sources import Device, Kind, Measured, Sources
from generator.core.workload import select_routes

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

H48, H32 = RouteKey("gdn_two_stage/h48"), RouteKey("gdn_two_stage/h32")
CARD = ReferenceGpu(
    name="Card One",
    device_name="NVIDIA Card One",
    capability=70,
    hardware_class=HardwareClass("nvidia-card-one-sm70"),
    multiprocessors=80,
    power_limit_w=250,
    cuda=12,
    extra=False,
    families=(Group.LINEAR_ATTENTION,),
)


def measured(card: str, date: str, **fields: object) -> Measured:
    item = Measured(
        device=Device(HardwareClass(card), 80),
        file=f"{card}/{date}.json",
        sha256="0" * 64,
        kind=Kind.KERNELS,
        date=date,
        power_limit_w=250,
        routes={},
    )
    return replace(item, **fields)  # type: ignore[arg-type]


def plan(catalog: Catalog, *evidence: Measured) -> CardPlan:
    sources = Sources(reference=(CARD,), measured=evidence)
    (found,) = make_plan(sources, derive(sources, catalog), catalog, rounds={})
    return found


def test_a_card_without_any_source_is_missing(catalog: Catalog) -> None:
    found = plan(catalog)
    assert found.missing
    assert found.keys == {H48: State.ABSENT, H32: State.ABSENT}
    assert found.command == "nox -s calibrate-card-one"
    assert found.rounds == {}
    work = select_routes(catalog, only="gdn_two_stage")
    assert found.seconds == pytest.approx(work.seconds(LIMITS, {}))


def test_a_stale_key_is_told_from_an_absent_and_a_measured_one(catalog: Catalog) -> None:
    found = plan(catalog, measured(CARD.hardware_class, "2026-01-01", routes={H48: ()}, incomplete={H32: "width 16"}))
    assert found.keys == {H48: State.MEASURED, H32: State.STALE}
    assert not found.missing


def test_seconds_come_from_the_newest_run_on_the_card_before_any_other(catalog: Catalog) -> None:
    runs = (
        measured("nvidia-other-sm90", "2026-03-01", seconds={H48: 7.0, H32: 5.0}),
        measured(CARD.hardware_class, "2026-01-01", seconds={H48: 1.0}),
        measured(CARD.hardware_class, "2026-02-01", seconds={H48: 2.0}),
    )
    found = plan(catalog, *runs)
    assert found.seconds == pytest.approx(2.0 + 5.0)
    assert found.timed_on == ("Card One", "nvidia-other-sm90")


def test_an_estimate_without_any_run_names_the_card_behind_it(catalog: Catalog) -> None:
    assert plan(catalog).timed_on == ("H200",)
