"""What a machine without a usable CUDA device is told; the driver's library is made up."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from generator.gpu.driver import LIBRARY, missing_device, start_trouble

if TYPE_CHECKING:
    from pathlib import Path


class MadeUpDriver:
    """The four calls that are asked of libcuda."""

    def __init__(self, code: int = 0, devices: int = 1, version: int = 12040) -> None:
        self.code, self.devices, self.version = code, devices, version

    def cuInit(self, _flags: int) -> int:  # noqa: N802 - the library's name
        return self.code

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - the library's name
        count._obj.value = self.devices
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802 - the library's name
        version._obj.value = self.version
        return 0


def absent(name: str) -> None:
    raise OSError(name)


NO_DRIVER = f"no NVIDIA driver or GPU on this machine: {LIBRARY} cannot be loaded"
NO_GPU = "the NVIDIA driver finds no GPU on this machine, or CUDA_VISIBLE_DEVICES hides it"


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (MadeUpDriver(), ""),
        (MadeUpDriver(code=100), NO_GPU),
        (MadeUpDriver(devices=0), NO_GPU),
        (MadeUpDriver(code=34), f"no NVIDIA driver on this machine: {LIBRARY} is the toolkit's stub for linking"),
        (MadeUpDriver(code=999), "the NVIDIA driver does not start: cuInit gives 999"),
    ],
)
def test_the_driver_says_whether_there_is_a_device(driver: MadeUpDriver, message: str) -> None:
    assert missing_device(lambda _name: driver) == message


def test_a_machine_without_the_library_has_no_driver() -> None:
    assert missing_device(absent) == NO_DRIVER


TEXT = "CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"


def test_a_worker_without_a_driver_is_told_so_whatever_it_says() -> None:
    assert start_trouble(0, TEXT, absent) == (
        f"device 0: {NO_DRIVER}, expected a CUDA device. Run it on a machine with a GPU and its driver; from evidence, "
        "--replay FILE needs neither"
    )


def test_a_driver_that_is_too_old_is_told_its_version_and_the_remedy() -> None:
    assert start_trouble(1, TEXT, lambda _name: MadeUpDriver()) == (
        "device 1: the NVIDIA driver is of CUDA 12.4, too old for the runtime of the installed CuPy. Update the "
        "driver, or install the extra cuda12 in place of cuda13"
    )


def test_anything_else_is_the_workers_own_word() -> None:
    assert start_trouble(7, "CUDARuntimeError: cudaErrorInvalidDevice", lambda _name: MadeUpDriver()) == (
        "device 7: CUDARuntimeError: cudaErrorInvalidDevice; check the driver with nvidia-smi"
    )


@pytest.mark.skipif(not missing_device(), reason="this machine has a CUDA device")
@pytest.mark.parametrize(
    "words",
    [
        ("-m", "pytest", "--gpu", "-q", "-p", "no:cacheprovider", "tests/gpu/test_gdn.py"),
        ("-m", "tests.gpu.quick", "q6_head"),
        ("tests/benchmarks/gdn_vs_fla.py",),
    ],
)
def test_gpu_work_without_a_gpu_is_one_line_and_not_exit_0(words: tuple[str, ...], root: Path) -> None:
    done = subprocess.run([sys.executable, *words], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).strip().splitlines()
    assert "Traceback" not in line
    assert line.startswith(("!", "quick: ", "gdn_vs_fla: ", "Exit: "))
