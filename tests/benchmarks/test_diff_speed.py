"""How long derive and diff take: the shipped table, and 500 synthetic devices that differ in every twentieth key."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ninfer_device_profiles.bands import Band, bands_from_points
from ninfer_device_profiles.document import Document, Profile, parse_document

from generator.core.derive import derive
from generator.core.imported import Imported
from generator.core.reference import ReferenceGpu
from generator.core.report import Format, render
from generator.core.review import Side, review
from generator.core.route import Group, HardwareClass
from generator.core.sources import Sources
from generator.repository import find_repository, load_sources

if TYPE_CHECKING:
    from pathlib import Path

    from ninfer_device_profiles.bands import Bands
    from pytest_benchmark.fixture import BenchmarkFixture

    from generator.core.catalog import Catalog


def synthetic_bands(catalog: Catalog, key: str, dice: random.Random) -> Bands:
    """Return bands over the measured widths whose schedule changes at a third of them."""
    route = next(route for name, route in catalog.routes.items() if name == key)
    names = ["", *(item.schedule for item in route.candidates)]
    points: list[tuple[int, str]] = []
    for width in route.widths:
        keep = points and dice.random() < 2 / 3
        points.append((width, points[-1][1] if keep else dice.choice(names)))
    return bands_from_points(points)


@pytest.fixture(scope="module")
def synthetic(catalog: Catalog) -> tuple[Document, Document]:
    """Two tables of 500 devices with every key of the catalog."""
    dice = random.Random(7)
    old = Document(
        devices=tuple(
            Profile(
                hardware_class=f"nvidia-synthetic-{number}-sm86",
                multiprocessors=82,
                origin="synthetic",
                routes={key: synthetic_bands(catalog, key, dice) for key in catalog.routes},
            )
            for number in range(500)
        )
    )
    new = Document(
        devices=tuple(
            replace(
                profile,
                routes={
                    key: synthetic_bands(catalog, key, dice) if dice.random() < 0.05 else bands
                    for key, bands in profile.routes.items()
                },
            )
            for profile in old.devices
        )
    )
    return old, new


def card(profile: Profile) -> ReferenceGpu:
    return ReferenceGpu(
        name=profile.hardware_class,
        device_name=profile.hardware_class,
        capability=86,
        hardware_class=HardwareClass(profile.hardware_class),
        multiprocessors=profile.multiprocessors,
        power_limit_w=350,
        families=(Group.ATTENTION,),
        cuda=13,
        extra=False,
    )


def report(catalog: Catalog, old: Document, new: Document) -> str:
    return render(review(Side("old", old), Side("new", new), catalog), Format.TEXT)


def test_derive_and_diff_of_the_shipped_table(benchmark: BenchmarkFixture, catalog: Catalog, root: Path) -> None:
    repository = find_repository(root)
    old = parse_document(repository.table.read_bytes(), "table")

    def work() -> str:
        sources = load_sources(repository, catalog, dt.date(2026, 1, 1))
        return report(catalog, old, derive(sources, catalog).document)

    assert "No routing change" in benchmark(work)


def test_diff_where_every_key_of_100_devices_changes(benchmark: BenchmarkFixture, catalog: Catalog) -> None:
    dice = random.Random(7)
    old, new = (
        Document(
            devices=tuple(
                Profile(
                    hardware_class=f"nvidia-synthetic-{number}-sm86",
                    multiprocessors=82,
                    origin="synthetic",
                    routes={key: (Band(1, side), *synthetic_bands(catalog, key, dice)[1:]) for key in catalog.routes},
                )
                for number in range(100)
            )
        )
        for side in ("", "another")
    )
    text = benchmark.pedantic(lambda: report(catalog, old, new), rounds=1)  # type: ignore[no-untyped-call]
    found = re.search(r"Another schedule runs in ([\d,]+) cells, ([\d,]+) keys on 100 devices\.", text)
    assert found is not None, text[:400]
    cells, keys = (int(number.replace(",", "")) for number in found.groups())
    assert cells > keys >= 100 * len(catalog.calibrated)


def test_derive_and_diff_of_500_devices(
    benchmark: BenchmarkFixture, catalog: Catalog, synthetic: tuple[Document, Document]
) -> None:
    old, new = synthetic
    sources = Sources(
        reference=tuple(card(profile) for profile in new.devices),
        imported=tuple(Imported(file=f"{n}.json", sha256="", profile=p) for n, p in enumerate(new.devices)),
    )
    text = benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda: report(catalog, old, derive(sources, catalog).document), rounds=1
    )
    assert text.startswith("Device route profiles: old -> new\nAnother schedule runs in ")
    resource = pytest.importorskip("resource")
    benchmark.extra_info["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
