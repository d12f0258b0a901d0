"""Say which layer answers for a route key at a width, what the others would say, and what the engine makes of it.

Source: engine-profiles, sections 1.9, 2.1 and 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import COMPILED, Bands, layer_bands, schedule_at
from ninfer_device_profiles.overrides import BUILT, NOT_OFFERED, PROFILE

if TYPE_CHECKING:
    from ninfer_device_profiles.embedded import EmbeddedCatalog
    from ninfer_device_profiles.finding import Found
    from ninfer_device_profiles.model import Profile
    from ninfer_device_profiles.overrides import Overrides

FILE = "profile file"
BUILTIN = "built-in table"
COMPILED_ROUTE = "compiled route"

_ASKED_BEFORE = {
    "q5_linear_add/5120x6144": "unified/q5_linear_add/5120x6144",
    "q5_linear_add/5120x17408": "unified/q5_linear_add/5120x17408",
    "unified/q4_linear_add": "q4_linear_add/5120x6144",
}
"""Keys that an operation asks only after another one; what that one names comes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerAnswer:
    """What one layer says alone.

    Args:
        layer: `FILE`, `BUILTIN` or `COMPILED_ROUTE`.
        schedule: empty for the compiled route, None where the layer says nothing.
        first: first width of the band that answers, None where none does.
        last: its last width.
        reason: why the layer says this, or nothing.
    """

    layer: str
    schedule: str | None
    first: int | None
    last: int | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What an environment override or the option makes of the key."""

    operation: str
    outcome: str
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """What a key gives at a width.

    Args:
        key: route key.
        width: tokens, columns or window, as the key has it.
        named: the schedule that the joined layers name; empty for the compiled route.
        schedule: the schedule that acts: ``named`` where the engine takes it and no override decides, else what does.
        answered_by: the layer that answers, or the override that decides for every operation of the key.
        reason: why ``schedule`` is not ``named``, or what decided.
        layers: every layer's own answer, highest first.
        rulings: overrides, where the key has any.
        remarks: facts about when the key acts at all.
    """

    key: str
    width: int
    named: str
    schedule: str
    answered_by: str
    reason: str
    layers: tuple[LayerAnswer, ...]
    rulings: tuple[Ruling, ...] = ()
    remarks: tuple[str, ...] = ()


def explain(
    key: str,
    width: int,
    found: Found,
    *,
    catalog: EmbeddedCatalog,
    overrides: Overrides,
    fast_prefill_option: bool = False,
) -> Explanation:
    """Return which layer answers for ``key`` at ``width``, and what every other layer and override says."""
    layers = (
        _answer(FILE, found.measured, key, width, _absent_file(found)),
        _answer(BUILTIN, found.builtin, key, width, "the built-in table has no entry of this device"),
        LayerAnswer(
            layer=COMPILED_ROUTE, schedule=COMPILED, first=None, last=None, reason="answers where no layer does"
        ),
    )
    upper, lower = _bands(found.measured, key), _bands(found.builtin, key)
    joined = lower if upper is None else upper if lower is None else layer_bands(upper, lower)
    named = schedule_at(joined or (), width)
    answered_by = next((item.layer for item in layers if item.schedule is not None), COMPILED_ROUTE)
    schedule, reason = _acting(catalog, key, named, width)
    rulings = _rulings(key, schedule, width, overrides, fast_prefill_option=fast_prefill_option)
    deciders = {(item.outcome, item.by) for item in rulings}
    if len(deciders) == 1 and rulings[0].by not in {PROFILE, BUILT, NOT_OFFERED}:
        answered_by, reason = rulings[0].by, "it wins over every layer"
        schedule = _switched(key, rulings[0].outcome)
    return Explanation(
        key=key,
        width=width,
        named=named,
        schedule=schedule,
        answered_by=answered_by,
        reason=reason,
        layers=layers,
        rulings=rulings,
        remarks=_remarks(catalog, key),
    )


def band_at(bands: Bands, width: int) -> tuple[int, int, str] | None:
    """Return (first width, last width, schedule) of the band that answers at ``width``, or None."""
    first = 1
    for last, schedule in bands:
        if width <= last:
            return first, last, schedule
        first = last + 1
    return None


def _bands(entry: Profile | None, key: str) -> Bands | None:
    return None if entry is None else entry.routes.get(key)


def _absent_file(found: Found) -> str:
    if found.notes:
        return found.notes[0].text
    return "the profile file is absent or has no entry of this device"


def _answer(layer: str, entry: Profile | None, key: str, width: int, absent: str) -> LayerAnswer:
    if entry is None:
        return LayerAnswer(layer=layer, schedule=None, first=None, last=None, reason=absent)
    bands = entry.routes.get(key)
    if bands is None:
        return LayerAnswer(layer=layer, schedule=None, first=None, last=None, reason="its entry does not name the key")
    band = band_at(bands, width)
    if band is None:
        end = f"its last band ends at {bands[-1].last}" if bands else "it names the key with no band"
        return LayerAnswer(layer=layer, schedule=None, first=None, last=None, reason=end)
    first, last, schedule = band
    return LayerAnswer(layer=layer, schedule=schedule, first=first, last=last, reason=entry.origin)


def _acting(catalog: EmbeddedCatalog, key: str, named: str, width: int) -> tuple[str, str]:
    if not named:
        return COMPILED, "no schedule is named: the operation's compiled route runs"
    known = catalog.keys.get(key)
    if known is None:
        return named, "the catalog of this package does not know the key; the engine may ignore it"
    candidate = known.candidate(named)
    if candidate is None:
        return COMPILED, f"{named!r} is no candidate of the key: the engine ignores it"
    if not candidate.legal(width):
        return COMPILED, f"{named!r} is legal up to width {candidate.max_width}: the engine ignores it at {width}"
    return named, "a candidate of the key, legal at this width"


def _rulings(
    key: str, looked_up: str, width: int, overrides: Overrides, *, fast_prefill_option: bool
) -> tuple[Ruling, ...]:
    answers: list[tuple[str, bool, str]] = []
    if key == "attn_pv_f16":
        answers.append(("small-T attention", *overrides.pv_f16_small_t(looked_up)))
        answers.append(
            ("standard prompt kernel (rk8v4, rk4v4, rk4v4-e8)", *overrides.pv_f16_prompt(looked_up, "rk8v4"))
        )
    elif key == "attn_pack_gqa":
        answers.append(("standard prompt kernel", *overrides.pack_gqa(looked_up, 6)))
    elif key == "attn_prompt_fast":
        answer = overrides.fast_prompt(looked_up, "int8", option=fast_prefill_option)
        answers.append(("fast prompt kernel (INT8-family and NVFP4 caches)", *answer))
    elif key == "attn_parallel_tiles":
        answers.append(("parallel tiles (one row, INT8-family caches)", *overrides.parallel_tiles(looked_up, "int8")))
    elif key.startswith("gdn_two_stage/"):
        answers.append(("two-stage GDN prefill", *overrides.two_stage_gdn(looked_up, width)))
    elif key.startswith("unified/"):
        answers.append(("unified route", *overrides.unified(looked_up)))
    rulings = [Ruling(operation=name, outcome="on" if on else "off", by=by) for name, on, by in answers]
    if key == "t2_i8_route":
        choice = overrides.ternary_route(looked_up, width)
        rulings.append(Ruling(operation="ternary projection", outcome=choice.schedule, by=choice.by))
    return tuple(rulings)


def _switched(key: str, outcome: str) -> str:
    if outcome == "off":
        return COMPILED
    return ("unified" if key.startswith("unified/") else "on") if outcome == "on" else outcome


def _remarks(catalog: EmbeddedCatalog, key: str) -> tuple[str, ...]:
    remarks: list[str] = []
    known = catalog.keys.get(key)
    if known is None:
        near = get_close_matches(key, catalog.keys, n=3)
        like = f"; near: {', '.join(near)}" if near else ""
        remarks.append(f"the catalog has no such key, so the engine never asks for it{like}")
    if known is not None and known.acts_under is not None:
        remarks.append(f"acts only while {known.acts_under[0]} runs {known.acts_under[1]}")
    if key in _ASKED_BEFORE:
        remarks.append(f"asked only where {_ASKED_BEFORE[key]} leaves the choice open")
    if key.startswith("attn_i8_small/"):
        remarks.append("the width is the captured window: the largest number of keys the launch may see")
    if key.startswith("t2_i8_small/"):
        remarks.append("asked once per launch of at most 32 columns, with that launch's columns")
    return tuple(remarks)
