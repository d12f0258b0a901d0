"""The dispatcher asks override, force, profile and compiled route, in this order."""

from __future__ import annotations

import pytest
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.overrides import Overrides

from generator.core.dispatch import dispatcher, environment_override
from generator.core.route import RouteKey, Schedule
from tests.core.toy import KEY, SWITCH, toy_catalog

CATALOG = toy_catalog()
PROFILE = {KEY: (Band(4, "b"), Band(8, "c"))}


def unified_everywhere(key: RouteKey, _width: int) -> Schedule | None:
    return Schedule("unified") if key.startswith("unified/") else None


def test_the_profile_answers_by_band_and_past_the_last_the_compiled_route() -> None:
    ask = dispatcher(CATALOG, PROFILE)
    assert [ask(KEY, width) for width in (1, 4, 5, 8, 9)] == ["b", "b", "c", "c", ""]


def test_a_force_wins_over_the_profile_for_its_key_alone() -> None:
    ask = dispatcher(CATALOG, PROFILE, force=(KEY, Schedule("")))
    assert ask(KEY, 1) == ""
    assert dispatcher(CATALOG, PROFILE, force=(SWITCH, Schedule("unified")))(KEY, 1) == "b"


def test_an_override_wins_over_a_force() -> None:
    ask = dispatcher(CATALOG, {}, force=(SWITCH, Schedule("")), override=unified_everywhere)
    assert ask(SWITCH, 1) == "unified"


def test_a_name_that_is_illegal_at_the_width_or_unknown_counts_as_compiled() -> None:
    assert dispatcher(CATALOG, {}, force=(KEY, Schedule("b")))(KEY, 5) == ""
    assert dispatcher(CATALOG, {KEY: (Band(8, "gone"),)})(KEY, 1) == ""


@pytest.mark.parametrize(
    ("environment", "key", "answer"),
    [
        ({}, "unified/q4_linear_add", None),
        ({"NINFER_LINEAR_ROUTES": "unified"}, "unified/q4_linear_add", "unified"),
        ({"NINFER_LINEAR_ROUTES": "legacy"}, "unified/q4_linear_add", ""),
        ({"NINFER_LINEAR_ROUTES": "unified"}, "q4_linear_add/5120x6144", None),
        ({"NINFER_GDN_TWO_STAGE": "1"}, "gdn_two_stage/h48", "on"),
        ({"NINFER_GDN_TWO_STAGE": ""}, "gdn_two_stage/h48", ""),
        ({"NINFER_PROMPT_PACK_GQA": "1"}, "attn_pack_gqa", "on"),
        ({"NINFER_PROMPT_FAST": "1"}, "attn_prompt_fast", "on"),
        ({"NINFER_ATTN_PARALLEL_TILES": "0"}, "attn_parallel_tiles", ""),
        ({"NINFER_SMALLT_PV_F16": "1"}, "attn_pv_f16", None),
        ({"NINFER_SMALLT_PV_F16": "1", "NINFER_PROMPT_PV_F16": "1"}, "attn_pv_f16", "on"),
        ({"NINFER_T2_I8_SMALL": "off"}, "t2_i8_route", None),
    ],
)
def test_variables_dictate_the_keys_they_govern(environment: dict[str, str], key: str, answer: str | None) -> None:
    assert environment_override(Overrides.from_environment(environment))(RouteKey(key), 16) == answer
