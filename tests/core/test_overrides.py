"""Decisions by hand: seven fields, known names, and an end."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pytest

from generator.core.overrides import check_expiry, parse_overrides
from generator.errors import CatalogError, SourceError

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

GOOD = """
[[override]]
hardware_class = "nvidia-a-sm86"
multiprocessors = 1
key = "attn_pack_gqa"
bands = [[1, "on"]]
reason = "measured in service"
author = "A"
expires = 2027-03-31
"""


def test_decision_holds_on_its_last_day_and_no_longer(catalog: Catalog) -> None:
    decisions = parse_overrides(GOOD, "overrides.toml", catalog)
    check_expiry(decisions, dt.date(2027, 3, 31), "overrides.toml")
    with pytest.raises(SourceError) as caught:
        check_expiry(decisions, dt.date(2027, 4, 1), "overrides.toml")
    assert str(caught.value) == (
        "overrides.toml: the decision on 'attn_pack_gqa' of 'nvidia-a-sm86' by 'A' expired on 2027-03-31 (today is "
        "2027-04-01); measure the key, or renew the decision"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('[[1, "on"]]', '[[1, "yes"]]', "schedule 'yes'; expected one of ['on'] or ''"),
        ('[[1, "on"]]', "[]", "found []; expected [[last, schedule], ...], at least one band"),
        ('[[1, "on"]]', '[[2, ""], [2, "on"]]', "band ends at width 2; bands ascend from 1 to 2147483647"),
        ('[[1, "on"]]', '[[true, "on"]]', "found [True, 'on']; a band is [last, schedule]"),
        ("2027-03-31", '"2027-03-31"', "found '2027-03-31'; expected a date such as 2027-03-31"),
        ("2027-03-31", "2027-03-31T00:00:00Z", "expected a date such as 2027-03-31"),
        ('"measured in service"', '" "', "expected a string that is not empty"),
        ('author = "A"', "", "expected exactly ['author', 'bands'"),
        ("[[override]]", "[override]", "expected [[override]] tables alone"),
    ],
)
def test_mistake_in_a_decision_is_named(old: str, new: str, message: str, catalog: Catalog) -> None:
    with pytest.raises(SourceError) as caught:
        parse_overrides(GOOD.replace(old, new), "overrides.toml", catalog)
    assert message in str(caught.value)


def test_unknown_key_in_a_decision_is_an_error(catalog: Catalog) -> None:
    where = re.escape("overrides.toml ['override'][0]['key']")
    with pytest.raises(CatalogError, match=f"^{where}: route key 'attn_packed': not"):
        parse_overrides(GOOD.replace("attn_pack_gqa", "attn_packed"), "overrides.toml", catalog)


def test_two_decisions_on_one_key_of_one_device_are_an_error(catalog: Catalog) -> None:
    with pytest.raises(SourceError, match="'attn_pack_gqa' of 'nvidia-a-sm86' is decided twice; keep one decision"):
        parse_overrides(GOOD + GOOD, "overrides.toml", catalog)
