"""Tables for the tests of routing, diff and reports: builders, and hypothesis strategies over real keys."""

from __future__ import annotations

from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band, Bands
from ninfer_device_profiles.document import Calibration, Document, Profile

CLASS = "nvidia-geforce-rtx-3090-sm86"

KEYS = {
    "q6_head/248320x5120": ("", "gemv", "small_t", "unheard-of"),
    "q5_linear_add/5120x6144": ("", "split2_exact", "small_t_mma", "mma_r64_c32"),
    "unified/q5_linear_add/5120x6144": ("", "unified"),
    "unified/fp8_linear_add": ("", "unified"),
    "gdn_two_stage/h48": ("", "on"),
    "attn_pv_f16": ("", "on"),
    "no/such/key": ("", "x"),
    "__private": ("y",),
}
WIDTHS = range(1, 71)
"""Bands of the strategies end in here; brute force walks it."""


def bands(*pairs: tuple[int, str]) -> Bands:
    return tuple(Band(*pair) for pair in pairs)


def entry(
    routes: dict[str, Bands], *, name: str = CLASS, sms: int = 82, origin: str = "test", digest: str = ""
) -> Profile:
    calibration = Calibration(route_catalog=digest) if digest else None
    return Profile(hardware_class=name, multiprocessors=sms, origin=origin, calibration=calibration, routes=routes)


def table(*entries: Profile) -> Document:
    return Document(devices=entries)


@st.composite
def band_lists(draw: st.DrawFn, schedules: tuple[str, ...]) -> Bands:
    lasts = sorted(draw(st.lists(st.integers(1, WIDTHS[-1]), min_size=1, max_size=5, unique=True)))
    return tuple(Band(last, draw(st.sampled_from(schedules))) for last in lasts)


@st.composite
def entries(draw: st.DrawFn, *, digest: str = "") -> Profile:
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=4, unique=True))
    name, sms = draw(st.tuples(st.sampled_from("ab"), st.sampled_from((0, 82))))
    return entry({key: draw(band_lists(KEYS[key])) for key in keys}, name=name, sms=sms, digest=digest)


@st.composite
def documents(draw: st.DrawFn, *, digest: str = "") -> Document:
    return table(*draw(st.lists(entries(digest=digest), max_size=3)))
