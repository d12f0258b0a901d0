"""What a review holds beside the changed cells, and what the gate refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from generator.core.diff import Support
from generator.core.report import Format, render
from generator.core.review import Refusal, Side, review
from generator.core.routing import DeviceId
from tests.catalog_now import DIGEST
from tests.core.tables import CLASS, bands, entry, table

if TYPE_CHECKING:
    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog
    from generator.core.review import Refused

DEVICE = DeviceId(CLASS, 82)
HEAD = "q6_head/248320x5120"


def refused(catalog: Catalog, old: Document, new: Document) -> tuple[Refused, ...]:
    return review(Side("old", old), Side("new", new), catalog).refused


def test_lost_coverage_is_one_reason_a_key_with_touching_ranges_joined(catalog: Catalog) -> None:
    old = table(entry({HEAD: bands((2, "gemv"), (8, "small_t"), (16, ""), (20, "small_t"))}))
    text = "'gemv', 'small_t' ran here, now no layer answers"
    assert refused(catalog, old, table(entry({}))) == ((Refusal.COVERAGE_LOST, DEVICE, HEAD, ((1, 8), (17, 20)), text),)


def test_a_dropped_device_is_one_reason(catalog: Catalog) -> None:
    old = table(entry({HEAD: bands((2, "gemv"))}), entry({}, name="other"))
    assert refused(catalog, old, table()) == (
        (Refusal.DEVICE_DROPPED, DEVICE, "", (), "no entry is left"),
        (Refusal.DEVICE_DROPPED, DeviceId("other", 82), "", (), "no entry is left"),
    )


def test_an_unknown_schedule_is_refused_whether_or_not_it_changed(catalog: Catalog) -> None:
    same = table(entry({HEAD: bands((2, "gemw"), (4, "")), "no/key": bands((8, ""))}))
    assert [item[:4] for item in refused(catalog, same, same)] == [
        (Refusal.UNKNOWN_SCHEDULE, DEVICE, "no/key", ((1, 8),)),
        (Refusal.UNKNOWN_SCHEDULE, DEVICE, HEAD, ((1, 2),)),
    ]


def test_evidence_that_compiled_is_best_satisfies_the_gate(catalog: Catalog) -> None:
    old, new = table(entry({HEAD: bands((2, "gemv"))})), table(entry({}))
    supports = {(DEVICE, HEAD): (Support(1, 32, "", "measured on our kernels", "card/one.json"),)}
    assert refused(catalog, old, new) != ()
    assert review(Side("old", old), Side("new", new), catalog, supports=supports).refused == ()


def test_origin_calibration_and_spelling_are_told_as_text_alone(catalog: Catalog) -> None:
    routes = {HEAD: bands((2, "gemv"), (32, "")), "attn_pv_f16": bands((1, "on"))}
    respelt = {"attn_pv_f16": routes["attn_pv_f16"], HEAD: bands((1, "gemv"), (2, "gemv"), (32, ""))}
    old, new = table(entry(routes)), table(entry(respelt, origin="other\n", digest=DIGEST))
    found = review(Side("old", old), Side("new", new), catalog)
    assert found.diff.changes == ()
    name = "nvidia-geforce-rtx-3090-sm86, 82 SMs"
    assert found.text_only == (
        f"{name}: origin 'test' became 'other\\n'",
        f"{name}: the calibration block differs",
        f"{name}: the keys stand in another order",
        f"{name}: the bands of 'q6_head/248320x5120' are spelt differently and mean the same",
    )


def test_the_causes_at_the_measured_widths_of_a_cell_stand_beside_its_evidence(catalog: Catalog) -> None:
    old, new = table(entry({HEAD: bands((2, "gemv"), (8, ""))})), table(entry({HEAD: bands((8, "small_t"))}))
    support = {(DEVICE, HEAD): (Support(1, 8, "small_t", "measured on our kernels", "card/two.json", 0.05),)}
    causes = {(DEVICE, HEAD, 2): "tie: a", (DEVICE, HEAD, 4): "tie: b", (DEVICE, HEAD, 6): "tie: b"}
    found = review(Side("old", old), Side("new", new), catalog, supports=support, causes=causes)
    assert [(item.first, item.last, item.cause) for item in found.diff.changes] == [
        (1, 2, "tie: a"),
        (3, 8, "tie: b"),
    ]
    assert "measured on our kernels, gain 0.050, card/two.json; tie: b" in render(found, Format.TEXT)
    assert json.loads(render(found, Format.JSON))["changes"][1]["cause"] == "tie: b"


def test_a_long_common_beginning_of_two_origins_is_left_out(catalog: Catalog) -> None:
    same = "built in: RTX 3090 at 390 W, 2026-09-25; unified routes and two-stage GDN at 420 W, 2026-09-27"
    routes = {HEAD: bands((2, "gemv"))}
    old, new = table(entry(routes, origin=same)), table(entry(routes, origin=f"{same}; attn_pv_f16 by hand"))
    assert review(Side("old", old), Side("new", new), catalog).text_only == (
        "nvidia-geforce-rtx-3090-sm86, 82 SMs: origin ...'' became ...'; attn_pv_f16 by hand'",
    )
