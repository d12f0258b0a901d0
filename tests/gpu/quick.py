"""Check and time one family on a GPU while its kernels are being written: ``python -m tests.gpu.quick FAMILY``.

For every route of the family, width and legal schedule: agreement with the float64 reference on poisoned outputs,
and the median of interleaved cold-L2 samples of a captured graph against the floor that the bytes set. The last
lines are a table of compiled and best schedule per width.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from generator.core.fill import Host
from generator.core.route import COMPILED, DeviceFacts, Launch, Operation, Plane, Route, RouteKey, Schedule
from generator.gpu.compile import Compiled, compile_unit
from generator.gpu.driver import missing_device
from kernels import ROOT, find_families

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from generator.core.route import Expected
    from generator.gpu.arena import Arena, Kernels

FLUSH_BYTES = 256 << 20
UNIT = 3  # kernels a compile unit: small units spread over the cores


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One distinct plan of a route at a width, and the schedules that resolve to it."""

    route: Route
    operation: Operation
    width: int
    schedules: tuple[Schedule, ...]
    plan: tuple[Launch, ...]

    @property
    def name(self) -> str:
        """Schedules of the case, the compiled one as a star."""
        return "=".join(schedule or "*" for schedule in self.schedules)


def cases(route: Route, widths: Sequence[int], device: DeviceFacts) -> Iterator[Case]:
    """Return the distinct plans of ``route``, the compiled route's first at each width."""
    operation = route.operation
    if operation is None:
        return
    for width in [width for width in widths or route.widths if width <= route.widths[-1]]:
        plans: dict[tuple[Launch, ...], list[Schedule]] = {}
        legal = [item.schedule for item in route.candidates if item.legal(width)]
        for schedule in (COMPILED, *legal):

            def ask(key: RouteKey, _width: int, schedule: Schedule = schedule) -> Schedule:
                if key == route.key:
                    return schedule
                under = route.acts_under
                return under[1] if under is not None and key == under[0] else COMPILED

            plans.setdefault(operation.plan(width, ask, device), []).append(schedule)
        for plan, schedules in plans.items():
            yield Case(route=route, operation=operation, width=width, schedules=tuple(schedules), plan=plan)


def compile_all(wanted: Iterable[Case], arch: str) -> list[tuple[str, Compiled]]:
    """Compile every kernel of ``wanted`` on all cores; the children only call NVRTC."""
    names: dict[str, set[str]] = {}
    for case in wanted:
        for launch in case.plan:
            names.setdefault(launch.source, set()).add(launch.kernel)
    units = [
        (ROOT, source, tuple(sorted(found))[start : start + UNIT], arch)
        for source, found in sorted(names.items())
        for start in range(0, len(found), UNIT)
    ]
    with multiprocessing.get_context("spawn").Pool(min(len(units), os.cpu_count() or 1)) as pool:
        compiled = pool.starmap(compile_unit, units, chunksize=1)
    for (_, source, expressions, _), unit in zip(units, compiled, strict=True):
        for name in expressions:
            report = unit.reports[name]
            if report.spill_store_bytes:
                _say(f"SPILL {source} {name}: {report}")
    return [(unit[1], result) for unit, result in zip(units, compiled, strict=True)]


def mismatch(arena: Arena, planes: Sequence[Plane], expected: Mapping[str, Expected]) -> tuple[float, str]:
    """Return the largest difference over the largest reference value of any plane, and its name; NaN if unwritten.

    A plane without a reference has only to be written.
    """
    worst = (0.0, "")
    for plane in planes:
        got = arena.read(plane).astype(np.float32)
        if not np.isfinite(got).all():
            return float("nan"), plane.name
        want = expected.get(plane.name)
        if want is None:
            continue
        difference = np.abs(got[want.indices].astype(np.float64) - want.values).max()
        worst = max(worst, (float(difference / max(np.abs(want.values).max(), 1e-6)), plane.name))
    return worst


class Clock:
    """Times captured plans, cold L2, behind the flush that keeps the host ahead."""

    def __init__(self, arch: str) -> None:
        import cupy

        from generator.gpu.arena import Kernels as Loaded

        self._cupy: Any = cupy
        self._buffer = cupy.ones(FLUSH_BYTES, cupy.uint8)
        kernels = Loaded()
        kernels.load("quick", compile_unit(Path(__file__).parent, "quick", ["read_all"], arch))
        one = (1, 1, 1)
        self._read: Any = kernels.function(Launch(source="quick", kernel="read_all", grid=one, block=one, args=()))
        self.stream: Any = cupy.cuda.Stream(non_blocking=True)

    def flush(self) -> None:
        """Read the flush buffer."""
        args = (self._buffer, np.int64(FLUSH_BYTES // 16), self._buffer[:4])
        self._read((1056, 1, 1), (256, 1, 1), args)

    def capture(self, arena: Arena, plan: Sequence[Launch], kernels: Kernels) -> Any:
        """Return ``plan`` as a graph."""
        with self.stream:
            self.stream.begin_capture()
            arena.run(plan, kernels)
            return self.stream.end_capture()

    def medians_us(self, graphs: Sequence[Any], samples: int) -> list[float]:
        """Return the median of ``samples`` interleaved samples of each graph, after two warm-ups."""
        event, elapsed = self._cupy.cuda.Event, self._cupy.cuda.get_elapsed_time
        taken: list[list[tuple[Any, Any]]] = [[] for _ in graphs]
        with self.stream:
            for sample in range(-2, samples):
                for graph, events in zip(graphs, taken, strict=True):
                    self.flush()
                    start, stop = event(), event()
                    start.record(self.stream)
                    graph.launch(self.stream)
                    stop.record(self.stream)
                    if sample >= 0:
                        events.append((start, stop))
        self.stream.synchronize()
        return [float(np.median([elapsed(*pair) * 1000 for pair in events])) for events in taken]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Check and time; return 1 if a schedule disagrees with the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="+")
    parser.add_argument("--key", default="", help="only keys that hold this text")
    parser.add_argument("--widths", default="", help="comma list instead of the measured widths")
    parser.add_argument("--samples", type=int, default=11, help="0 checks only")
    parser.add_argument("--rate", type=float, default=4400.0, help="read bandwidth in GB/s behind the floor")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--tolerance", type=float, default=0.02)
    options = parser.parse_args()
    lacking = missing_device()
    if lacking:
        parser.exit(1, f"quick: {lacking}; compile without one with `python -m generator kernels`\n")
    device = DeviceFacts(capability=int(options.arch.removeprefix("sm_")), multiprocessors=132)
    widths = tuple(int(width) for width in options.widths.split(",") if width)
    routes = [route for family in find_families() if family.name in options.family for route in family.routes]
    wanted = [case for route in routes if options.key in route.key for case in cases(route, widths, device)]
    units = compile_all(wanted, options.arch)

    from generator.gpu.arena import Arena, Kernels

    kernels = Kernels()
    for source, unit in units:
        kernels.load(source, unit)
    clock = Clock(options.arch)
    table: list[str] = []
    bad = 0
    for route in routes:
        mine = [case for case in wanted if case.route is route]
        if not mine:
            continue
        operation = mine[0].operation
        arena, host = Arena(operation.operands, options.arch), Host(operation.operands)
        for width in dict.fromkeys(case.width for case in mine):
            group = [case for case in mine if case.width == width]
            planes, expected = operation.outputs(width), operation.reference(width, host)
            errors = []
            for case in group:
                arena.restore({plane.name for plane in (*planes, *operation.restored(width))})
                arena.run(case.plan, kernels)
                errors.append(mismatch(arena, planes, expected))
            times = [0.0] * len(group)
            if options.samples:
                graphs = [clock.capture(arena, case.plan, kernels) for case in group]
                times = clock.medians_us(graphs, options.samples)
            floor = operation.floor_bytes(width) / options.rate / 1000
            for case, (error, plane), time in zip(group, errors, times, strict=True):
                wrong = not error <= options.tolerance
                bad += wrong
                share = f"{floor / time:5.0%}" if time else ""
                line = f"{route.key} w={width} {case.name}: {error:.1e} {plane} {time:.1f} us {share}"
                _say(("WRONG " if wrong else "") + line)
            best = min(range(len(group)), key=times.__getitem__)
            table.append(
                f"{route.key} {width:4d} floor {floor:6.1f} compiled {times[0]:6.1f} best {times[best]:6.1f} us "
                f"{floor / max(times[best], 1e-9):4.0%} {group[best].name} worst error {max(e for e, _ in errors):.1e}"
            )
    for line in table:
        _say(line)
    _say(f"{bad} of {len(wanted)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
