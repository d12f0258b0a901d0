"""The worker process of one device: holds the context, the operands and the kernels; does what the parent asks.

Messages are tuples over a pipe. The worker announces each candidate before it runs (``("at", subject)``), so that the
parent knows which one a fault or a hang belongs to. A fault ends the process: its context is lost.
"""

from __future__ import annotations

import importlib
import resource
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from generator.core.bench import BASE, Measured, Samples, Subject
from generator.core.catalog import build_catalog
from generator.core.evidence import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

    from generator.core.catalog import Catalog
    from generator.core.limits import Limits
    from generator.core.route import Expected, Launch, Operation
    from generator.gpu.compile import Compiled


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerFacts:
    """What CUDA says of the device. Sizes in bytes; ``driver`` and ``runtime`` in CUDA's encoding."""

    name: str
    pci: str
    capability: int
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    shared_per_block_bytes: int
    driver: int
    runtime: int
    devices: int


def worker_main(pipe: Connection, families: str, index: int, limits: Limits) -> None:
    """Serve the parent until it hangs up.

    Args:
        pipe: to the parent.
        families: ``module:function`` that returns the families, so that operations need not travel.
        index: CUDA device index.
        limits: the run's numbers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        module, _, name = families.partition(":")
        catalog = build_catalog(getattr(importlib.import_module(module), name)())
        worker = _Worker(pipe, catalog, index, limits)
        pipe.send(("ready", worker.facts))
        while True:
            order, *arguments = pipe.recv()
            if order == "stop":
                return
            pipe.send(("done", getattr(worker, order)(*arguments)))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent records it and starts another worker
        pipe.send(("lost", f"{type(error).__name__}: {error}"))


class _Worker:
    """Everything that lives on the device."""

    def __init__(self, pipe: Connection, catalog: Catalog, index: int, limits: Limits) -> None:
        import cupy  # noqa: PLC0415 - the parent imports this module and must stay without CUDA

        self._pipe = pipe
        self._catalog = catalog
        self._limits = limits
        self._cupy = cupy
        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(index)
        self._index = index
        self.facts = WorkerFacts(
            name=properties["name"].decode(),
            pci=runtime.deviceGetPCIBusId(index),
            capability=properties["major"] * 10 + properties["minor"],
            multiprocessors=properties["multiProcessorCount"],
            l2_bytes=properties["l2CacheSize"],
            memory_bytes=properties["totalGlobalMem"],
            shared_per_block_bytes=properties["sharedMemPerBlockOptin"],
            driver=runtime.driverGetVersion(),
            runtime=runtime.runtimeGetVersion(),
            devices=runtime.getDeviceCount(),
        )
        self._arch = f"sm_{self.facts.capability}"
        self._operation: Operation | None = None
        self._width = 0
        self._plans: dict[Subject, tuple[Launch, ...]] = {}
        self._expected: Mapping[str, Expected] = {}

    def start(self, flush_bytes: int) -> Any:
        """Make the device current and prove the timer."""
        from generator.gpu.arena import Kernels  # noqa: PLC0415
        from generator.gpu.timer import Timer  # noqa: PLC0415

        self._cupy.cuda.Device(self._index).use()
        self._kernels = Kernels()
        self._timer = Timer(self._arch, flush_bytes, self.facts.multiprocessors)
        self._timer.warm_clocks()
        return self._timer.prove(self.facts.l2_bytes, self._cupy.cuda.runtime.memGetInfo()[0])

    def load(self, units: Sequence[tuple[str, Compiled]]) -> None:
        """Load compiled kernels."""
        for stem, compiled in units:
            self._kernels.load(stem, compiled)

    def open_key(self, key: str) -> None:
        """Allocate and fill the operands of ``key``."""
        from generator.gpu.arena import Arena  # noqa: PLC0415

        self.close_key()
        operation = self._catalog.route(key).operation
        assert operation is not None
        self._operation = operation
        self._arena = Arena(operation.operands, self._arch)
        self._cupy.cuda.runtime.deviceSynchronize()

    def close_key(self) -> tuple[int, int]:
        """Free the operands; return the device memory held for them and the flush, and the host's peak, in MiB."""
        device = int(self._cupy.get_default_memory_pool().total_bytes()) >> 20
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        self._operation = None
        self._arena = None  # type: ignore[assignment]
        self._cupy.get_default_memory_pool().free_all_blocks()
        return device, host

    def open_width(
        self, width: int, plans: Mapping[Subject, tuple[Launch, ...]], expected: Mapping[str, Expected]
    ) -> None:
        """Take over the plans of one width."""
        self._width = width
        self._plans = dict(plans)
        self._expected = expected

    def check(self, subjects: Sequence[Subject]) -> dict[Subject, Measured]:
        """Run each subject once on restored inputs and poisoned outputs and compare its outputs.

        ``TIMED`` here means "may be timed". The compiled route comes first; if it fails, nothing else runs.
        """
        assert self._operation is not None
        planes = self._operation.outputs(self._width)
        restored = [plane.name for plane in self._operation.restored(self._width)]
        names = list(dict.fromkeys((*self._arena.poisoned(), *restored)))
        reference: dict[str, Any] = {}
        found: dict[Subject, Measured] = {}
        for subject in subjects:
            self._pipe.send(("at", subject))
            self._arena.restore(names)
            try:
                self._arena.run(self._plans[subject], self._kernels)
                self._cupy.cuda.runtime.deviceSynchronize()
            except self._cupy.cuda.driver.CUDADriverError as error:
                # A launch that was refused leaves the context whole; an execution error is a CUDARuntimeError.
                found[subject] = Measured(outcome=Outcome.FAILED, reason=f"launch refused: {error}")
                continue
            stray = self._arena.strays(planes)
            if stray:
                reason = f"{stray} bytes written outside its outputs"
                found[subject] = Measured(outcome=Outcome.REFUSED, reason=reason)
                continue
            if subject == BASE:
                reference = {plane.name: self._arena.copy(plane) for plane in planes}
            found[subject] = self._compared(reference)
        return found

    def _compared(self, reference: Mapping[str, Any]) -> Measured:
        assert self._operation is not None
        differences: dict[str, float | None] = {}
        errors: dict[str, float | None] = {}
        for plane in self._operation.outputs(self._width):
            if plane.name in reference:
                found = self._arena.compare(reference[plane.name], plane)
                differences[plane.name] = _short(found.ratio(self._limits.mismatch_floor))
            if plane.name in self._expected:
                wanted = self._expected[plane.name]
                values = self._arena.sample(plane, wanted.indices)
                errors[plane.name] = _short(_error(values, wanted.values, self._limits.mismatch_floor))
        bad = {name: value for name, value in differences.items() if value is None or value > self._limits.max_mismatch}
        if not bad:
            return Measured(outcome=Outcome.TIMED, differences=differences, errors=errors)
        text = "; ".join(
            f"output {name!r} {'is not finite' if value is None else f'differs by {value:.3g}'}"
            for name, value in bad.items()
        )
        return Measured(outcome=Outcome.REFUSED, reason=text, differences=differences, errors=errors)

    def time(self, subjects: Sequence[Subject], rounds: int, warmups: int) -> dict[Subject, Samples]:
        """Time subjects in ``rounds`` interleaved rounds.

        One capture of a plan may be a per cent faster or slower than the next, for as long as it lives. So every few
        rounds have captures of their own, and no subject keeps a lucky one.
        """
        taken: dict[Subject, Samples] = dict.fromkeys(subjects, ())
        graphs = self._captures(subjects)
        for done in range(0, rounds, self._limits.graph_rounds):
            block = min(self._limits.graph_rounds, rounds - done)
            following: list[Any] = []
            prepare = partial(self._captures, subjects, following) if done + block < rounds else None
            samples = self._timer.block(graphs, block, 0 if done else warmups, prepare)
            graphs = following
            taken = {subject: (*taken[subject], *new) for subject, new in zip(subjects, samples, strict=True)}
        return taken

    def _captures(self, subjects: Sequence[Subject], graphs: list[Any] | None = None) -> list[Any]:
        """Append a new capture of each subject's plan to ``graphs``."""
        graphs = [] if graphs is None else graphs
        plans = (self._plans[subject] for subject in subjects)
        graphs += [self._timer.capture(partial(self._arena.run, plan, self._kernels)) for plan in plans]
        return graphs


def _error(values: Any, wanted: Any, floor: float) -> float | None:
    if not np.isfinite(values).all():
        return None
    return float(np.max(np.abs(values - wanted)) / max(floor, float(np.max(np.abs(wanted)))))


def _short(value: float | None) -> float | None:
    """Keep four significant digits: what a reader compares."""
    return None if value is None else float(f"{value:.4g}")
