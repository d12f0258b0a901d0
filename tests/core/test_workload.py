"""What a run selects, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from generator.core.limits import LIMITS
from generator.core.route import Group, RouteKey
from generator.core.workload import select_routes
from generator.errors import UsageError
from tests.catalog_now import KEYS

if TYPE_CHECKING:
    from generator.core.catalog import Catalog


def keys(catalog: Catalog, **choice: object) -> list[str]:
    work = select_routes(catalog, **choice)  # type: ignore[arg-type]
    return [route.key for route in sorted((*work.routes, *work.pending), key=lambda route: route.order)]


def test_all_keys_are_selected_in_the_engines_order(catalog: Catalog) -> None:
    found = keys(catalog)
    assert len(found) == KEYS
    assert found[0] == "t2_i8_small/4096+12288x5120"
    assert found[66] == "attn_i8_small/h24/int8/w8"


def test_a_prefix_and_families_narrow_the_run(catalog: Catalog) -> None:
    assert keys(catalog, only="gdn_") == ["gdn_two_stage/h48", "gdn_two_stage/h32"]
    left = keys(catalog, skip={Group.ATTENTION, Group.LINEAR_ATTENTION})
    projections = {Group.TERNARY, Group.GROUPWISE}
    assert left == [item.key for item in catalog.calibrated if catalog.families[item.key].group in projections]


def test_volta_measures_the_gdn_switch_alone(catalog: Catalog) -> None:
    assert keys(catalog, capability=70) == ["gdn_two_stage/h48", "gdn_two_stage/h32"]
    assert len(keys(catalog, capability=86)) == KEYS


def test_a_prefix_that_fits_nothing_is_a_usage_error(catalog: Catalog) -> None:
    with pytest.raises(UsageError) as caught:
        select_routes(catalog, only="nothing", skip={Group.TERNARY})
    assert str(caught.value) == (
        f"--only 'nothing', without ternary: selects none of the {KEYS} calibrated route keys; "
        "list them with `python -m generator catalog`"
    )


def test_timings_count_compiled_route_twin_and_legal_candidates(catalog: Catalog) -> None:
    work = select_routes(catalog, only="t2_i8_small/248320x5120")
    per_width = {1: 11, 2: 11, 3: 11, 4: 11, 5: 11, 6: 11, 7: 11, 8: 11, 12: 6, 16: 6}
    assert work.timings(LIMITS) == sum(2 + n for n in per_width.values()) * 13


def test_the_estimate_takes_seconds_seen_before_and_scales_with_samples(catalog: Catalog) -> None:
    work = select_routes(catalog, only="gdn_two_stage")
    seen = {RouteKey("gdn_two_stage/h48"): 2.0, RouteKey("gdn_two_stage/h32"): 1.0}
    assert work.seconds(LIMITS, seen) == pytest.approx(3.0)
    assert work.seconds(replace(LIMITS, samples=22), seen) == pytest.approx(6.0)
    assert work.seconds(LIMITS, {}) > 0
