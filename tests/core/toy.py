"""A toy catalog of three keys, and evidence over it written in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.core.catalog import Catalog, build_catalog
from generator.core.evidence import BenchKind, DeviceRecord, Evidence, KeyFacts, Outcome, Trial, complete_keys
from generator.core.route import (
    COMPILED,
    Candidate,
    CompiledTable,
    Group,
    HardwareClass,
    Route,
    RouteFamily,
    RouteKey,
    Schedule,
)
from generator.core.verdict import Rule, decide_points, decided_bands

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ninfer_device_profiles.bands import Bands

    from generator.core.limits import Limits

KEY = RouteKey("toy/1x1")
STRETCHED = RouteKey("toy/stretched")
SWITCH = RouteKey("unified/toy")

FAMILY = RouteFamily(
    name="toy",
    group=Group.TERNARY,
    routes=(
        Route(
            key=KEY,
            order=1,
            widths=(1, 8),
            candidates=(
                Candidate(schedule=Schedule("a")),
                Candidate(schedule=Schedule("b"), max_width=4),
                Candidate(schedule=Schedule("c")),
            ),
            compiled=CompiledTable(default=((None, "a"),)),
        ),
        Route(
            key=STRETCHED,
            order=2,
            widths=(8192, 262144),
            candidates=(Candidate(schedule=Schedule("x")),),
            compiled=CompiledTable(default=((None, "int:plain"),)),
            stretch={262144: 1048576},
        ),
        Route(
            key=SWITCH,
            order=3,
            widths=(1,),
            candidates=(Candidate(schedule=Schedule("unified")),),
            compiled=CompiledTable(default=((None, "int:off"),)),
            acts_under=(KEY, Schedule("c")),
        ),
    ),
)

DEVICE = DeviceRecord(
    hardware_class=HardwareClass("nvidia-toy-sm90"), multiprocessors=4, name="NVIDIA Toy", capability=90
)


def toy_catalog() -> Catalog:
    """Return the catalog of the toy family alone."""
    return build_catalog([FAMILY])


def timed(
    schedule: str,
    first: float,
    second: float | tuple[float, float] | None = None,
    *,
    key: str = KEY,
    width: int = 1,
    twin: bool = False,
    difference: float | None = 0.0,
) -> Trial:
    """Return a timed trial whose samples are all ``first``, and in the second pass's rounds ``second``."""
    rounds = (second, second) if isinstance(second, float) else second
    return Trial(
        key=RouteKey(key),
        width=width,
        schedule=Schedule(schedule),
        outcome=Outcome.TIMED,
        twin=twin,
        first_us=(first,) * 11,
        second_us=() if rounds is None else tuple((us,) * 11 for us in rounds),
        differences={"out": difference},
    )


def other(schedule: str, outcome: Outcome, reason: str, *, key: str = KEY, width: int = 1) -> Trial:
    """Return a trial that was not timed."""
    return Trial(key=RouteKey(key), width=width, schedule=Schedule(schedule), outcome=outcome, reason=reason)


def evidence(trials: Iterable[Trial], *, bench: BenchKind = BenchKind.KERNELS) -> Evidence:
    """Return evidence of ``trials`` with the toy catalog's digests."""
    catalog = toy_catalog()
    trials = tuple(trials)
    keys = sorted({trial.key for trial in trials})
    return Evidence(
        bench=bench,
        catalog=catalog.digest(),
        device=DEVICE,
        rule={"name": "engine", "min_gain": 0.03},
        run={"cuda_driver": 13000, "date": "2026-11-29T22:00:00Z"},
        keys=tuple(KeyFacts(key=key, digest=catalog.key_digest(key), kernels="k") for key in keys),
        trials=trials,
    )


def point(*trials: Trial) -> Evidence:
    """Return evidence of one point: the compiled route at 100 us in both passes, its twin alike, and ``trials``."""
    base = timed(COMPILED, 100.0, 100.0)
    return evidence([base, timed(COMPILED, 100.0, 100.0, twin=True), *trials])


def bands_of(item: Evidence, catalog: Catalog, limits: Limits, rule: Rule) -> dict[RouteKey, Bands]:
    """Return the bands that ``rule`` gives every complete key of ``item``."""
    return decided_bands(decide_points(item, catalog, limits, rule), complete_keys(item, catalog), catalog)
