"""The picture of one key's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from generator.core.gain_picture import draw_gains
from generator.core.limits import UnifiedLimits
from generator.core.unified import select
from tests.core.unified_rounds import CASES, DEVICE, KEY, LARGE, SMALL, both, two_rounds

if TYPE_CHECKING:
    from generator.core.rounds import Case
    from generator.core.unified import KeySelection

SVG = "{http://www.w3.org/2000/svg}"


def _draw(times: dict[tuple[Case, int], tuple[float, float]]) -> tuple[ET.Element, KeySelection]:
    item = select(two_rounds(times), CASES)[DEVICE].keys[KEY]
    text = draw_gains(DEVICE, item, UnifiedLimits())
    return ET.fromstring(text), item


def test_a_picture_marks_every_width_and_shades_every_band() -> None:
    tree, item = _draw({**both(16, 100, 90), **both(20, 100, 90), **both(24, 100, 120), (SMALL, 28): (100.0, 90.0)})
    titles = [node.text for node in tree.iter(f"{SVG}title")]
    assert titles[0] == "unified/fp8_linear_add on nvidia-geforce-rtx-3090-sm86/82: gain per width"
    assert titles[1] == "band: widths 16 to 20"
    assert titles[2:] == [
        f"width {decision.width}: {decision.verdict.value}: {decision.reason}" for decision in item.decisions
    ]
    limits = [node for node in tree.iter(f"{SVG}line") if node.get("class") in {"limit", "loss"}]
    assert len(limits) == 4


def test_a_key_that_nobody_decided_is_drawn_with_the_reason() -> None:
    item = select(two_rounds({(LARGE, 16): (100.0, 90.0)})[:1], CASES)[DEVICE].keys[KEY]
    text = draw_gains(DEVICE, item, UnifiedLimits())
    assert "not decided: round 2 is not there; 2 rounds are needed" in text


@given(
    st.dictionaries(
        st.tuples(st.sampled_from((SMALL, LARGE)), st.integers(1, 1024)),
        st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)),
        max_size=8,
    )
)
def test_every_selection_can_be_drawn(times: dict[tuple[Case, int], tuple[float, float]]) -> None:
    for item in select(two_rounds(times), CASES)[DEVICE].keys.values():
        text = draw_gains(DEVICE, item, UnifiedLimits())
        ET.fromstring(text)
        assert "nan" not in text
