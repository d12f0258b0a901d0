"""The Bench over a real device: plans are made here, everything else happens in the device's worker process."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ninfer_device_profiles.matching import hardware_class

from generator.core.bench import BASE, TWIN, BenchFacts, Lost, Measured, Samples, Subject
from generator.core.evidence import BenchKind, DeviceRecord, KeyFacts, Outcome, Scalar
from generator.core.route import DeviceFacts, HardwareClass, Launch, RouteKey
from generator.core.stats import median
from generator.gpu.compile import BASE_OPTIONS, source_digest
from generator.gpu.device import Watch, summary, uuid_hash
from generator.gpu.kernel_cache import KernelCache, wanted_kernels, wanted_names
from generator.gpu.link import Link, WorkerLostError
from generator.gpu.references import load_reference, references_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.limits import Limits
    from generator.core.route import Ask, Route, Schedule

READING_S = 0.25
"""NVML is read at a key's ends and not more often than this between: its calls take milliseconds."""

_KEY_LIMIT_S = 120.0
"""Longest time for a key's operands or a load of kernels: some GB are filled, and a driver may be slow."""


class GpuBench:
    """Times kernels on one device.

    Args:
        link: the worker, already up; `start` makes its device current.
        root: folder of the ``.cu`` files.
        catalog: for the digests of keys.
        clock: seconds, for how long a key took.
        exhaustive: hopeless candidates are timed to the end.
        run: facts that the caller adds to the run's.
    """

    def __init__(
        self,
        *,
        link: Link,
        root: Path,
        catalog: Catalog,
        limits: Limits,
        kernels: KernelCache,
        clock: Callable[[], float],
        exhaustive: bool = False,
        run: Mapping[str, Scalar] | None = None,
    ) -> None:
        self._link = link
        self._root = root
        self._catalog = catalog
        self._limits = limits
        self._kernels = kernels
        self._clock = clock
        self._exhaustive = exhaustive
        self.watch = Watch(link.facts.pci)
        facts = link.facts
        self.device_facts = DeviceFacts(
            capability=facts.capability,
            multiprocessors=facts.multiprocessors,
            shared_per_block_bytes=facts.shared_per_block_bytes,
            l2_bytes=facts.l2_bytes,
        )
        self.flush_bytes = max(limits.flush_floor_bytes, limits.flush_l2_share * facts.l2_bytes)
        self._arch = f"sm_{facts.capability}"
        self._device = self._record()
        self._run: dict[str, Scalar] = {"cuda_driver": facts.driver, "cuda_runtime": facts.runtime, **(run or {})}
        self._loaded: set[tuple[str, str]] = set()
        self._references = references_digest(root)
        self._route: Route | None = None
        self._width = 0
        self._plans: dict[Subject, tuple[Launch, ...]] = {}
        self._sources: set[str] = set()
        self._dead = ""
        self._broken: dict[Subject, str] = {}
        self._last_us: dict[Subject, float] = {}
        self._readings: list[dict[str, Scalar]] = []
        self._began = 0.0
        self._read_at = 0.0
        self.read_rate = 0.0

    def _record(self) -> DeviceRecord:
        facts = self._link.facts
        uuid = self.watch.uuid()
        return DeviceRecord(
            hardware_class=HardwareClass(hardware_class(facts.name, divmod(facts.capability, 10))),
            multiprocessors=facts.multiprocessors,
            name=facts.name,
            capability=facts.capability,
            uuid_hash=uuid_hash(uuid) if uuid else "",
            pci=facts.pci,
            memory_bytes=facts.memory_bytes,
            l2_bytes=facts.l2_bytes,
            power_limit_w=self.watch.power_limit_w(),
        )

    def start(self) -> None:
        """Create the worker's context, warm the clocks and prove flush and timer.

        Raises:
            WorkerLostError: the device failed at once.
        """
        proof = self._link.ask("start", self.flush_bytes, limit_s=120.0)
        self._loaded.clear()
        self.read_rate = proof.read_rate
        self._run |= {
            "flush_bytes": self.flush_bytes,
            "probe_cold_us": proof.cold_us,
            "probe_warm_us": proof.warm_us,
            "timer_resolution_us": proof.resolution_us,
            "empty_interval_us": proof.empty_us,
            "read_bytes_per_us": proof.read_rate,
        }

    def _read(self) -> None:
        self._readings.append(self.watch.reading())
        self._read_at = self._clock()

    def facts(self) -> BenchFacts:
        """Return device and run."""
        return BenchFacts(kind=BenchKind.KERNELS, device=self._device, run=self._run)

    def open_key(self, route: Route) -> None:
        """Allocate and fill the operands of ``route`` on the device."""
        self._route = route
        self._began = self._clock()
        self._sources.clear()
        self._readings = []
        self._read()
        self._dead = ""
        try:
            self._link.ask("open_key", route.key, limit_s=_KEY_LIMIT_S)
        except WorkerLostError as error:
            self._dead = f"operands could not be made: {error}"
            self._link.start()
            self.start()

    def open_width(self, width: int, asks: Mapping[Schedule, Ask]) -> Mapping[Schedule, str]:
        """Make the plans, compile and load what they name, and say which are the compiled route's."""
        assert self._route is not None
        assert self._route.operation is not None
        operation = self._route.operation
        self._width = width
        self._plans = {}
        self._broken = {}
        self._last_us = {}
        for name, ask in asks.items():
            try:
                self._plans[Subject(name)] = operation.plan(width, ask, self.device_facts)
            except (ValueError, LookupError) as error:
                self._broken[Subject(name)] = f"no plan: {error}"
        if self._dead or BASE in self._broken:
            return {}
        self._plans[TWIN] = self._plans[BASE]
        self._sources |= wanted_kernels(self._plans.values()).keys()
        self._send_width()
        base = self._plans.get(BASE)
        return {
            subject.schedule: "the compiled route's launch at this width"
            for subject, plan in self._plans.items()
            if subject not in {BASE, TWIN} and plan == base
        }

    def _send_width(self) -> None:
        assert self._route is not None
        refused = self.load_kernels(self._plans.values())
        for subject, plan in list(self._plans.items()):
            reason = next((refused[item] for item in wanted_names(plan) if item in refused), "")
            if reason:
                self._broken[subject] = reason
                del self._plans[subject]
        expected = load_reference(self._references, (self._route.key, self._width)) or {}
        self._link.ask("open_width", self._width, self._plans, expected)

    def load_kernels(
        self, plans: Collection[tuple[Launch, ...]], on_unit: Callable[[int, int], None] = lambda _done, _total: None
    ) -> dict[tuple[str, str], str]:
        """Compile and load what ``plans`` name and the worker lacks; return what the compiler refused, with reasons."""
        missing = {
            stem: {name for name in names if (stem, name) not in self._loaded}
            for stem, names in wanted_kernels(plans).items()
        }
        missing = {stem: names for stem, names in missing.items() if names}
        if not missing:
            return {}
        units, refused = self._kernels.compile_all(self._root, missing, self._arch, on_unit)
        self._link.ask("load", units, limit_s=_KEY_LIMIT_S)
        self._loaded |= {(stem, name) for stem, names in missing.items() for name in names} - refused.keys()
        return refused

    def first_pass(self, subjects: Sequence[Subject]) -> Mapping[Subject, Measured]:
        """Check every subject, then time what passed; hopeless ones stop after a few samples."""
        found = {s: Measured(outcome=Outcome.FAILED, reason=self._dead or self._broken.get(s, "")) for s in subjects}
        found = {s: item for s, item in found.items() if self._dead or s in self._broken}
        if self._dead or BASE in found:
            lost = Measured(outcome=Outcome.FAILED, reason=found[BASE].reason)
            return {subject: found.get(subject, lost) for subject in subjects}
        rivals = [subject for subject in subjects if subject != TWIN and subject not in found]
        ready = self._guarded("check", rivals, found)
        if ready[BASE].outcome is not Outcome.TIMED:
            # Nothing can be compared with a compiled route that does not run.
            reason = f"the compiled route {ready[BASE].outcome}: {ready[BASE].reason}"
            lost = Measured(outcome=Outcome.FAILED, reason=reason)
            return {subject: ready[BASE] if subject in {BASE, TWIN} else lost for subject in subjects}
        ready[TWIN] = Measured(outcome=Outcome.TIMED, differences=ready[BASE].differences)
        running = [subject for subject in subjects if ready[subject].outcome is Outcome.TIMED]
        limits = self._limits
        first = self._time(running, limits.stop_after, limits.warmups, ready)
        stop_us = median(first[BASE]) * limits.stop_ratio if BASE in first else 0.0
        stopped = {s for s, taken in first.items() if median(taken) > stop_us and not self._exhaustive}
        running = [subject for subject in first if subject not in stopped]
        rest = self._time(running, limits.samples - limits.stop_after, 0, ready)
        for subject, taken in first.items():
            ready[subject] = _with_samples(ready[subject], (*taken, *rest.get(subject, ())), subject in stopped, limits)
        if self._clock() - self._read_at > READING_S:
            self._read()
        return {subject: ready[subject] for subject in subjects}

    def _time(
        self, subjects: Sequence[Subject], rounds: int, warmups: int, found: dict[Subject, Measured]
    ) -> dict[Subject, Samples]:
        """Time ``subjects``; if the worker dies, time each beside the compiled route alone to learn which it was."""
        if rounds <= 0 or not subjects:
            return {}
        try:
            taken = self._ask_time(subjects, rounds, warmups)
        except WorkerLostError:
            taken = {}
            for subject in subjects:
                self._restart()
                try:
                    taken |= self._ask_time([subject], rounds, warmups)
                except WorkerLostError as error:
                    found[subject] = _lost(error)
            self._restart()
        self._last_us |= {subject: median(samples) for subject, samples in taken.items()}
        return taken

    def _ask_time(self, subjects: Sequence[Subject], rounds: int, warmups: int) -> dict[Subject, Samples]:
        """Ask for samples; beyond the usual limit the worker has twice the time that the rounds need."""
        flush_us = self.flush_bytes / self.read_rate if self.read_rate else 0.0
        need_us = rounds * sum(self._last_us.get(subject, 0.0) + flush_us for subject in subjects)
        limit_s = self._limits.time_limit_s + 2e-6 * need_us
        taken: dict[Subject, Samples] = self._link.ask("time", subjects, rounds, warmups, limit_s=limit_s)
        return taken

    def _guarded(
        self, order: str, subjects: Sequence[Subject], found: dict[Subject, Measured]
    ) -> dict[Subject, Measured]:
        """Ask for ``order`` over ``subjects``; a subject that ends the worker is recorded and left out next time."""
        left = list(subjects)
        while left:
            try:
                answer = self._link.ask(order, left)
            except WorkerLostError as error:
                culprit = error.subject if error.subject in left else left[0]
                assert culprit is not None
                found[culprit] = _lost(error)
                left.remove(culprit)
                self._restart()
                if culprit == BASE:
                    break
                continue
            if answer is not None:
                found |= answer
            break
        for subject in subjects:
            found.setdefault(subject, Measured(outcome=Outcome.FAILED, reason="not run: the compiled route was lost"))
        return found

    def _restart(self) -> None:
        """Bring a new worker to the same width."""
        assert self._route is not None
        self._link.start()
        self.start()
        self._link.ask("open_key", self._route.key, limit_s=_KEY_LIMIT_S)
        self._send_width()

    def more(self, subjects: Sequence[Subject], rounds: int) -> tuple[Mapping[Subject, Samples], Lost]:
        """Time ``subjects`` in further interleaved rounds."""
        lost: dict[Subject, Measured] = {}
        return self._time(subjects, rounds, 0, lost), lost

    def second_pass(
        self, subjects: Sequence[Subject], samples: int
    ) -> tuple[Mapping[Subject, tuple[Samples, ...]], Lost]:
        """Time ``subjects`` again in the rule's number of rounds, each of ``samples``.

        No warm-ups: the first pass has just run the same graphs.
        """
        lost: dict[Subject, Measured] = {}
        rounds = [
            self._time([subject for subject in subjects if subject not in lost], samples, 0, lost)
            for _ in range(self._limits.second_pass_rounds)
        ]
        return {s: tuple(taken[s] for taken in rounds) for s in subjects if s not in lost}, lost

    def floor_us(self, width: int) -> float | None:
        """Return the operation's least bytes over the measured read rate."""
        assert self._route is not None
        assert self._route.operation is not None
        return round(self._route.operation.floor_bytes(width) / self.read_rate, 3) if self.read_rate else None

    def close_key(self) -> KeyFacts:
        """Free the operands and return the key's facts."""
        assert self._route is not None
        try:
            memory = self._link.ask("close_key")
        except WorkerLostError:
            memory = None
            self._link.start()
            self.start()
        self._read()
        conditions = summary(self._readings)
        if memory is not None:
            conditions["device_mib"], conditions["worker_peak_mib"] = memory
        conditions["seconds"] = round(self._clock() - self._began, 3)
        users = self.watch.users()
        if len(users) > 1:
            conditions["processes"] = ", ".join(sorted(user.name for user in users))
        key: RouteKey = self._route.key
        return KeyFacts(
            key=key, digest=self._catalog.key_digest(key), kernels=self._kernels_digest(), conditions=conditions
        )

    def _kernels_digest(self) -> str:
        parts = [*BASE_OPTIONS, *(source_digest(self._root, stem) for stem in sorted(self._sources))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _lost(error: WorkerLostError) -> Measured:
    return Measured(outcome=Outcome.TIMED_OUT if error.hung else Outcome.FAILED, reason=str(error))


def _with_samples(item: Measured, samples: Samples, stopped: bool, limits: Limits) -> Measured:
    if item.outcome is not Outcome.TIMED:
        return item
    reason = f"more than {limits.stop_ratio:g} times the compiled route after {len(samples)} samples" if stopped else ""
    return Measured(
        outcome=Outcome.STOPPED if stopped else Outcome.TIMED,
        reason=reason,
        samples=samples,
        differences=item.differences,
        errors=item.errors,
    )
