"""Device buffers of one operation, and plans launched over them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from generator.core.fill import DTYPES, host_values, operand_bytes, operand_elements
from generator.core.route import F32, I32, Buf, Given, Launch, Operand, Plane, Poison, Uniform, Words
from generator.gpu.compile import Compiled, compile_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_DEFAULT_SHARED = 48 * 1024
_FILL_NAMES = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16"}


class Kernels:
    """Loaded kernels by (source, expression)."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Any] = {}

    def load(self, source: str, compiled: Compiled) -> None:
        """Load every kernel of ``compiled`` onto the current device."""
        module = cupy.cuda.function.Module()
        module.load(compiled.cubin)
        for expression, lowered in compiled.names.items():
            self._functions[source, expression] = module.get_function(lowered)

    def function(self, launch: Launch) -> Any:
        """Return the kernel of ``launch``, its shared memory limit raised where needed."""
        function = self._functions[launch.source, launch.kernel]
        if launch.shared_bytes > _DEFAULT_SHARED and function.max_dynamic_shared_size_bytes < launch.shared_bytes:
            function.max_dynamic_shared_size_bytes = launch.shared_bytes
        return function


class Arena:
    """Buffers of one operation on the current device."""

    def __init__(self, operands: Iterable[Operand], arch: str) -> None:
        self._operands = {operand.name: operand for operand in operands}
        self._fill = Kernels()
        expressions = ["fill_words", *(f"fill_uniform<{name}>" for name in _FILL_NAMES.values())]
        self._fill.load("fill", compile_unit(Path(__file__).parent, "fill", expressions, arch))
        self._buffers = {name: cupy.empty(operand_bytes(item), cupy.uint8) for name, item in self._operands.items()}
        self.restore(self._operands)

    def restore(self, names: Iterable[str]) -> None:
        """Fill the named operands as declared: inputs with their values, outputs with poison."""
        for name in names:
            operand, buffer = self._operands[name], self._buffers[name]
            fill = operand.fill
            if isinstance(fill, Poison):
                buffer.fill(0xFF)
            elif isinstance(fill, Given):
                buffer.set(host_values(operand).view(np.uint8))
            elif isinstance(fill, Words):
                words = -(-buffer.nbytes // 4)
                self._launch_fill("fill_words", (buffer, np.int64(words), np.uint32(fill.seed)))
            else:
                assert isinstance(fill, Uniform)
                expression = f"fill_uniform<{_FILL_NAMES[operand.dtype]}>"
                count, seed = np.int64(operand_elements(operand)), np.uint32(fill.seed)
                self._launch_fill(expression, (buffer, count, seed, np.float32(fill.low), np.float32(fill.high)))

    def _launch_fill(self, expression: str, args: tuple[Any, ...]) -> None:
        launch = Launch(source="fill", kernel=expression, grid=(1056, 1, 1), block=(256, 1, 1), args=())
        self._fill.function(launch)(launch.grid, launch.block, args)

    def read(self, plane: Plane) -> NDArray[Any]:
        """Return the plane's elements on the host, in the operand's own type."""
        dtype = np.dtype(DTYPES[self._operands[plane.name].dtype])
        raw: NDArray[np.uint8] = self._buffers[plane.name][: plane.elements * dtype.itemsize].get()
        return raw.view(dtype)

    def arguments(self, launch: Launch) -> tuple[Any, ...]:
        """Return the launch's arguments as device pointers and NumPy scalars."""
        return tuple(self._argument(arg) for arg in launch.args)

    def _argument(self, arg: Buf | I32 | F32) -> Any:
        if isinstance(arg, Buf):
            size = np.dtype(DTYPES[self._operands[arg.name].dtype]).itemsize
            return np.uint64(self._buffers[arg.name].data.ptr + arg.offset * size)
        return np.int32(arg.value) if isinstance(arg, I32) else np.float32(arg.value)

    def run(self, plan: Sequence[Launch], kernels: Kernels) -> None:
        """Launch ``plan`` on the current stream."""
        for launch in plan:
            function = kernels.function(launch)
            function(launch.grid, launch.block, self.arguments(launch), shared_mem=launch.shared_bytes)


def compile_plans(folder: Path, plans: Iterable[Sequence[Launch]], arch: str) -> Mapping[str, Compiled]:
    """Compile every kernel that ``plans`` name, one unit a source."""
    wanted: dict[str, set[str]] = {}
    for plan in plans:
        for launch in plan:
            wanted.setdefault(launch.source, set()).add(launch.kernel)
    return {source: compile_unit(folder, source, sorted(names), arch) for source, names in wanted.items()}
