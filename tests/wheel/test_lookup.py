"""Lookups, installing, forcing, and the environment's overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band, schedule_at
from ninfer_device_profiles.document import Profile
from ninfer_device_profiles.errors import OverrideError
from ninfer_device_profiles.lookup import Installation, RouteTable
from ninfer_device_profiles.overrides import Answer, Choice, Overrides
from ninfer_device_profiles.sizes import INT8_FAMILY

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILE = Profile(hardware_class="c", routes={"key": (Band(8, ""), Band(32, "a")), "none": ()})


def test_a_table_answers_as_its_bands_do() -> None:
    table = RouteTable(PROFILE.routes)
    assert [table.schedule("key", width) for width in (-5, 8, 9, 32, 33)] == ["", "", "a", "a", ""]
    assert table.schedule("absent", 1) == ""
    assert table.schedule("none", 1) == ""


@given(st.lists(st.integers(1, 2147483647), unique=True, max_size=8), st.integers(-10, 2147483650))
def test_prepared_lookups_equal_a_walk_through_the_bands(lasts: list[int], width: int) -> None:
    bands = tuple(Band(last, str(place)) for place, last in enumerate(sorted(lasts)))
    assert RouteTable({"k": bands}).schedule("k", width) == schedule_at(bands, width)


def test_devices_have_their_own_profiles_and_indices_end_at_63() -> None:
    installation = Installation()
    for index in (0, 63, 64, -1):
        installation.install(index, PROFILE)
    assert [installation.schedule(index, "key", 9) for index in (0, 1, 63, 64, -1)] == ["a", "", "a", "", ""]
    assert installation.installed(0) is PROFILE
    assert installation.installed(64) is None
    installation.remove(0)
    installation.remove(5)
    assert installation.schedule(0, "key", 9) == ""


def test_there_is_one_forced_route_and_any_end_ends_it() -> None:
    installation = Installation()
    installation.install(0, PROFILE)
    with installation.forced("key", "x"):
        assert installation.schedule(0, "key", 9) == "x"
        assert installation.schedule(7, "key", 9) == "x"
        with installation.forced("other", "y"):
            assert installation.schedule(0, "key", 9) == "a"
            assert installation.schedule(0, "other", 1) == "y"
        assert installation.schedule(0, "key", 9) == "a"
    assert installation.schedule(0, "key", 9) == "a"


SWITCHES: dict[str, Callable[[Overrides, str], Answer]] = {
    "NINFER_SMALLT_PV_F16": lambda o, found: o.pv_f16_small_t(found),
    "NINFER_PROMPT_PV_F16": lambda o, found: o.pv_f16_prompt(found, "rk8v4"),
    "NINFER_PROMPT_PACK_GQA": lambda o, found: o.pack_gqa(found, 6),
    "NINFER_PROMPT_FAST": lambda o, found: o.fast_prompt(found, "int8"),
    "NINFER_GDN_TWO_STAGE": lambda o, found: o.two_stage_gdn(found, 16),
    "NINFER_ATTN_PARALLEL_TILES": lambda o, found: o.parallel_tiles(found, "int8"),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_the_variables_then_the_profiles_then_off(name: str) -> None:
    ask = SWITCHES[name]
    unset = Overrides.from_environment({})
    assert ask(unset, "on") == Answer(on=True, by="profile")
    assert ask(unset, "anything") == Answer(on=False, by="profile")
    assert ask(unset, "") == Answer(on=False, by="compiled route")
    for value, on in {"1": True, "1x": True, "0": False, "": False, "true": False, "on": False, " 1": False}.items():
        assert ask(Overrides.from_environment({name: value}), "on") == Answer(on=on, by=name)
        assert ask(Overrides.from_environment({name: value}), "") == Answer(on=on, by=name)


def test_the_option_wins_over_the_variable_for_the_fast_prompt_kernel_alone() -> None:
    off = Overrides.from_environment({"NINFER_PROMPT_FAST": "0"})
    assert off.fast_prompt("on", "int8", option=True) == Answer(on=True, by="--fast-prefill-kernel")
    assert off.fast_prompt("on", "int8") == Answer(on=False, by="NINFER_PROMPT_FAST")
    assert off.fast_prompt("on", "bf16", option=True) == Answer(on=False, by="not offered")
    assert Overrides().fast_prompt("on", "nvfp4") == Answer(on=True, by="profile")


def test_a_switch_is_not_offered_where_its_kernel_does_not_exist() -> None:
    forced = Overrides.from_environment(dict.fromkeys(SWITCHES, "1"))
    absent = Answer(on=False, by="not offered")
    for storage in INT8_FAMILY:
        on = forced.pv_f16_prompt("", storage).on
        assert on is (storage in {"rk8v4", "rk4v4", "rk4v4-e8"})
    assert forced.pack_gqa("on", 1) == absent
    assert forced.two_stage_gdn("on", 15) == absent
    assert forced.parallel_tiles("on", "int8", rows=2) == absent
    assert forced.parallel_tiles("on", "bf16") == absent


@pytest.mark.parametrize(
    ("value", "looked_up", "expected"),
    [
        (None, "unified", Answer(on=True, by="profile")),
        (None, "legacy", Answer(on=False, by="profile")),
        (None, "", Answer(on=False, by="compiled route")),
        ("legacy", "unified", Answer(on=False, by="NINFER_LINEAR_ROUTES")),
        ("unified", "", Answer(on=True, by="NINFER_LINEAR_ROUTES")),
        ("Unified", "", Answer(on=False, by="compiled route")),
        ("", "unified", Answer(on=True, by="profile")),
    ],
)
def test_linear_routes_wins_over_the_profile_for_the_switches(
    value: str | None, looked_up: str, expected: Answer
) -> None:
    environment = {} if value is None else {"NINFER_LINEAR_ROUTES": value}
    assert Overrides.from_environment(environment).unified(looked_up) == expected


@pytest.mark.parametrize(
    ("value", "on"), [(None, True), ("", True), ("1", True), ("off", True), ("0", False), ("0x", False)]
)
def test_prefill_alignment_is_off_only_for_a_first_zero(value: str | None, on: bool) -> None:
    environment = {} if value is None else {"NINFER_PREFILL_ALIGN": value}
    assert Overrides.from_environment(environment).prefill_align is on


def test_the_ternary_band_changes_only_what_the_profile_leaves_open() -> None:
    unset = Overrides()
    assert unset.ternary_route("", 64) == Choice("small", "compiled route")
    assert unset.ternary_route("", 65) == Choice("tile", "compiled route")
    band = Overrides.from_environment({"NINFER_T2_I8_SMALL": "16,500"})
    found = [band.ternary_route("", tokens).schedule for tokens in (15, 16, 192, 193)]
    assert found == ["tile", "small", "small", "tile"]
    assert band.ternary_route("tile", 20) == Choice("tile", "profile")
    assert band.ternary_route("small", 192) == Choice("small", "profile")
    assert band.ternary_route("small", 193) == Choice("tile", "NINFER_T2_I8_SMALL")
    assert band.ternary_route("other", 20) == Choice("small", "NINFER_T2_I8_SMALL")
    off = Overrides.from_environment({"NINFER_T2_I8_SMALL": "off"})
    assert off.ternary_route("", 1) == Choice("tile", "NINFER_T2_I8_SMALL")


@pytest.mark.parametrize("value", ["", "16", "a,b", "1,2,3", "-1,4", "1," + "9" * 50])
def test_a_ternary_band_without_two_numbers_is_refused(value: str) -> None:
    with pytest.raises(OverrideError) as caught:
        Overrides.from_environment({"NINFER_T2_I8_SMALL": value})
    assert str(caught.value) == (
        f"NINFER_T2_I8_SMALL: {value!r}; the value is 'off' or two token counts with a comma, as '1,64'. "
        "Correct or unset the variable."
    )


def test_overrides_are_read_once() -> None:
    environment = {"NINFER_PROMPT_FAST": "1"}
    overrides = Overrides.from_environment(environment)
    environment["NINFER_PROMPT_FAST"] = "0"
    assert overrides.fast_prompt("", "int8").on
