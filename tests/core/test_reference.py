"""The reference GPUs: the committed list, and every way it can be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generator.core.reference import parse_reference_gpus
from generator.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
[[gpu]]
name = "A"
device_name = "NVIDIA A"
capability = "8.6"
hardware_class = "nvidia-a-sm86"
multiprocessors = 1
power_limit_w = 1
families = ["ternary"]
cuda = 13
"""


def test_the_first_seven_gpus_are_listed_and_the_v100_measures_gdn_alone(root: Path) -> None:
    cards = parse_reference_gpus((root / "builtin_profiles/reference_gpus.toml").read_text(), "x")
    shipped = [card for card in cards if not card.extra]
    assert [(card.name, card.multiprocessors) for card in shipped][:7] == [
        ("RTX 3090", 82),
        ("RTX 4090", 128),
        ("RTX 5090", 170),
        ("RTX PRO 6000 Blackwell Workstation Edition", 188),
        ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", 188),
        ("RTX PRO 6000 Blackwell Server Edition", 188),
        ("Tesla V100-SXM2-16GB", 80),
    ]
    assert [card.families for card in shipped if card.capability == 70] == [("linear-attention",)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("capability = ", "capability == ", "reference_gpus.toml: not TOML: Invalid value"),
        (
            '"8.6"',
            '"86"',
            "reference_gpus.toml ['gpu'][0]['capability']: found '86'; expected MAJOR.MINOR such as '8.6'",
        ),
        ("multiprocessors = 1", "multiprocessors = true", "found True; expected a positive integer"),
        ("cuda = 13", "", "expected exactly ['capability', 'cuda'"),
        ('["ternary"]', '["benchmarked"]', "expected some of ['ternary'"),
        ("[[gpu]]", "[gpu]", "expected an array of tables ([[gpu]])"),
        ("[[gpu]]", "[[gpus]]", "tables ['gpus']; only [[gpu]] and [[extra]] are known"),
        ('"NVIDIA A"', '""', "found ''; expected a string that is not empty"),
        (
            '"NVIDIA A"',
            '"NVIDIA B"',
            "reference_gpus.toml ['gpu'][0]['hardware_class']: found 'nvidia-a-sm86'; expected 'nvidia-b-sm86', which",
        ),
    ],
)
def test_mistake_in_the_list_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_reference_gpus(GOOD.replace(old, new), "reference_gpus.toml")
    assert message in str(caught.value)


def test_card_that_stands_twice_is_an_error() -> None:
    with pytest.raises(SourceError) as caught:
        parse_reference_gpus(GOOD + GOOD.replace("gpu", "extra"), "reference_gpus.toml")
    assert str(caught.value) == "reference_gpus.toml: 'nvidia-a-sm86' with 1 SMs stands twice; keep one"
