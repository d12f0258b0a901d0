"""The source behind each band."""

from __future__ import annotations

from ninfer_device_profiles.document import Document

from generator.core.derive import Answer, Derivation
from generator.core.diff import Support
from generator.core.route import HardwareClass, RouteKey
from generator.core.routing import DeviceId
from generator.core.sources import Device, Kind, Measured, Sources
from generator.core.support import derived_supports
from tests.core.tables import CLASS, bands

HEAD = RouteKey("q6_head/248320x5120")


def test_a_band_names_its_source_and_the_weakest_gain_of_its_measured_widths() -> None:
    device = Device(HardwareClass(CLASS), 82)
    measured = Measured(
        device=device,
        file="card/one.json",
        sha256="",
        kind=Kind.KERNELS,
        date="2026-11-29T00:00:00Z",
        power_limit_w=350,
        routes={},
        gains={(HEAD, 1): 0.08, (HEAD, 2): 0.05, (HEAD, 3): 0.2},
    )
    answer = Answer(kind=Kind.KERNELS, file="card/one.json", bands=bands((2, "gemv"), (8, "")))
    derivation = Derivation(document=Document(), answers={device: {HEAD: answer}}, missing=(), left_out=())
    assert derived_supports(derivation, Sources(reference=(), measured=(measured,))) == {
        (DeviceId(CLASS, 82), HEAD): (
            Support(1, 2, "gemv", "measured on our kernels", "card/one.json", 0.05),
            Support(3, 8, "", "measured on our kernels", "card/one.json", None),
        )
    }
