"""Derivation: which source answers for each key, and the shipped table byte for byte."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_device_profiles.bands import Band
from ninfer_device_profiles.document import Profile, serialise_table

from generator.core.derive import derive
from generator.core.imported import Imported
from generator.core.overrides import Override
from generator.core.reference import ReferenceGpu
from generator.core.route import Group, HardwareClass, RouteKey
from generator.core.sources import Device, Kind, Measured, Selected, Sources
from generator.errors import CatalogError, SourceError
from generator.repository import find_repository, load_sources

if TYPE_CHECKING:
    import random

    from generator.core.catalog import Catalog

SHIPPED = "3ad04f8cf8264a17daa9a6e637d6e98ace261cd5603b495b77c6544057c31718"
CLASS = HardwareClass("nvidia-test-sm86")
DEVICE = Device(CLASS, 10)
ADD = RouteKey("q4_linear_add/5120x6144")
HEAD = RouteKey("q6_head/248320x5120")
Q5 = RouteKey("unified/q5_linear_add/5120x6144")

CARD = ReferenceGpu(
    name="Test",
    device_name="NVIDIA Test",
    capability=86,
    hardware_class=CLASS,
    multiprocessors=10,
    power_limit_w=100,
    families=(Group.GROUPWISE,),
    cuda=13,
    extra=False,
)


def _imported(**routes: tuple[Band, ...]) -> Imported:
    named = {key.replace("__", "/"): bands for key, bands in routes.items()}
    profile = Profile(hardware_class=CLASS, multiprocessors=10, origin="hand", routes=named)
    return Imported(profile=profile, file="engine.json", sha256="0" * 64)


def _measured(kind: Kind, date: str, file: str, routes: dict[RouteKey, tuple[Band, ...]]) -> Measured:
    return Measured(device=DEVICE, file=file, sha256="1" * 64, kind=kind, date=date, power_limit_w=90, routes=routes)


IMPORTED = Imported(
    profile=Profile(
        hardware_class=CLASS,
        multiprocessors=10,
        origin="hand",
        routes={ADD: (Band(8, "small_t_c8"),), HEAD: (Band(2, "gemv"),), Q5: (Band(32, ""), Band(64, "unified"))},
    ),
    file="engine.json",
    sha256="0" * 64,
)


def test_shipped_table_is_derived_byte_for_byte(catalog: Catalog) -> None:
    sources = load_sources(find_repository(), catalog, dt.date(2026, 12, 1))
    shipped = tuple(item for item in sources.imported if item.sha256 == SHIPPED)
    known = {(item.profile.hardware_class, item.profile.multiprocessors) for item in shipped}
    cards = tuple(card for card in sources.reference if (card.hardware_class, card.multiprocessors) in known)
    imported_only = Sources(reference=cards, imported=shipped)
    text = serialise_table(derive(imported_only, catalog).document)
    assert hashlib.sha256(text.encode()).hexdigest() == SHIPPED


def test_card_without_any_source_is_named_missing(catalog: Catalog) -> None:
    assert derive(Sources(reference=(CARD,)), catalog).missing == (CARD,)


def test_newest_engine_evidence_wins_over_kernels_and_imported(catalog: Catalog) -> None:
    sources = Sources(
        reference=(CARD,),
        imported=(IMPORTED,),
        measured=(
            _measured(Kind.KERNELS, "2026-12-24T00:00:00Z", "k.json", {ADD: (Band(32, "small_t_c32"),)}),
            _measured(Kind.ENGINE, "2026-12-01T00:00:00Z", "old.json", {ADD: (Band(8, "small_t_c8"),)}),
            _measured(Kind.ENGINE, "2026-12-02T00:00:00Z", "new.json", {ADD: (Band(16, "small_t_c16"),)}),
        ),
    )
    derivation = derive(sources, catalog)
    answer = derivation.answers[DEVICE][ADD]
    assert (answer.kind, answer.file, answer.bands) == (Kind.ENGINE, "new.json", (Band(16, "small_t_c16"),))
    assert derivation.answers[DEVICE][HEAD].kind is Kind.IMPORTED
    assert derivation.document.devices[0].origin == "built in: Test at 90 W, 2026-12-02; other keys hand"


def test_measured_compiled_route_drops_the_key_from_the_table(catalog: Catalog) -> None:
    evidence = _measured(Kind.KERNELS, "2026-12-24T00:00:00Z", "k.json", {HEAD: (Band(32, ""),)})
    derivation = derive(Sources(reference=(CARD,), imported=(IMPORTED,), measured=(evidence,)), catalog)
    assert HEAD in derivation.answers[DEVICE]
    assert HEAD not in derivation.document.devices[0].routes


def test_selected_bands_stay_past_the_last_width_of_a_calibrated_key(catalog: Catalog) -> None:
    evidence = _measured(Kind.KERNELS, "2026-12-24T00:00:00Z", "k.json", {Q5: (Band(64, ""),)})
    rounds = Selected(
        device=DEVICE,
        file="rounds",
        sha256="2" * 64,
        date="2026-12-20T00:00:00Z",
        routes={Q5: (Band(32, ""), Band(256, "unified"))},
    )
    derivation = derive(Sources(reference=(CARD,), measured=(evidence,), selected=(rounds,)), catalog)
    assert derivation.answers[DEVICE][Q5].bands == (Band(64, ""), Band(256, "unified"))


def test_decision_by_hand_wins_over_everything(catalog: Catalog) -> None:
    decision = Override(
        hardware_class=CLASS,
        multiprocessors=10,
        key=ADD,
        bands=(Band(4, "small_t_c8"),),
        reason="r",
        author="a",
        expires=dt.date(2027, 1, 1),
    )
    evidence = _measured(Kind.ENGINE, "2026-12-24T00:00:00Z", "k.json", {ADD: (Band(32, "small_t_c32"),)})
    derivation = derive(Sources(reference=(CARD,), measured=(evidence,), overrides=(decision,)), catalog)
    assert derivation.answers[DEVICE][ADD].kind is Kind.OVERRIDE
    assert derivation.document.devices[0].origin == "built in: 1 key decided by hand"


def test_device_that_is_no_reference_gpu_is_left_out_and_named(catalog: Catalog) -> None:
    other = Imported(
        profile=Profile(hardware_class="nvidia-other-sm86", multiprocessors=4, origin="x", routes={}),
        file="f",
        sha256="0",
    )
    derivation = derive(Sources(reference=(CARD,), imported=(other, IMPORTED)), catalog)
    assert derivation.left_out == (Device(HardwareClass("nvidia-other-sm86"), 4),)
    assert [profile.hardware_class for profile in derivation.document.devices] == [CLASS]


def test_two_imported_entries_of_one_device_are_an_error(catalog: Catalog) -> None:
    with pytest.raises(SourceError) as caught:
        derive(Sources(reference=(CARD,), imported=(IMPORTED, IMPORTED)), catalog)
    assert str(caught.value) == "'nvidia-test-sm86' with 10 SMs: two sources of one kind"


def test_key_outside_the_catalog_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"^imported, engine.json \['nvidia-test-sm86'\]: route key 'made_up': not"):
        derive(Sources(reference=(CARD,), imported=(_imported(made_up=(Band(1, "x"),)),)), catalog)


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False))
def test_order_of_sources_does_not_matter(catalog: Catalog, order: random.Random) -> None:
    measured = [
        _measured(Kind.ENGINE, "2026-12-01T00:00:00Z", "a.json", {ADD: (Band(8, "small_t_c8"),)}),
        _measured(Kind.ENGINE, "2026-12-01T00:00:00Z", "b.json", {ADD: (Band(16, "small_t_c16"),)}),
        _measured(Kind.KERNELS, "2026-12-09T00:00:00Z", "c.json", {HEAD: (Band(32, "small_t"),)}),
    ]
    expected = derive(Sources(reference=(CARD,), imported=(IMPORTED,), measured=tuple(measured)), catalog)
    order.shuffle(measured)
    assert derive(Sources(reference=(CARD,), imported=(IMPORTED,), measured=tuple(measured)), catalog) == expected
