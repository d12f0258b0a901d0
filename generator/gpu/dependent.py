"""Programmatic dependent launch: a kernel may begin before its predecessor ends (compute capability 9.0 and later).

CuPy offers no launch attributes, so the driver's ``cuLaunchKernelEx`` is called itself; under stream capture the edge
becomes a programmatic one. https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

from cupy.cuda import driver

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_CAPABILITY = 90
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: an id, padding to 8 bytes, and a value of 64 bytes whose first word is a flag here."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("flag", ctypes.c_int), ("rest", ctypes.c_char * 60))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


@cache
def _launch() -> Any:
    """Return the driver's function, or None where the driver is too old to have it."""
    return getattr(ctypes.CDLL("libcuda.so.1"), "cuLaunchKernelEx", None)


def supported(capability: int) -> bool:
    """Return whether dependent launches take effect; elsewhere an ordinary launch gives the same result."""
    return capability >= FIRST_CAPABILITY and _launch() is not None


def launch_dependent(
    function: Any,
    shape: tuple[tuple[int, int, int], tuple[int, int, int]],
    arguments: Sequence[Any],
    shared_bytes: int,
    stream: int,
) -> None:
    """Launch ``function`` as a programmatic dependent of what precedes it in ``stream``.

    Args:
        function: a loaded kernel.
        shape: grid and block.
        arguments: NumPy scalars in the kernel's order.
        shared_bytes: dynamic shared memory.
        stream: handle.

    Raises:
        CUDADriverError: the driver refused the launch.
    """
    values = [argument.tobytes() for argument in arguments]
    buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
    pointers = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(buffer) for buffer in buffers))
    attribute = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, flag=1)
    grid, block = shape
    config = _Config(
        grid=(ctypes.c_uint * 3)(*grid),
        block=(ctypes.c_uint * 3)(*block),
        shared_bytes=shared_bytes,
        stream=stream,
        attributes=ctypes.pointer(attribute),
        count=1,
    )
    status = _launch()(ctypes.byref(config), ctypes.c_void_p(function.ptr), pointers, None)
    if status != 0:
        raise driver.CUDADriverError(status)
