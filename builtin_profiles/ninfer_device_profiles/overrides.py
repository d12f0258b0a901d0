"""Environment overrides: read once, then a value. Who wins over whom, each answer with its source.

For the six 0/1 variables a set value whose first character is not ``1`` means off, the empty one too; for
``NINFER_PREFILL_ALIGN`` it is the reverse, only a first ``0`` switches it off.

Source: engine-profiles, section 2.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ninfer_device_profiles.errors import OverrideError
from ninfer_device_profiles.sizes import INT8_FAMILY

if TYPE_CHECKING:
    from collections.abc import Mapping

PROMPT_PV_STORAGES = ("rk8v4", "rk4v4", "rk4v4-e8")
"""KV storages at which the standard prompt kernel has an FP16 probability-times-value product."""

FAST_STORAGES = (*INT8_FAMILY, "nvfp4")
"""KV storages with a fast prompt kernel."""

GDN_LEAST_TOKENS = 16
"""Shorter prompts never ask for the two-stage GDN prefill."""

SMALL_T_LAST = 192
"""Widest call that the ternary small-T kernel takes."""

_COMPILED_SMALL_LAST = 64
_LINEAR: dict[str, Literal["legacy", "unified"]] = {"legacy": "legacy", "unified": "unified"}
_BAND = re.compile(r"\s*(\d{1,9})\s*,\s*(\d{1,9})\s*")

OPTION = "--fast-prefill-kernel"
PROFILE = "profile"
BUILT = "compiled route"
NOT_OFFERED = "not offered"


class Answer(NamedTuple):
    """Whether a switch is on, and what decided: the option, a variable, the profile or the compiled route."""

    on: bool
    by: str


class Choice(NamedTuple):
    """A schedule, and what decided it."""

    schedule: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Overrides:
    """The environment's overrides, None where a variable is unset (or has no effect).

    Args:
        smallt_pv_f16: ``NINFER_SMALLT_PV_F16``.
        prompt_pv_f16: ``NINFER_PROMPT_PV_F16``.
        prompt_pack_gqa: ``NINFER_PROMPT_PACK_GQA``.
        prompt_fast: ``NINFER_PROMPT_FAST``.
        gdn_two_stage: ``NINFER_GDN_TWO_STAGE``.
        attn_parallel_tiles: ``NINFER_ATTN_PARALLEL_TILES``.
        linear_routes: ``NINFER_LINEAR_ROUTES``; any other text counts as unset.
        prefill_align: ``NINFER_PREFILL_ALIGN``.
        t2_i8_small: ``NINFER_T2_I8_SMALL``: (first, last) token count of the small-T kernel, or ``"off"``.
    """

    smallt_pv_f16: bool | None = None
    prompt_pv_f16: bool | None = None
    prompt_pack_gqa: bool | None = None
    prompt_fast: bool | None = None
    gdn_two_stage: bool | None = None
    attn_parallel_tiles: bool | None = None
    linear_routes: Literal["legacy", "unified"] | None = None
    prefill_align: bool = True
    t2_i8_small: tuple[int, int] | Literal["off"] | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Overrides:
        """Return the overrides of ``environment``; later changes of it have no effect.

        Raises:
            OverrideError: ``NINFER_T2_I8_SMALL`` is neither ``off`` nor two numbers with a comma between them.
        """
        return cls(
            smallt_pv_f16=_switch(environment, "NINFER_SMALLT_PV_F16"),
            prompt_pv_f16=_switch(environment, "NINFER_PROMPT_PV_F16"),
            prompt_pack_gqa=_switch(environment, "NINFER_PROMPT_PACK_GQA"),
            prompt_fast=_switch(environment, "NINFER_PROMPT_FAST"),
            gdn_two_stage=_switch(environment, "NINFER_GDN_TWO_STAGE"),
            attn_parallel_tiles=_switch(environment, "NINFER_ATTN_PARALLEL_TILES"),
            linear_routes=_LINEAR.get(environment.get("NINFER_LINEAR_ROUTES", "")),
            prefill_align=not environment.get("NINFER_PREFILL_ALIGN", "").startswith("0"),
            t2_i8_small=_band(environment.get("NINFER_T2_I8_SMALL")),
        )

    def pv_f16_small_t(self, looked_up: str) -> Answer:
        """Return whether small-T attention accumulates P times V in FP16 (``attn_pv_f16``, all INT8-family caches)."""
        return _answer(looked_up, self.smallt_pv_f16, "NINFER_SMALLT_PV_F16")

    def pv_f16_prompt(self, looked_up: str, kv_storage: str) -> Answer:
        """Return the same for the standard prompt kernel (``attn_pv_f16`` too), by KV storage."""
        if kv_storage not in PROMPT_PV_STORAGES:
            return Answer(on=False, by=NOT_OFFERED)
        return _answer(looked_up, self.prompt_pv_f16, "NINFER_PROMPT_PV_F16")

    def pack_gqa(self, looked_up: str, query_heads_per_kv_head: int) -> Answer:
        """Return whether the standard prompt kernel packs query heads (``attn_pack_gqa``)."""
        if query_heads_per_kv_head <= 1:
            return Answer(on=False, by=NOT_OFFERED)
        return _answer(looked_up, self.prompt_pack_gqa, "NINFER_PROMPT_PACK_GQA")

    def fast_prompt(self, looked_up: str, kv_storage: str, *, option: bool = False) -> Answer:
        """Return whether the fast prompt kernel runs (``attn_prompt_fast``): option, variable, profile, compiled."""
        if kv_storage not in FAST_STORAGES:
            return Answer(on=False, by=NOT_OFFERED)
        if option:
            return Answer(on=True, by=OPTION)
        return _answer(looked_up, self.prompt_fast, "NINFER_PROMPT_FAST")

    def two_stage_gdn(self, looked_up: str, tokens: int) -> Answer:
        """Return whether GDN prefill runs in two stages (``gdn_two_stage/*``)."""
        if tokens < GDN_LEAST_TOKENS:
            return Answer(on=False, by=NOT_OFFERED)
        return _answer(looked_up, self.gdn_two_stage, "NINFER_GDN_TWO_STAGE")

    def parallel_tiles(self, looked_up: str, kv_storage: str, rows: int = 1) -> Answer:
        """Return whether chunked small-T attention runs as parallel tiles (``attn_parallel_tiles``)."""
        if rows != 1 or kv_storage not in INT8_FAMILY:
            return Answer(on=False, by=NOT_OFFERED)
        return _answer(looked_up, self.attn_parallel_tiles, "NINFER_ATTN_PARALLEL_TILES")

    def unified(self, looked_up: str) -> Answer:
        """Return whether a ``unified/*`` switch is on; the variable wins over the profile and over a forced route.

        Schedule keys that an operation asks before its switch are not touched by the variable.
        """
        if self.linear_routes is not None:
            return Answer(on=self.linear_routes == "unified", by="NINFER_LINEAR_ROUTES")
        return Answer(on=looked_up == "unified", by=PROFILE if looked_up else BUILT)

    def ternary_route(self, looked_up: str, tokens: int) -> Choice:
        """Return ``small`` or ``tile`` for a ternary projection; the variable only changes the compiled band."""
        if looked_up == "tile" or (looked_up == "small" and tokens <= SMALL_T_LAST):
            return Choice(looked_up, PROFILE)
        if self.t2_i8_small is None:
            return Choice("small" if tokens <= _COMPILED_SMALL_LAST else "tile", BUILT)
        if self.t2_i8_small == "off":
            return Choice("tile", "NINFER_T2_I8_SMALL")
        first, last = self.t2_i8_small
        inside = first <= tokens <= min(last, SMALL_T_LAST)
        return Choice("small" if inside else "tile", "NINFER_T2_I8_SMALL")


def _answer(looked_up: str, variable: bool | None, name: str) -> Answer:
    if variable is not None:
        return Answer(on=variable, by=name)
    return Answer(on=looked_up == "on", by=PROFILE if looked_up else BUILT)


def _switch(environment: Mapping[str, str], name: str) -> bool | None:
    value = environment.get(name)
    return None if value is None else value.startswith("1")


def _band(value: str | None) -> tuple[int, int] | Literal["off"] | None:
    if value is None:
        return None
    if value == "off":
        return "off"
    found = _BAND.fullmatch(value)
    if found is None:
        raise OverrideError(
            f"NINFER_T2_I8_SMALL: {value!r}; the value is 'off' or two token counts with a comma, as '1,64'. "
            "Correct or unset the variable."
        )
    return int(found[1]), int(found[2])
