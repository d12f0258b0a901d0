"""Time both prefill routes of the gated delta net beside ``chunk_gated_delta_rule`` of flash-linear-attention.

Run on a machine with an NVIDIA GPU, PyTorch, Triton and the package ``fla-core``::

    python tests/benchmarks/gdn_vs_fla.py [--tokens 1024 8192] [--heads 48 32] [--json FILE]

Same inputs, same process, every contender a CUDA graph on one stream, samples interleaved, the L2 emptied before each
by reading a buffer of four times its size, median of eleven. The errors are against the float64 recurrence at sampled
elements.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from generator.core.fill import Host
from generator.core.limits import LIMITS
from generator.core.route import COMPILED, DeviceFacts, Plane, Schedule
from generator.gpu.compile import Compiled, compile_unit
from generator.gpu.driver import missing_device
from kernels import ROOT
from kernels.gdn_two_stage import FAMILY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.core.route import Ask, Launch, Operation


SCHEDULES = {"pipeline": COMPILED, "two_stage": Schedule("on")}
"""Our two routes by the schedule that is forced."""


def missing_packages(*, with_fla: bool) -> str:
    """Return which package is missing, empty where all are there."""
    needed = ["cupy", "torch", *(["triton", "fla"] if with_fla else [])]
    missing = [name for name in needed if find_spec(name) is None]
    return (
        f"{sys.prefix}: no {', '.join(missing)} there, expected CuPy, PyTorch, Triton and fla-core" if missing else ""
    )


def force(schedule: Schedule) -> Ask:
    """Return a dispatcher that always answers ``schedule``."""
    return lambda _key, _width: schedule


def device_facts() -> DeviceFacts:
    """Return what plans may know of the current device."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    return DeviceFacts(
        capability=facts["major"] * 10 + facts["minor"],
        multiprocessors=facts["multiProcessorCount"],
        shared_per_block_bytes=facts["sharedMemPerBlockOptin"],
        l2_bytes=facts["l2CacheSize"],
    )


def compile_job(job: tuple[str, str, str]) -> tuple[str, Compiled]:
    """Compile one kernel: (source, expression, architecture)."""
    return job[0], compile_unit(ROOT, job[0], [job[1]], job[2])


def fla_call(inputs: dict[str, Any], scale: float) -> Callable[[], tuple[Any, Any]]:
    """Return the package's prefill over ``inputs``, final state included, states as (value dim, key dim)."""
    import torch
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    def call() -> tuple[Any, Any]:
        with torch.no_grad():
            out, state = chunk_gated_delta_rule(
                **inputs, scale=scale, output_final_state=True, use_qk_l2norm_in_kernel=True, state_v_first=True
            )
        return out, state

    return call


def relative_error(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Return the norm of the difference over the norm of what is wanted."""
    return float(np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted))


class Comparison:
    """One number of value heads on the current device: buffers, and graphs of every contender."""

    def __init__(self, heads: int, facts: DeviceFacts, compiled: Sequence[tuple[str, Compiled]], arch: str) -> None:
        import cupy
        import torch

        from generator.gpu.arena import Arena, Kernels

        self.heads, self.facts = heads, facts
        self.operation: Operation = operation(heads)
        self.cupy_stream = cupy.cuda.Stream(non_blocking=True)
        self.stream = torch.cuda.ExternalStream(self.cupy_stream.ptr)
        self.kernels = Kernels()
        for source, unit in compiled:
            self.kernels.load(source, unit)
        self.arena = Arena(self.operation.operands, arch)
        cupy.cuda.Device().synchronize()

    def graph(self, plan: Sequence[Launch]) -> Any:
        """Return a graph of ``plan``."""
        with self.cupy_stream:
            self.arena.run(plan, self.kernels)
            self.cupy_stream.synchronize()
            self.cupy_stream.begin_capture()
            self.arena.run(plan, self.kernels)
            return self.cupy_stream.end_capture()

    def torch_inputs(self, tokens: int) -> dict[str, Any]:
        """Return the operands' values as tensors of the package's shapes."""
        import torch

        heads, dim = self.heads, 128
        shapes = {
            "q": (1, tokens, 16, dim),
            "k": (1, tokens, 16, dim),
            "v": (1, tokens, heads, dim),
            "g": (1, tokens, heads),
            "beta": (1, tokens, heads),
            "state_in": (1, heads, dim, dim),
        }
        tensors: dict[str, Any] = {}
        for name, shape in shapes.items():
            host = self.arena.read(Plane(name, int(np.prod(shape))))
            if host.dtype.itemsize == 2:
                tensor = torch.from_numpy(host.view(np.int16).copy()).cuda().view(torch.bfloat16)
            else:
                tensor = torch.from_numpy(host.copy()).cuda()
            tensors["initial_state" if name == "state_in" else name] = tensor.reshape(shape)
        return tensors

    def errors(self, tokens: int, outputs: dict[str, dict[str, np.ndarray[Any, Any]]]) -> dict[str, dict[str, float]]:
        """Return each contender's relative error of each plane at the sampled elements."""
        wanted = self.operation.reference(tokens, Host(self.operation.operands))
        return {
            name: {plane: relative_error(found[plane][item.indices], item.values) for plane, item in wanted.items()}
            for name, found in outputs.items()
        }

    def measure(self, tokens: int, *, with_fla: bool) -> dict[str, Any]:
        """Time the pipeline, the two stages and the package at ``tokens``; all in microseconds."""
        import cupy
        import torch

        plans = {name: self.operation.plan(tokens, force(forced), self.facts) for name, forced in SCHEDULES.items()}
        replays: dict[str, Callable[[], Any]] = {}
        outputs: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
        for name, plan in plans.items():
            self.arena.restore(("out", "state_out"))
            cupy.cuda.Device().synchronize()
            graph = self.graph(plan)
            self.cupy_stream.synchronize()
            outputs[name] = {plane.name: self.arena.read(plane) for plane in self.operation.outputs(tokens)}
            replays[name] = partial(graph.launch, self.cupy_stream)
        if with_fla:
            call = fla_call(self.torch_inputs(tokens), scale=128**-0.5)
            with torch.cuda.stream(self.stream):
                for _ in range(3):
                    call()
                self.stream.synchronize()
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                out, state = call()
            with torch.cuda.stream(self.stream):
                captured.replay()
                self.stream.synchronize()
                outputs["fla"] = {
                    "out": out.float().cpu().numpy().reshape(-1),
                    "state_out": state.float().cpu().numpy().reshape(-1),
                }
            replays["fla"] = captured.replay
        times = self.interleaved(replays)
        return {
            "heads": self.heads,
            "tokens": tokens,
            "median_us": {name: statistics.median_high(values) for name, values in times.items()},
            "samples_us": times,
            "relative_error": self.errors(tokens, outputs),
        }

    def interleaved(self, replays: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
        """Time every contender once a round, each sample after a flush by reading."""
        import torch

        size = max(LIMITS.flush_floor_bytes, LIMITS.flush_l2_share * self.facts.l2_bytes)
        flush = torch.ones(size // 4, dtype=torch.float32, device="cuda")
        times: dict[str, list[float]] = {name: [] for name in replays}
        with torch.cuda.stream(self.stream), self.cupy_stream:
            for turn in range(LIMITS.warmups + LIMITS.samples):
                for name, replay in replays.items():
                    flush.sum()
                    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    start.record(self.stream)
                    replay()
                    stop.record(self.stream)
                    stop.synchronize()
                    if turn >= LIMITS.warmups:
                        times[name].append(round(start.elapsed_time(stop) * 1e3, 3))
        return times


def operation(heads: int) -> Operation:
    """Return the operation behind ``gdn_two_stage/h<heads>``."""
    found = next(route.operation for route in FAMILY.routes if route.key.endswith(f"/h{heads}"))
    assert found is not None
    return found


def main(arguments: Sequence[str]) -> int:
    """Print one line a case; return 1 if a route exceeds 1.2 times the package's time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--heads", type=int, nargs="+", default=[48, 32])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-fla", action="store_true", help="time the two routes alone")
    options = parser.parse_args(arguments)
    lacking = missing_packages(with_fla=not options.no_fla) or missing_device()
    if lacking:
        parser.exit(1, f"gdn_vs_fla: {lacking}\n")
    facts = device_facts()
    arch = f"sm_{facts.capability}"
    jobs = {
        (launch.source, launch.kernel, arch)
        for heads in options.heads
        for tokens in options.tokens
        for schedule in SCHEDULES.values()
        for launch in operation(heads).plan(tokens, force(schedule), facts)
    }
    with ProcessPoolExecutor() as pool:
        compiled = list(pool.map(compile_job, sorted(jobs)))
    results = []
    worst = 0.0
    for heads in options.heads:
        comparison = Comparison(heads, facts, compiled, arch)
        for tokens in options.tokens:
            result = comparison.measure(tokens, with_fla=not options.no_fla)
            results.append(result)
            medians = result["median_us"]
            ratio = min(medians["pipeline"], medians["two_stage"]) / medians.get("fla", float("nan"))
            worst = max(worst, ratio)
            times = " ".join(f"{name} {value:.1f}" for name, value in medians.items())
            errors = " ".join(
                f"{name} {error['out']:.1e}/{error['state_out']:.1e}"
                for name, error in result["relative_error"].items()
            )
            sys.stdout.write(f"h{heads} T={tokens} us: {times} | ours/fla {ratio:.3f} | error out/state: {errors}\n")
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 1 if worst > 1.2 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
