"""The cells that differ, and the class of each change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import MAX_LAST, Bands

from generator.core.diff import Change, Kind, RoutingDiff, Support, diff_routings
from generator.core.routing import DeviceId, Routing, effective_routing
from tests.core.tables import CLASS, KEYS, WIDTHS, band_lists, bands, documents, entry, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog

DEVICE = DeviceId(CLASS, 82)
HEAD = "q6_head/248320x5120"
Q5 = "q5_linear_add/5120x6144"


MIRROR = {
    Kind.DEVICE_DROPPED: Kind.DEVICE_ADDED,
    Kind.KEY_DROPPED: Kind.KEY_ADDED,
    Kind.COVERAGE_LOST: Kind.COVERAGE_ADDED,
}
MIRROR |= {value: key for key, value in MIRROR.items()}


def mirrored(change: Change) -> Change:
    """The change that the reverse comparison shows, without evidence."""
    kind = MIRROR.get(change.kind, change.kind)
    return replace(change, old=change.new, new=change.old, kind=kind, support=None, cause="")


def compare(catalog: Catalog, old: Document, new: Document) -> RoutingDiff:
    return diff_routings(effective_routing(old, catalog), effective_routing(new, catalog))


def acting(
    catalog: Catalog, old: Bands | None, new: Bands | None, key: str = Q5
) -> list[tuple[Kind, int, int, str, str]]:
    """Compare two entries that hold a second key beside ``key``; None leaves ``key`` out."""
    rest = {HEAD: bands((2, "gemv"))}
    sides = [table(entry(rest if side is None else {Q5: side, **rest})) for side in (old, new)]
    return [(c.kind, c.first, c.last, c.old.acts, c.new.acts) for c in compare(catalog, *sides).acting]


def test_an_inserted_band_shows_exactly_its_widths(catalog: Catalog) -> None:
    old = bands((2, ""), (32, "small_t_mma"), (64, "mma_r64_c32"))
    new = bands((2, ""), (8, "small_t_mma"), (10, "split2_exact"), (32, "small_t_mma"), (64, "mma_r64_c32"))
    assert acting(catalog, old, new) == [(Kind.SCHEDULE_CHANGED, 9, 10, "small_t_mma", "split2_exact")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, bands((8, "small_t_mma")), (Kind.KEY_ADDED, 1, 8, "", "small_t_mma")),
        (bands((8, "small_t_mma")), None, (Kind.KEY_DROPPED, 1, 8, "small_t_mma", "")),
        (bands((32, "small_t_mma")), bands((8, "small_t_mma")), (Kind.COVERAGE_LOST, 9, 32, "small_t_mma", "")),
        (bands((8, "small_t_mma")), bands((32, "small_t_mma")), (Kind.COVERAGE_ADDED, 9, 32, "", "small_t_mma")),
        (bands((8, "small_t_mma")), bands((8, "")), (Kind.SCHEDULE_CHANGED, 1, 8, "small_t_mma", "")),
        (
            bands((8, "split2_exact"), (32, "small_t_mma")),
            bands((4, "split2_exact"), (32, "small_t_mma")),
            (Kind.BAND_MOVED, 5, 8, "split2_exact", "small_t_mma"),
        ),
        (
            bands((8, "split2_exact"), (32, "small_t_mma")),
            bands((32, "small_t_mma")),
            (Kind.SCHEDULE_CHANGED, 1, 8, "split2_exact", "small_t_mma"),
        ),
    ],
)
def test_each_change_has_its_class(
    catalog: Catalog, old: Bands | None, new: Bands | None, expected: tuple[Kind, int, int, str, str]
) -> None:
    assert acting(catalog, old, new) == [expected]


def test_a_new_and_a_dropped_device_show_every_cell_that_acts(catalog: Catalog) -> None:
    one, two = entry({HEAD: bands((2, "gemv"))}), entry({HEAD: bands((3, "small_t"))}, name="other")
    found = compare(catalog, table(one), table(two))
    assert found.devices_dropped == (DEVICE,)
    assert found.devices_added == (DeviceId("other", 82),)
    assert [(c.kind, c.device.hardware_class, c.last) for c in found.acting] == [
        (Kind.DEVICE_DROPPED, CLASS, 2),
        (Kind.DEVICE_ADDED, "other", 3),
    ]


def test_an_exact_entry_that_repeats_a_wildcard_is_no_change_for_its_sm_count(catalog: Catalog) -> None:
    wildcard, exact = entry({HEAD: bands((2, "gemv"))}, sms=0), entry({HEAD: bands((2, "gemv"))})
    found = diff_routings(
        effective_routing(table(wildcard), catalog, devices=[DEVICE]), effective_routing(table(exact), catalog)
    )
    assert found.devices_added == ()
    assert found.devices_dropped == (DeviceId(CLASS, 0),)


def test_the_compiled_route_written_or_not_is_provenance_only(catalog: Catalog) -> None:
    found = compare(
        catalog, table(entry({HEAD: bands((2, "gemv"), (32, ""))})), table(entry({HEAD: bands((2, "gemv"))}))
    )
    assert [(c.kind, c.first, c.last, c.acts, c.coverage_lost) for c in found.changes] == [
        (Kind.PROVENANCE_ONLY, 3, 32, False, False)
    ]


def test_a_change_across_rounding_classes_is_marked(catalog: Catalog) -> None:
    found = compare(
        catalog, table(entry({"attn_pv_f16": bands((1, ""))})), table(entry({"attn_pv_f16": bands((1, "on"))}))
    )
    assert [(c.rounding_changed, c.old.rounding, c.new.rounding) for c in found.changes] == [
        (True, "", "fp16 accumulation")
    ]


def test_evidence_for_the_compiled_route_turns_lost_coverage_into_a_change_of_schedule(catalog: Catalog) -> None:
    old = effective_routing(table(entry({HEAD: bands((2, "gemv"), (20, "small_t"))})), catalog)
    new = effective_routing(table(entry({HEAD: bands((2, "gemv"))})), catalog)
    bare = diff_routings(old, new)
    assert [(c.kind, c.coverage_lost) for c in bare.acting] == [(Kind.COVERAGE_LOST, True)]
    support = Support(3, 20, "", "engine", "measured/x.json", 0.99)
    backed = diff_routings(old, new, {(DEVICE, HEAD): (Support(1, 2, "gemv", "engine", "measured/x.json"), support)})
    assert [(c.kind, c.coverage_lost, c.support) for c in backed.acting] == [(Kind.SCHEDULE_CHANGED, False, support)]


@given(document=documents())
def test_a_table_does_not_differ_from_itself(catalog: Catalog, document: Document) -> None:
    assert compare(catalog, document, document) == RoutingDiff()


@given(document=documents(), data=st.data())
def test_order_of_keys_and_of_distinct_devices_changes_nothing(
    catalog: Catalog, document: Document, data: st.DataObject
) -> None:
    distinct = {(p.hardware_class, p.multiprocessors or 82): p for p in document.devices}
    before = table(*distinct.values())
    shuffled = [replace(p, routes=dict(data.draw(st.permutations(list(p.routes.items()))))) for p in before.devices]
    assert compare(catalog, before, table(*data.draw(st.permutations(shuffled)))) == RoutingDiff()


@given(old=documents(), new=documents())
def test_the_reverse_comparison_is_the_mirror(catalog: Catalog, old: Document, new: Document) -> None:
    forth, back = compare(catalog, old, new), compare(catalog, new, old)
    assert _by_place(forth.changes) == _by_place(map(mirrored, back.changes))
    assert set(forth.devices_added) == set(back.devices_dropped)


def _by_place(changes: Iterable[Change]) -> dict[tuple[DeviceId, str, int], Change]:
    return {(change.device, change.key, change.first): change for change in changes}


@given(document=documents(), data=st.data())
def test_an_edit_of_one_key_shows_exactly_the_widths_whose_schedule_differs(
    catalog: Catalog, document: Document, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(KEYS)))
    edited = data.draw(band_lists(KEYS[key]))
    base = table(entry({HEAD: bands((2, "gemv"))}), *document.devices)
    routes = {**base.devices[0].routes, key: edited}
    changed = table(replace(base.devices[0], routes=routes), *document.devices)
    old, new = effective_routing(base, catalog), effective_routing(changed, catalog)
    found = diff_routings(old, new)
    assert {(change.device, change.key) for change in found.changes} <= {(DEVICE, key)}
    assert _widths(found) == _brute_force(old, new, key)


def test_keys_that_read_as_paths_or_numbers_are_told_apart(catalog: Catalog) -> None:
    names = ("a['b']", "a.b", "['a']", '["a"]', "root['a']", "1", "[1]", "__a", "a\\'b\"c", " ", "")
    routes = {name: bands((8, "x")) for name in names}
    changed = {name: bands((4, "x")) for name in names}
    assert [change.key for change in compare(catalog, table(entry(routes)), table(entry(changed))).changes] == sorted(
        names
    )


def _widths(found: RoutingDiff) -> set[int]:
    return {width for change in found.acting for width in (*WIDTHS, MAX_LAST) if change.first <= width <= change.last}


def _brute_force(old: Routing, new: Routing, key: str) -> set[int]:
    before, after = old.devices[DEVICE], new.devices[DEVICE]
    return {width for width in (*WIDTHS, MAX_LAST) if before.at(key, width).acts != after.at(key, width).acts}
