"""What a reviewer is told of a table beside its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.document import parse_document

from generator.core.lint import Rule, lint
from generator.core.routing import effective_routing
from tests.catalog_now import DIGEST
from tests.core.tables import bands, entry, table

if TYPE_CHECKING:
    from pathlib import Path

    from ninfer_device_profiles.bands import Bands
    from ninfer_device_profiles.document import Document

    from generator.core.catalog import Catalog

HEAD = "q6_head/248320x5120"
Q5 = "q5_linear_add/5120x6144"
Q5_SWITCH = "unified/q5_linear_add/5120x6144"
SWIGLU_SWITCH = "unified/q4_linear_swiglu"
INPUT_SWITCH = "unified/q4_q5_attn_input"

Found = list[tuple[Rule, str, int, int, str]]


def findings(catalog: Catalog, document: Document, file: Document | None = None) -> Found:
    routing = effective_routing(document, catalog, file=file)
    found = lint(file if file is not None else document, routing, catalog)
    return [(item.rule, item.key, item.first, item.last, item.text) for item in found]


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ({HEAD: bands((2, "gemv"), (32, "small_t"))}, []),
        (
            {HEAD: bands((20, "small_t"))},
            [
                (
                    Rule.ENDS_EARLY,
                    HEAD,
                    21,
                    32,
                    "the last band ends at 20, the widest measured width is 32; past the end no layer answers",
                )
            ],
        ),
        (
            {HEAD: bands((16, "small_t"), (32, "small_t"))},
            [(Rule.REDUNDANT, HEAD, 17, 32, "two neighbouring bands name 'small_t'; one band says the same")],
        ),
        (
            {HEAD: bands((32, ""))},
            [(Rule.REDUNDANT, HEAD, 1, 32, "every band is the compiled route, as without the key")],
        ),
        (
            {Q5: bands((2, "split2_exact"), (3, "split2_exact"), (64, ""))},
            [(Rule.REDUNDANT, Q5, 3, 3, "two neighbouring bands name 'split2_exact'; one band says the same")],
        ),
        (
            {Q5: bands((2, "split2_exact"), (64, ""))},
            [(Rule.REDUNDANT, Q5, 1, 2, "'split2_exact' is what the compiled route runs at every measured width here")],
        ),
        (
            {HEAD: bands((8, "gemv"), (32, ""))},
            [(Rule.UNREACHABLE, HEAD, 3, 8, "'gemv' is legal up to width 2; the compiled route runs")],
        ),
        (
            {HEAD: bands((8, ""), (9, "small_t"), (32, ""))},
            [(Rule.SHORT_BAND, HEAD, 9, 9, "the band spans no measured width; at least 1 expected")],
        ),
        (
            {"unified/fp8_linear_add": bands((8, ""), (9, "unified"))},
            [(Rule.SHORT_BAND, "unified/fp8_linear_add", 9, 9, "the band spans 1 measured width; at least 2 expected")],
        ),
        (
            {Q5: bands((32, ""), (64, "mma_r64_c64")), Q5_SWITCH: bands((48, ""), (64, "unified"))},
            [
                (
                    Rule.SHADOWED,
                    Q5,
                    49,
                    64,
                    "'unified/q5_linear_add/5120x6144' is asked first and acts here, so 'mma_r64_c64' never runs",
                )
            ],
        ),
        ({SWIGLU_SWITCH: bands((1, ""), (32, "unified"))}, []),
        (
            {INPUT_SWITCH: bands((12, "unified"))},
            [
                (
                    Rule.UNREACHABLE,
                    INPUT_SWITCH,
                    1,
                    12,
                    (
                        "acts only where 'q4_q5_attn_input/5120x6144x1024' runs 'parent_split_fixed', "
                        "which is not in force at any measured width here"
                    ),
                )
            ],
        ),
    ],
)
def test_a_table_gets_its_findings(catalog: Catalog, routes: dict[str, Bands], expected: Found) -> None:
    assert findings(catalog, table(entry(routes))) == expected


def test_the_second_entry_of_a_device_is_a_duplicate_and_a_wildcard_behind_it_is_not(catalog: Catalog) -> None:
    routes = {HEAD: bands((2, "gemv"), (32, ""))}
    document = table(entry(routes), entry(routes, sms=0), entry(routes))
    text = "entry 3 of the document never answers: an earlier entry matches first"
    assert findings(catalog, document) == [(Rule.DUPLICATE, "", 1, 2147483647, text)]


def test_layers_that_meet_inside_the_measured_widths_are_told(catalog: Catalog) -> None:
    base = table(entry({HEAD: bands((32, "small_t"))}))
    file = table(entry({HEAD: bands((2, "gemv"), (16, ""))}, digest=DIGEST))
    assert (
        Rule.LAYERS_MEET,
        HEAD,
        16,
        17,
        "the profile file answers up to width 16, the built-in table from 17 on",
    ) in findings(catalog, base, file)


def test_the_shipped_table_has_nine_findings(catalog: Catalog, shared_data: Path) -> None:
    path = shared_data / "engine/device_profiles.json"
    found = findings(catalog, parse_document(path.read_bytes(), path.name))
    assert [item[:4] for item in found] == [
        (Rule.UNREACHABLE, "t2_i8_small/5120x17408", 13, 14),
        (Rule.SHADOWED, "q5_linear_add/5120x17408", 33, 64),
        (Rule.SHADOWED, "q5_linear_add/5120x6144", 33, 48),
        (Rule.SHADOWED, "q5_linear_add/5120x17408", 41, 48),
        (Rule.REDUNDANT, "q4_q5_attn_input/5120x6144x1024", 6, 6),
        (Rule.REDUNDANT, "q4_q5_attn_input/5120x6144x1024", 6, 7),
        (Rule.REDUNDANT, "t2_i8_small/5120x6144", 7, 7),
        (Rule.REDUNDANT, "q5_linear_add/5120x17408", 9, 10),
        (Rule.ENDS_EARLY, "q6_head/248320x5120", 21, 32),
    ]
