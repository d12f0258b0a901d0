"""Samples in microseconds from device events, with a cold L2 and the host kept out of the timed window.

A whole block of samples is enqueued before the first is read. While the device reads the flush buffer, the host is far
ahead: start event, captured graph and stop event already wait in the stream, so host jitter cannot fall between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from generator.core.route import Launch
from generator.core.stats import median
from generator.errors import DeviceError
from generator.gpu.arena import helper_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BLOCK = 512
_CTAS_PER_SM = 8
_PROBE_SHARE = 4  # the probe buffer is a quarter of the L2, so that it fits whatever is resident beside it
_PROBE_ROUNDS = 11
_BANDWIDTH_BYTES = 1 << 30
LEAST_COLD_OVER_WARM = 1.15
"""A flush whose probe reads cold less than this much slower than warm has not evicted the L2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What the timer measured of itself: microseconds, and bytes a microsecond for ``read_rate``."""

    cold_us: float
    warm_us: float
    resolution_us: float
    empty_us: float
    read_rate: float


class Timer:
    """Times captured graphs on the current device.

    Args:
        arch: architecture of the helper kernels.
        flush_bytes: read before every sample.
        multiprocessors: SM count, sizes the reading grid.
    """

    def __init__(self, arch: str, flush_bytes: int, multiprocessors: int) -> None:
        self._kernels = helper_kernels(arch)
        self._grid = (multiprocessors * _CTAS_PER_SM, 1, 1)
        self._flush = cupy.zeros(flush_bytes // 16 * 16, cupy.uint8)
        self._sink = cupy.zeros(1, cupy.uint32)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._events: list[Any] = []

    def capture(self, work: Callable[[], None]) -> Any:
        """Return the launches of ``work`` as a graph that can be replayed."""
        with self._stream:
            self._stream.begin_capture()
            try:
                work()
            finally:
                graph = self._stream.end_capture()
        graph.upload(self._stream)
        return graph

    def block(
        self,
        graphs: Sequence[Any],
        rounds: int,
        warmups: int = 0,
        meanwhile: Callable[[], object] | None = None,
    ) -> list[list[float]]:
        """Time each graph ``rounds`` times, interleaved, and return its samples in microseconds.

        Rounds alternate direction, so that no graph always follows the same one. ``warmups`` rounds come first and are
        not returned. ``meanwhile`` is called when all is enqueued, while the device works.
        """
        order = list(range(len(graphs)))
        pairs: list[tuple[int, Any, Any]] = []
        cupy.cuda.runtime.deviceSynchronize()  # operands were filled on another stream
        events = iter(self._event_pairs(rounds * len(graphs)))
        with self._stream:
            for turn in range(-warmups, rounds):
                for place in order if turn % 2 == 0 else reversed(order):
                    self._read(self._flush)
                    if turn < 0:
                        graphs[place].launch(self._stream)
                        continue
                    start, stop = next(events)
                    start.record(self._stream)
                    graphs[place].launch(self._stream)
                    stop.record(self._stream)
                    pairs.append((place, start, stop))
        if meanwhile is not None:
            meanwhile()
        self._stream.synchronize()
        samples: list[list[float]] = [[] for _ in graphs]
        for place, start, stop in pairs:
            samples[place].append(_elapsed_us(start, stop))
        return samples

    def _event_pairs(self, count: int) -> list[tuple[Any, Any]]:
        while len(self._events) < 2 * count:
            self._events.append(cupy.cuda.Event())
        return [(self._events[2 * i], self._events[2 * i + 1]) for i in range(count)]

    def _read(self, buffer: Any) -> None:
        launch = Launch(source="check", kernel="read_all", grid=self._grid, block=(_BLOCK, 1, 1), args=())
        arguments = (buffer, np.int64(buffer.nbytes // 16), self._sink)
        self._kernels.function(launch)(launch.grid, launch.block, arguments)

    def warm_clocks(self, cycles: int = 400_000_000) -> None:
        """Keep the device busy for about a fifth of a second, so that clocks are up before the first sample."""
        launch = Launch(source="check", kernel="spin", grid=self._grid, block=(32, 1, 1), args=())
        with self._stream:
            self._kernels.function(launch)(launch.grid, launch.block, (np.int64(cycles),))
        self._stream.synchronize()

    def prove(self, l2_bytes: int, free_bytes: int) -> Proof:
        """Measure resolution, read rate, and a probe read cold and warm.

        Raises:
            DeviceError: the cold probe is not slower than the warm one: the flush does not evict.
        """
        probe = cupy.zeros(max(l2_bytes // _PROBE_SHARE, 1 << 20), cupy.uint8)
        cold = self.capture(lambda: self._read(probe))
        cold_us = median(self.block([cold], _PROBE_ROUNDS, warmups=2)[0])
        with self._stream:
            for start, stop in self._event_pairs(_PROBE_ROUNDS):
                cold.launch(self._stream)
                start.record(self._stream)
                cold.launch(self._stream)
                stop.record(self._stream)
        self._stream.synchronize()
        warm_samples = [_elapsed_us(start, stop) for start, stop in self._event_pairs(_PROBE_ROUNDS)]
        warm_us = median(warm_samples)
        if cold_us < warm_us * LEAST_COLD_OVER_WARM:
            raise DeviceError(
                f"L2 flush of {self._flush.nbytes} bytes: a probe of {probe.nbytes} bytes takes {cold_us:.2f} us after "
                f"the flush and {warm_us:.2f} us warm, expected at least {LEAST_COLD_OVER_WARM} times as long; the "
                "cache is larger than the device reports, or something else uses the device"
            )
        empty, resolution = self._resolution()
        return Proof(
            cold_us=round(cold_us, 3),
            warm_us=round(warm_us, 3),
            resolution_us=resolution,
            empty_us=empty,
            read_rate=round(self._read_rate(free_bytes), 1),
        )

    def _resolution(self) -> tuple[float, float]:
        """Return the median time between two events with nothing between, and the least step between samples."""
        pairs = self._event_pairs(64)
        with self._stream:
            self._read(self._flush)
            for start, stop in pairs:
                start.record(self._stream)
                stop.record(self._stream)
        self._stream.synchronize()
        times = sorted({round(_elapsed_us(start, stop), 3) for start, stop in pairs})
        steps = [round(after - before, 3) for before, after in pairwise(times)]
        return times[len(times) // 2], min(steps, default=0.0)

    def _read_rate(self, free_bytes: int) -> float:
        size = min(_BANDWIDTH_BYTES, free_bytes // 4) // 16 * 16
        big = cupy.zeros(size, cupy.uint8)
        graph = self.capture(lambda: self._read(big))
        return float(size / min(self.block([graph], 5, warmups=1)[0]))


def _elapsed_us(start: Any, stop: Any) -> float:
    return round(float(cupy.cuda.get_elapsed_time(start, stop)) * 1000.0, 3)
