"""Pictures of bands: every segment in its place."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import MAX_LAST

from generator.core.review import Strip
from generator.core.route import RouteKey
from generator.core.routing import DeviceId, effective_routing
from generator.core.strips import WIDTH, picture, width_words, widths
from tests.core.tables import CLASS, bands, entry, table

if TYPE_CHECKING:
    from ninfer_device_profiles.bands import Bands

    from generator.core.catalog import Catalog

DEVICE = DeviceId(CLASS, 82)
HEAD = "q6_head/248320x5120"


def strip(catalog: Catalog, old: Bands, new: Bands, key: str = HEAD) -> Strip:
    before, after = (effective_routing(table(entry({key: side})), catalog).devices[DEVICE] for side in (old, new))
    route = catalog.routes.get(RouteKey(key))
    return Strip(DEVICE, key, before.cells(key), after.cells(key), () if route is None else route.widths)


def test_each_row_is_filled_from_end_to_end_and_measured_widths_take_equal_room(catalog: Catalog) -> None:
    drawn = picture(strip(catalog, bands((2, "gemv"), (32, "small_t")), bands((1, "gemv"), (32, ""))))
    slot = WIDTH / (len(catalog.route(HEAD).widths) + 1)
    for row in (drawn.old, drawn.new):
        assert row[0].x == 0
        assert row[-1].x + row[-1].width == pytest.approx(WIDTH, abs=0.1)
        assert all(a.x + a.width == pytest.approx(b.x, abs=0.11) for a, b in itertools.pairwise(row))
    assert drawn.old[0].width == pytest.approx(2 * slot, abs=0.1)
    assert drawn.new[0].width == pytest.approx(slot, abs=0.1)
    assert [(s.css, s.label) for s in drawn.old] == [("c0", "gemv"), ("c1", "small_t"), ("none", "")]
    assert [(s.css, s.label) for s in drawn.new] == [("c0", ""), ("kept", "compiled"), ("none", "")]
    assert (
        drawn.summary
        == "old: 1-2 gemv, 3-32 small_t, 33 and up compiled; new: 1 gemv, 2-32 compiled, 33 and up compiled"
    )


def test_ticks_do_not_touch_and_the_last_names_what_lies_past_the_widest_width(catalog: Catalog) -> None:
    drawn = picture(strip(catalog, bands((8, "")), bands((1024, "unified")), "unified/fp8_linear_add"))
    assert drawn.ticks[0].label == "1"
    assert drawn.ticks[-1].label == ">1024"
    ends = [(tick.x - 3.3 * len(tick.label), tick.x + 3.3 * len(tick.label)) for tick in drawn.ticks]
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ends))
    assert ends[-1][1] <= WIDTH + 0.1


def test_a_key_that_no_catalog_knows_is_scaled_by_its_own_bands(catalog: Catalog) -> None:
    drawn = picture(strip(catalog, bands((8, "x")), bands((16, "x")), "no/such/key"))
    assert [tick.label for tick in drawn.ticks] == ["8", "16", ">16"]
    assert drawn.new[0].title == "1-16: compiled, ignoring 'x' (built-in table)"
    assert drawn.new[0].css == "bad"


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(1, 1, "1"), (2, 9, "2-9"), (33, MAX_LAST, "33 and up"), (1, MAX_LAST, "all")],
)
def test_a_range_of_widths_reads_plainly(first: int, last: int, text: str) -> None:
    assert widths(first, last) == text


def test_one_width_is_a_width_and_more_are_widths() -> None:
    assert width_words([(8, 8)]) == "width 8"
    assert width_words([(9, 16), (33, MAX_LAST)]) == "widths 9-16, 33 and up"
