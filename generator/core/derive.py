"""Sources to the built-in table: a pure function, the same bytes every time.

Per device and key the first of these answers: a decision by hand, the newest complete evidence of bench ``engine``,
the newest of bench ``kernels``, the two-round selection, the imported entry. A ``unified/*`` key that calibration
measures is not the selection's to decide: its imported or measured bands stand, the selected ones answer past them.
Keys whose every band is the compiled route are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ninfer_device_profiles.bands import layer_bands
from ninfer_device_profiles.document import Document, Profile

from generator.core.route import HardwareClass, RouteKey
from generator.core.sources import Device, Kind, Measured, Selected, Sources
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ninfer_device_profiles.bands import Bands

    from generator.core.catalog import Catalog
    from generator.core.imported import Imported
    from generator.core.reference import ReferenceGpu

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Which source answers for a key, and the bands it gives."""

    kind: Kind
    file: str
    bands: Bands


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivation:
    """A table and where each of its keys comes from.

    Args:
        document: the table, devices by class and SM count, keys in byte order.
        answers: per device and key, keys that are compiled everywhere included.
        missing: reference GPUs without any source.
        left_out: devices with sources that are no reference GPUs, or extras that were not asked for.
    """

    document: Document
    answers: dict[Device, dict[RouteKey, Answer]]
    missing: tuple[ReferenceGpu, ...]
    left_out: tuple[Device, ...]


def derive(sources: Sources, catalog: Catalog, *, with_extras: bool = False) -> Derivation:
    """Return the table that ``sources`` give.

    Raises:
        SourceError: two imported entries or two selections of one device.
        CatalogError: a source names a key that the catalog does not have.
    """
    shipped = {
        Device(card.hardware_class, card.multiprocessors): card
        for card in sources.reference
        if with_extras or not card.extra
    }
    imported = _by_device((_imported_device(item), item) for item in sources.imported)
    selected = _by_device((item.device, item) for item in sources.selected)
    measured: dict[Device, list[Measured]] = {}
    for evidence in sources.measured:
        measured.setdefault(evidence.device, []).append(evidence)
    decided = {Device(item.hardware_class, item.multiprocessors) for item in sources.overrides}
    known = {*imported, *selected, *measured, *decided}
    answers: dict[Device, dict[RouteKey, Answer]] = {}
    profiles: list[Profile] = []
    for device in sorted(known & set(shipped)):
        evidence_files = sorted(measured.get(device, ()), key=lambda item: (item.kind, item.date, item.file))
        answers[device] = _answers(
            device, sources, catalog, imported.get(device), selected=selected.get(device), evidence_files=evidence_files
        )
        for key, answer in answers[device].items():
            catalog.route(key, f"{answer.kind.label}, {answer.file} [{device.hardware_class!r}]")
        profiles.append(
            _profile(shipped[device], answers[device], imported.get(device), evidence_files, selected.get(device))
        )
    return Derivation(
        document=Document(devices=tuple(profiles)),
        answers=answers,
        missing=tuple(card for device, card in shipped.items() if device not in answers),
        left_out=tuple(sorted(known - set(shipped))),
    )


def _by_device(pairs: Iterable[tuple[Device, _T]]) -> dict[Device, _T]:
    result: dict[Device, _T] = {}
    for device, item in pairs:
        if device in result:
            raise SourceError(f"{device.hardware_class!r} with {device.multiprocessors} SMs: two sources of one kind")
        result[device] = item
    return result


def _imported_device(item: Imported) -> Device:
    return Device(HardwareClass(item.profile.hardware_class), item.profile.multiprocessors)


def _answers(
    device: Device,
    sources: Sources,
    catalog: Catalog,
    imported: Imported | None,
    *,
    selected: Selected | None,
    evidence_files: list[Measured],
) -> dict[RouteKey, Answer]:
    found: dict[RouteKey, Answer] = {}
    if imported is not None:
        for key, bands in imported.profile.routes.items():
            found[RouteKey(key)] = Answer(kind=Kind.IMPORTED, file=imported.file, bands=bands)
    if selected is not None:
        for route_key, bands in selected.routes.items():
            known = found.get(route_key)
            if known is not None and catalog.route(route_key).calibrated:
                found[route_key] = replace(known, bands=layer_bands(known.bands, bands))
            else:
                found[route_key] = Answer(kind=Kind.SELECTED, file=selected.file, bands=bands)
    for evidence in evidence_files:
        for route_key, bands in evidence.routes.items():
            below = selected.routes.get(route_key) if selected is not None else None
            merged = layer_bands(bands, below) if below is not None else bands
            found[route_key] = Answer(kind=evidence.kind, file=evidence.file, bands=merged)
    for item in sources.overrides:
        if Device(item.hardware_class, item.multiprocessors) == device:
            found[item.key] = Answer(kind=Kind.OVERRIDE, file="overrides.toml", bands=item.bands)
    return dict(sorted(found.items(), key=lambda pair: pair[0].encode()))


def _profile(
    card: ReferenceGpu,
    answers: dict[RouteKey, Answer],
    imported: Imported | None,
    evidence_files: list[Measured],
    rounds: Selected | None,
) -> Profile:
    routes: dict[str, Bands] = {
        key: item.bands for key, item in answers.items() if any(band.schedule for band in item.bands)
    }
    used = {(item.kind, item.file) for item in answers.values()}
    parts = [
        f"{card.name} at {item.power_limit_w} W, {item.date[:10]}"
        for item in reversed(evidence_files)
        if (item.kind, item.file) in used
    ]
    if rounds is not None and (Kind.SELECTED, rounds.file) in used:
        parts.append(f"unified routes {rounds.date[:10]}")
    by_hand = sum(1 for item in answers.values() if item.kind is Kind.OVERRIDE)
    if by_hand:
        parts.append(f"{by_hand} {'key' if by_hand == 1 else 'keys'} decided by hand")
    origin = "built in: " + "; ".join(parts)
    if imported is not None and any(item.kind is Kind.IMPORTED for item in answers.values()):
        origin = f"{origin}; other keys {imported.profile.origin}" if parts else imported.profile.origin
    return Profile(
        hardware_class=card.hardware_class,
        multiprocessors=card.multiprocessors,
        origin=origin,
        routes=routes,
    )
