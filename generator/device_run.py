"""A run on a real device, up to the sweep: overrides, card, occupants, kernels, references, journal."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from ninfer_device_profiles.overrides import Overrides

from generator.core.dispatch import dispatcher
from generator.core.evidence_file import load_evidence
from generator.core.limits import LIMITS
from generator.core.route import COMPILED
from generator.core.workload import key_words
from generator.errors import DeviceError, SourceError, UsageError
from generator.files import read_text
from generator.gpu.bench import GpuBench
from generator.gpu.device import refuse_busy
from generator.gpu.kernel_cache import KernelCache, cache_folder
from generator.gpu.link import Link
from generator.gpu.references import ensure_references, references_digest
from generator.journal import Journal
from generator.progress import tenths
from generator.repository import find_repository, load_reference
from generator.revision import git_output
from kernels import ROOT

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import DeviceRecord, Scalar
    from generator.core.limits import Limits
    from generator.core.reference import ReferenceGpu
    from generator.core.route import Launch, Route, RouteKey
    from generator.core.workload import Workload

_VARIABLES = (
    "NINFER_SMALLT_PV_F16",
    "NINFER_PROMPT_PV_F16",
    "NINFER_PROMPT_PACK_GQA",
    "NINFER_PROMPT_FAST",
    "NINFER_GDN_TWO_STAGE",
    "NINFER_ATTN_PARALLEL_TILES",
    "NINFER_LINEAR_ROUTES",
    "NINFER_T2_I8_SMALL",
)
"""Variables that change a route; ``NINFER_PREFILL_ALIGN`` does not reach calibration (engine-profiles 2.4)."""

_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "nvidia-ml-py", "numpy")


def refuse_overrides(environment: Mapping[str, str]) -> None:
    """Raise if an override variable would change a route: the same thing would be measured twice.

    Raises:
        DeviceError: names the variables that are set.
    """
    overrides = Overrides.from_environment(environment)
    found = [name for name in _VARIABLES if name in environment]
    if overrides.linear_routes is None and "NINFER_LINEAR_ROUTES" in found:
        found.remove("NINFER_LINEAR_ROUTES")
    if found:
        given = ", ".join(f"{name}={environment[name]!r}" for name in found)
        raise DeviceError(
            f"environment: {given}; an override wins over the schedules that calibration forces, so it would measure "
            "one route twice and store it. Unset it and run again"
        )


def require_packages(session: str, card: ReferenceGpu | None) -> None:
    """Raise if CuPy is not installed: without it no device can be asked anything.

    Args:
        session: nox session that installs it and runs the same verb, empty where there is none.
        card: the card asked for, whose session and extra are named instead.

    Raises:
        DeviceError: says which environment lacks it and how to get one that does not.
    """
    if find_spec("cupy") is not None:
        return
    extra = "cuda13" if card is None else f"cuda{card.cuda}"
    other = " (cuda12 for a Tesla V100)" if card is None else ""
    own = f"{session}-{card.slug}" if card is not None else session
    way = f"`nox -s {own}`, or " if session else ""
    raise DeviceError(
        f"{sys.prefix}: CuPy is not installed there, expected the packages of the extra {extra}{other}. "
        f"Use {way}`pip install -e builtin_profiles -e '.[{extra}]'`"
    )


def seconds_seen(folder: Path, device: DeviceRecord) -> dict[RouteKey, float]:
    """Return how long each key took in the newest evidence below ``folder``, this device's own before any other's."""
    own = sorted((folder / device.hardware_class).glob("*.json"), reverse=True)
    others = sorted(folder.glob("*/*.json"), key=lambda path: path.name, reverse=True)
    seen: dict[RouteKey, float] = {}
    for path in [*own, *others][:2]:
        try:
            evidence = load_evidence(read_text(path, str(path)), str(path))
        except SourceError:
            continue
        for facts in evidence.keys:
            if "seconds" in facts.conditions:
                seen.setdefault(facts.key, float(facts.conditions["seconds"]))
    return seen


def _seconds_seen_here(device: DeviceRecord) -> dict[RouteKey, float]:
    try:
        return seconds_seen(find_repository().sources / "measured", device)
    except SourceError:  # installed without a checkout
        return {}


def device_count(families: str, session: str = "", card: ReferenceGpu | None = None) -> int:
    """Return the number of CUDA devices; ``session`` and ``card`` as of `require_packages`."""
    require_packages(session, card)
    link = Link(families, 0, LIMITS)
    link.stop()
    return link.facts.devices


def named_card(slug: str | None) -> ReferenceGpu | None:
    """Return the reference card ``slug``, None where none is named; looks at no device.

    Raises:
        UsageError: there is no such card; names those that there are.
    """
    if slug is None:
        return None
    repository = find_repository()
    cards = {card.slug: card for card in load_reference(repository)}
    if slug not in cards:
        raise UsageError(
            f"--card {slug!r}: not in {repository.relative(repository.reference)}; expected one of "
            f"{', '.join(sorted(cards))}"
        )
    return cards[slug]


def refuse_other_card(card: ReferenceGpu | None, device: DeviceRecord, remedy: str) -> None:
    """Raise unless ``device`` is the reference ``card``, if one is named.

    Raises:
        DeviceError: another card; names both and ends with ``remedy``.
    """
    if card is None:
        return
    if (device.hardware_class, device.multiprocessors) != (card.hardware_class, card.multiprocessors):
        raise DeviceError(
            f"this device is {device.hardware_class} with {device.multiprocessors} SMs, expected "
            f"{card.hardware_class} with {card.multiprocessors} ({card.name}); {remedy}"
        )


class DeviceRun:
    """One device, from its worker's start to its end.

    Args:
        families: ``module:function`` that the worker imports.
        index: CUDA device index.
        limits: the run's numbers.
        catalog: of the same families.
        exhaustive: time hopeless candidates to the end.
        root: folder of the ``.cu`` files.
        session: nox session that runs the same verb, for the message without CuPy; empty where there is none.
        card: the only card that may be measured, None for any.
    """

    def __init__(
        self,
        families: str,
        index: int,
        limits: Limits,
        catalog: Catalog,
        *,
        exhaustive: bool = False,
        root: Path = ROOT,
        session: str = "",
        card: ReferenceGpu | None = None,
    ) -> None:
        require_packages(session, card)
        self._card = card
        self._families = families
        self._limits = limits
        self._catalog = catalog
        self._root = root
        self._jobs = os.cpu_count() or 1
        self._exhaustive = exhaustive
        self._link = Link(families, index, limits)
        self.bench = GpuBench(
            link=self._link,
            root=root,
            catalog=catalog,
            limits=limits,
            kernels=KernelCache(cache_folder(), self._jobs),
            clock=time.monotonic,
            exhaustive=exhaustive,
        )
        device = self.bench.facts().device
        # Reading an earlier run's evidence takes half a second, which the worker's start leaves free.
        self._seen = ThreadPoolExecutor(1).submit(_seconds_seen_here, device)
        board = device.uuid_hash or "".join(letter for letter in device.pci if letter.isalnum())
        name = f"{device.hardware_class}-{device.multiprocessors}-{board}.jsonl"
        self.journal = Journal(cache_folder().parent / "journals" / name)

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the worker."""
        self._link.stop()

    @property
    def capability(self) -> int:
        """Return major * 10 + minor."""
        return self.bench.device_facts.capability

    def refuse_other_card(self) -> None:
        """Raise unless this device is the card asked for, if one is.

        Raises:
            DeviceError: another card; names both.
        """
        refuse_other_card(
            self._card, self.bench.facts().device, "choose it with --device, or run `nox -s calibrate` for any card"
        )

    def occupants(self, *, allow: bool) -> str:
        """Return what else uses the device, empty when idle; call it before `start`.

        Raises:
            DeviceError: something does, and that is not allowed.
        """
        device = self.bench.facts().device
        try:
            refuse_busy(self.bench.watch, f"{device.name} ({device.pci})")
        except DeviceError as error:
            if not allow:
                raise
            return str(error).partition(";")[0]
        return ""

    def start(self) -> None:
        """Create the worker's context and prove flush and timer."""
        self.bench.start()

    def opening(self, work: Workload) -> str:
        """Return the first line of a run: what, on which card, how many timings, about how long."""
        device = self.bench.facts().device
        seconds = work.seconds(self._limits, self._seen.result())
        limit = f", {device.power_limit_w} W" if device.power_limit_w else ""
        return (
            f"calibrating {key_words(work.routes)} on {device.name} "
            f"({device.multiprocessors} SMs{limit}) as {device.hardware_class}: "
            f"{work.timings(self._limits)} timings, about {max(seconds, 1):.0f} s once kernels are compiled"
        )

    def prepare(self, work: Workload, note: Callable[[str], None]) -> None:
        """Compile and load every kernel that a forced candidate names, and compute the references."""
        began = time.monotonic()
        plans = [plan for route in work.routes for plan in _plans(route, self._catalog, self.bench)]
        refused = self.bench.load_kernels(plans, tenths("compiled", note, time.monotonic))
        for (stem, name), reason in refused.items():
            note(f"{stem}.cu {name}: refused by the compiler, its candidates fail: {reason.splitlines()[0]}")
        points = [(str(route.key), width) for route in work.routes for width in route.widths]
        failures = ensure_references(self._families, references_digest(self._root), points, self._jobs)
        for (key, width), reason in failures.items():
            note(f"{key} w={width}: no wide-precision reference: {reason}")
        note(f"kernels and references ready after {time.monotonic() - began:.1f} s")

    def run_facts(self, now: dt.datetime, busy: str) -> dict[str, Scalar]:
        """Return what the bench does not know: date, build, packages, options, occupants."""
        build = os.environ.get("NINFER_BUILD_ID") or git_output(self._root, "describe", "--always", "--tags", "--dirty")
        facts: dict[str, Scalar] = {
            "date": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "ninfer_build": build or "unknown",
            "exhaustive": self._exhaustive,
        }
        for package in _PACKAGES:
            try:
                facts[f"package {package}"] = version(package)
            except PackageNotFoundError:
                continue
        return facts | ({"busy": busy} if busy else {})


def _plans(route: Route, catalog: Catalog, bench: GpuBench) -> list[tuple[Launch, ...]]:
    """Return the plans of every legal candidate of ``route``, nothing installed; what has no plan fails later."""
    assert route.operation is not None
    found: list[tuple[Launch, ...]] = []
    for width in route.widths:
        for name in (COMPILED, *(item.schedule for item in route.candidates if item.legal(width))):
            ask = dispatcher(catalog, {}, force=(route.key, name))
            try:
                found.append(route.operation.plan(width, ask, bench.device_facts))
            except (ValueError, LookupError):
                continue
    return found
