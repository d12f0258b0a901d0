"""Effective routing: what acts, and which layer says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import MAX_LAST, Band, Bands, schedule_at
from ninfer_device_profiles.layering import layer

from generator.core.route import RouteKey
from generator.core.routing import UNCOVERED, Cell, DeviceId, Layer, State, effective_routing, first_match
from tests.catalog_now import DIGEST
from tests.core.tables import CLASS, WIDTHS, bands, documents, entry, table

if TYPE_CHECKING:
    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog

DEVICE = DeviceId(CLASS, 82)
HEAD = "q6_head/248320x5120"


def test_a_width_on_last_belongs_to_the_band_and_past_the_last_band_no_layer_answers(catalog: Catalog) -> None:
    routing = effective_routing(table(entry({HEAD: bands((2, "gemv"), (20, "small_t"))})), catalog).devices[DEVICE]
    assert [(cell.first, cell.last, cell.answer.acts) for cell in routing.cells(HEAD)] == [
        (1, 2, "gemv"),
        (3, 20, "small_t"),
        (21, MAX_LAST, ""),
    ]
    assert routing.at(HEAD, 21) == UNCOVERED
    assert routing.at(HEAD, 20).layer is Layer.BUILT_IN


@pytest.mark.parametrize(
    ("key", "written", "width", "state"),
    [
        (HEAD, "gemv", 2, State.CHOSEN),
        (HEAD, "gemv", 3, State.ILLEGAL_WIDTH),
        (HEAD, "", 3, State.KEPT),
        (HEAD, "unheard-of", 3, State.UNKNOWN_SCHEDULE),
        ("no/such/key", "x", 3, State.UNKNOWN_KEY),
        ("gdn_two_stage/h48", "on", 15, State.ILLEGAL_WIDTH),
        ("gdn_two_stage/h48", "on", 16, State.CHOSEN),
    ],
)
def test_what_is_written_and_what_acts_are_both_shown(
    catalog: Catalog, key: str, written: str, width: int, state: State
) -> None:
    answer = effective_routing(table(entry({key: bands((64, written))})), catalog).devices[DEVICE].at(key, width)
    assert (answer.state, answer.written) == (state, written)
    assert answer.acts == (written if state is State.CHOSEN else "")


@pytest.mark.parametrize(
    ("upper", "lower", "expected"),
    [
        (
            bands((16, ""), (32, "small_t")),
            bands((2, "gemv"), (28, "small_t"), (40, "")),
            [(1, 16, "", Layer.FILE), (17, 32, "small_t", Layer.FILE), (33, 40, "", Layer.BUILT_IN)],
        ),
        (bands((32, "")), bands((16, "small_t")), [(1, 32, "", Layer.FILE)]),
        (
            bands((2, "small_t")),
            bands((20, "small_t")),
            [(1, 2, "small_t", Layer.FILE), (3, 20, "small_t", Layer.BUILT_IN)],
        ),
    ],
)
def test_the_file_answers_up_to_its_last_width_and_the_table_past_it(
    catalog: Catalog, upper: Bands, lower: Bands, expected: list[tuple[int, int, str, Layer]]
) -> None:
    file = table(entry({HEAD: upper}, digest=DIGEST))
    routing = effective_routing(table(entry({HEAD: lower})), catalog, file=file).devices[DEVICE]
    covered = [cell for cell in routing.cells(HEAD) if cell.answer.layer is not Layer.COMPILED]
    assert [(c.first, c.last, c.answer.acts, c.answer.layer) for c in covered] == expected


def test_a_file_entry_of_another_catalog_or_of_none_is_ignored_with_a_note(catalog: Catalog) -> None:
    base = table(entry({HEAD: bands((20, "small_t"))}))
    stale = effective_routing(base, catalog, file=table(entry({HEAD: bands((20, "gemv"))}, digest="33f546be871d5bec")))
    assert stale.devices == effective_routing(base, catalog).devices
    assert stale.notes[0] == (
        "profile file: the entry of nvidia-geforce-rtx-3090-sm86 was measured against route catalog "
        f"33f546be871d5bec by build unknown; this build has route catalog {DIGEST}, the entry is ignored. "
        "Recalibrate with ninfer-calibrate or --device-profile calibrate."
    )
    bare = effective_routing(base, catalog, file=table(entry({HEAD: bands((20, "gemv"))})))
    assert bare.notes[0] == (
        "profile file: the entry of nvidia-geforce-rtx-3090-sm86 records no route catalog and is ignored. "
        "Recalibrate with ninfer-calibrate or --device-profile calibrate."
    )


def test_the_first_entry_that_matches_answers_and_zero_multiprocessors_match_any(catalog: Catalog) -> None:
    wildcard, exact = entry({HEAD: bands((2, "gemv"))}, sms=0), entry({HEAD: bands((2, "small_t"))})
    assert first_match(table(wildcard, exact), DEVICE) is wildcard
    assert first_match(table(exact, wildcard), DEVICE) is exact
    assert first_match(table(exact), DeviceId(CLASS, 84)) is None
    routing = effective_routing(table(exact, wildcard), catalog, devices=[DeviceId(CLASS, 84)])
    assert [routing.devices[DeviceId(CLASS, sms)].at(HEAD, 1).acts for sms in (82, 0, 84)] == [
        "small_t",
        "gemv",
        "gemv",
    ]


def test_equal_neighbours_become_one_cell(catalog: Catalog) -> None:
    split = effective_routing(table(entry({HEAD: bands((8, "small_t"), (20, "small_t"))})), catalog)
    joined = effective_routing(table(entry({HEAD: bands((20, "small_t"))})), catalog)
    assert split == joined
    assert split.devices[DEVICE].cells(HEAD)[0] == Cell(1, 20, split.devices[DEVICE].at(HEAD, 1))


@given(data=st.data())
def test_ranges_agree_with_a_look_up_at_every_width(catalog: Catalog, data: st.DataObject) -> None:
    base = data.draw(documents())
    file = data.draw(st.none() | documents(digest=DIGEST))
    routing = effective_routing(base, catalog, file=file)
    for device, item in routing.devices.items():
        for key, cells in item.keys.items():
            assert [cell.first for cell in cells] == [1, *(cell.last + 1 for cell in cells[:-1])]
            assert cells[-1].last == MAX_LAST
            for width in (*WIDTHS, 1000, MAX_LAST):
                assert item.at(key, width).acts == _acts((file, base), catalog, device, key, width)


def _acts(layers: tuple[Document | None, Document], catalog: Catalog, device: DeviceId, key: str, width: int) -> str:
    upper, lower = (None if document is None else first_match(document, device) for document in layers)
    whole = layer(upper, lower) if upper and lower else upper or lower
    assert whole is not None
    written = schedule_at(whole.routes.get(key, (Band(1, ""),)), width)
    route = catalog.routes.get(RouteKey(key))
    return "" if route is None else route.effective(written, width)
