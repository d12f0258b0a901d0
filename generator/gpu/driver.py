"""Whether this machine has a CUDA device at all, asked of the driver's library itself: no CuPy, no context."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_NO_DEVICE = 100
_STUB = 34
_TOO_OLD = "cudaErrorInsufficientDriver"


def missing_device(load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Return why no CUDA device can be used here, empty where the driver has one.

    Args:
        load: loads a shared library, raising OSError where it cannot.
    """
    try:
        library = load(LIBRARY)
    except OSError:
        return f"no NVIDIA driver or GPU on this machine: {LIBRARY} cannot be loaded"
    code = library.cuInit(0)
    if code == _STUB:
        return f"no NVIDIA driver on this machine: {LIBRARY} is the toolkit's stub for linking"
    count = ctypes.c_int(0)
    if code == 0:
        code = library.cuDeviceGetCount(ctypes.byref(count))
    if code == _NO_DEVICE or (code == 0 and count.value == 0):
        return "the NVIDIA driver finds no GPU on this machine, or CUDA_VISIBLE_DEVICES hides it"
    return f"the NVIDIA driver does not start: cuInit gives {code}" if code else ""


def start_trouble(index: int, text: str, load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """Return the message for a worker that did not come up.

    Args:
        index: CUDA device index.
        text: what the worker said.
        load: as of `missing_device`.
    """
    missing = missing_device(load)
    if missing:
        return (
            f"device {index}: {missing}, expected a CUDA device. Run it on a machine with a GPU and its driver; from "
            "evidence, --replay FILE needs neither"
        )
    if _TOO_OLD in text:
        found = ctypes.c_int(0)
        load(LIBRARY).cuDriverGetVersion(ctypes.byref(found))
        version = f"{found.value // 1000}.{found.value % 1000 // 10}"
        return (
            f"device {index}: the NVIDIA driver is of CUDA {version}, too old for the runtime of the installed CuPy. "
            "Update the driver, or install the extra cuda12 in place of cuda13"
        )
    return f"device {index}: {text}; check the driver with nvidia-smi"
