"""Device buffers of one operation, and plans launched over them.

All buffers lie in one slab, each with a guard zone on either side; a write outside a buffer changes a guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from generator.core.fill import DTYPES, host_values, operand_bytes, operand_elements
from generator.core.route import F32, I32, Buf, Given, Launch, Operand, Plane, Poison, Uniform, Words
from generator.gpu.compile import Compiled, compile_unit
from generator.gpu.dependent import launch_dependent, supported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

_DEFAULT_SHARED = 48 * 1024
_ALIGN = 256
GUARD_BYTES = 4096
GUARD = 0xA5
POISON = 0xFF
_FILL_NAMES = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16"}
_COMPARE_NAMES = {**_FILL_NAMES, "i8": "signed char", "u8": "unsigned char", "i32": "int", "u32": "unsigned"}
_GRID = 1056


class Kernels:
    """Loaded kernels by (source, expression)."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Any] = {}
        self._shared: dict[tuple[str, str], int] = {}

    def load(self, source: str, compiled: Compiled) -> None:
        """Load every kernel of ``compiled`` onto the current device."""
        module = cupy.cuda.function.Module()
        module.load(compiled.cubin)
        for expression, lowered in compiled.names.items():
            self._functions[source, expression] = module.get_function(lowered)

    def missing(self, plan: Iterable[Launch]) -> set[tuple[str, str]]:
        """Return the (source, expression) pairs of ``plan`` that are not loaded."""
        return {(item.source, item.kernel) for item in plan} - self._functions.keys()

    def function(self, launch: Launch) -> Any:
        """Return the kernel of ``launch``, its shared memory limit raised where needed."""
        function = self._functions[launch.source, launch.kernel]
        if launch.shared_bytes > self._shared.get((launch.source, launch.kernel), _DEFAULT_SHARED):
            driver.funcSetAttribute(
                function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes
            )
            self._shared[launch.source, launch.kernel] = launch.shared_bytes
        return function


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """How two copies of one plane differ: largest absolute difference and value, count of values not finite."""

    apart: float
    largest: float
    not_finite: int

    def ratio(self, floor: float) -> float | None:
        """Return the difference over the reference's magnitude, at least ``floor``; None if not finite."""
        return None if self.not_finite else self.apart / max(floor, self.largest)


class Arena:
    """Buffers of one operation on the current device, and the helper kernels that fill and check them."""

    def __init__(self, operands: Iterable[Operand], arch: str) -> None:
        self._operands = {operand.name: operand for operand in operands}
        self._fill = helper_kernels(arch)
        self._capability = int(arch.removeprefix("sm_").rstrip("af"))
        self._sizes = {name: operand_bytes(item) for name, item in self._operands.items()}
        self._starts: dict[str, int] = {}
        end = GUARD_BYTES
        for name, size in self._sizes.items():
            self._starts[name] = end
            end += -(-size // _ALIGN) * _ALIGN + GUARD_BYTES
        self._slab = cupy.empty(end, cupy.uint8)
        guards = [0, *(start + self._sizes[name] for name, start in self._starts.items())]
        ends = [*self._starts.values(), end]
        self._guards = [(start, last - start, GUARD) for start, last in zip(guards, ends, strict=True)]
        for start, length, byte in self._guards:
            self._slab[start : start + length].fill(byte)
        self._regions: tuple[list[tuple[int, int, int]], tuple[Any, ...]] | None = None
        self._changed = cupy.zeros(1, cupy.uint32)
        self._sums = cupy.zeros(3, cupy.uint32)
        self._indices: dict[str, tuple[NDArray[np.int64], Any]] = {}
        self.restore(self._operands)

    def _buffer(self, name: str) -> Any:
        start = self._starts[name]
        return self._slab[start : start + self._sizes[name]]

    def restore(self, names: Iterable[str]) -> None:
        """Fill the named operands as declared: inputs with their values, outputs with poison."""
        for name in names:
            operand, buffer = self._operands[name], self._buffer(name)
            fill = operand.fill
            if isinstance(fill, Poison):
                buffer.fill(POISON)
            elif isinstance(fill, Given):
                buffer.set(host_values(operand).view(np.uint8))
            elif isinstance(fill, Words):
                words = -(-buffer.nbytes // 4)
                self._run_helper("fill_words", (buffer, np.int64(words), np.uint32(fill.seed)))
            else:
                assert isinstance(fill, Uniform)
                expression = f"fill_uniform<{_FILL_NAMES[operand.dtype]}>"
                count, seed = np.int64(operand_elements(operand)), np.uint32(fill.seed)
                self._run_helper(expression, (buffer, count, seed, np.float32(fill.low), np.float32(fill.high)))

    def poisoned(self) -> tuple[str, ...]:
        """Return the operands that are declared poisoned: outputs and scratch."""
        return tuple(name for name, item in self._operands.items() if isinstance(item.fill, Poison))

    def _run_helper(self, expression: str, args: tuple[Any, ...], grid: tuple[int, int, int] = (_GRID, 1, 1)) -> None:
        source = "fill" if expression.startswith("fill") else "check"
        launch = Launch(source=source, kernel=expression, grid=grid, block=(256, 1, 1), args=())
        self._fill.function(launch)(launch.grid, launch.block, args)

    def _bytes(self, plane: Plane) -> Any:
        size = np.dtype(DTYPES[self._operands[plane.name].dtype]).itemsize
        return self._buffer(plane.name)[: plane.elements * size]

    def copy(self, plane: Plane) -> Any:
        """Return a copy of the plane's bytes on the device."""
        return self._bytes(plane).copy()

    def read(self, plane: Plane) -> NDArray[Any]:
        """Return the plane's elements on the host, in the operand's own type."""
        raw: NDArray[np.uint8] = self._bytes(plane).get()
        return raw.view(np.dtype(DTYPES[self._operands[plane.name].dtype]))

    def sample(self, plane: Plane, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the plane's elements at ``indices`` on the host, widened."""
        dtype = np.dtype(DTYPES[self._operands[plane.name].dtype])
        words = self._bytes(plane).view({1: cupy.uint8, 2: cupy.uint16, 4: cupy.uint32}[dtype.itemsize])
        known = self._indices.get(plane.name)
        if known is None or known[0] is not indices:  # the same sample of every schedule's output
            known = self._indices[plane.name] = (indices, cupy.asarray(indices))
        taken: NDArray[Any] = words[known[1]].get()
        return taken.view(dtype).astype(np.float64)

    def compare(self, reference: Any, plane: Plane) -> Difference:
        """Compare a copy of the plane with what the plane holds now."""
        self._sums.fill(0)
        expression = f"compare<{_COMPARE_NAMES[self._operands[plane.name].dtype]}>"
        self._run_helper(expression, (reference, self._bytes(plane), np.int64(plane.elements), self._sums))
        sums: NDArray[np.uint32] = self._sums.get()
        floats = sums.view(np.float32)
        return Difference(apart=float(floats[0]), largest=float(floats[1]), not_finite=int(sums[2]))

    def strays(self, planes: Collection[Plane]) -> int:
        """Count the bytes written outside the buffers, or past ``planes`` in outputs that were poisoned before.

        Planes that are open-ended are bounded by their buffers alone.
        """
        regions = list(self._guards)
        for plane in planes:
            if isinstance(self._operands[plane.name].fill, Poison) and not plane.open_ended:
                used, whole = self._bytes(plane).nbytes, self._buffer(plane.name).nbytes
                if used < whole:
                    regions.append((self._starts[plane.name] + used, whole - used, POISON))
        if self._regions is None or self._regions[0] != regions:
            starts, lengths, wants = zip(*regions, strict=True)
            arrays = (cupy.asarray(starts, cupy.int64), cupy.asarray(lengths, cupy.int64))
            self._regions = (regions, (*arrays, cupy.asarray(wants, cupy.uint8)))
        self._changed.fill(0)
        arguments = (self._slab, *self._regions[1], self._changed)
        self._run_helper("changed", arguments, (len(regions), 64, 1))
        return int(self._changed.get()[0])

    def arguments(self, launch: Launch) -> tuple[Any, ...]:
        """Return the launch's arguments as device pointers and NumPy scalars."""
        return tuple(self._argument(arg) for arg in launch.args)

    def _argument(self, arg: Buf | I32 | F32) -> Any:
        if isinstance(arg, Buf):
            size = np.dtype(DTYPES[self._operands[arg.name].dtype]).itemsize
            return np.uint64(self._slab.data.ptr + self._starts[arg.name] + arg.offset * size)
        return np.int32(arg.value) if isinstance(arg, I32) else np.float32(arg.value)

    def run(self, plan: Sequence[Launch], kernels: Kernels) -> None:
        """Launch ``plan`` on the current stream."""
        for launch in plan:
            function = kernels.function(launch)
            arguments = self.arguments(launch)
            if launch.dependent and supported(self._capability):
                shape, stream = (launch.grid, launch.block), cupy.cuda.get_current_stream().ptr
                launch_dependent(function, shape, arguments, launch.shared_bytes, stream)
            else:
                function(launch.grid, launch.block, arguments, shared_mem=launch.shared_bytes)


_helpers: dict[tuple[int, str], Kernels] = {}


def helper_kernels(arch: str) -> Kernels:
    """Return the fill and check kernels, loaded once a device."""
    device = (cupy.cuda.runtime.getDevice(), arch)
    if device not in _helpers:
        folder = Path(__file__).parent
        kernels = Kernels()
        fills = ["fill_words", *(f"fill_uniform<{name}>" for name in _FILL_NAMES.values())]
        checks = [*(f"compare<{name}>" for name in _COMPARE_NAMES.values()), "changed", "read_all", "spin"]
        kernels.load("fill", compile_unit(folder, "fill", fills, arch))
        kernels.load("check", compile_unit(folder, "check", checks, arch))
        _helpers[device] = kernels
    return _helpers[device]
