"""The device as NVML sees it: identity, power limit, clocks, throttling, temperature, other processes.

A CUDA device and its NVML device are matched by PCI bus id, never by index: the two libraries count differently.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from generator.core.evidence import Scalar

BUSY_SHARE = 10
"""A device that others keep busy for more than this many per cent of NVML's sampling period counts as in use."""

_REASONS = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""Throttle reasons of NVML that lower clocks; idle (1) is none of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A process that uses the device."""

    pid: int
    name: str
    memory_bytes: int

    def __str__(self) -> str:
        """Return the process as a message names it."""
        return f"{self.name} (pid {self.pid}, {self.memory_bytes / 2**20:.0f} MiB)"


def uuid_hash(uuid: str) -> str:
    """Return 16 digits that tell boards apart without naming one."""
    return hashlib.sha256(f"ninfer-board:{uuid}".encode()).hexdigest()[:16]


class Watch:
    """Reads one device through NVML; every reading is empty where NVML or the reading is missing.

    Args:
        pci: bus id as CUDA gives it (``"0000:3B:00.0"``).
    """

    def __init__(self, pci: str) -> None:
        self._pci = pci
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml  # noqa: PLC0415
        except ModuleNotFoundError:
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci.encode())
        except pynvml.NVMLError:
            return
        self._nvml = pynvml

    @property
    def present(self) -> bool:
        """Return whether NVML answers for this device."""
        return self._nvml is not None

    def _read(self, name: str, *arguments: object) -> Any:
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def uuid(self) -> str:
        """Return the board's UUID (``GPU-…``), empty where unknown."""
        found = self._read("nvmlDeviceGetUUID")
        return found.decode() if isinstance(found, bytes) else str(found or "")

    def power_limit_w(self) -> int:
        """Return the enforced power limit in watts, 0 where unknown."""
        return round((self._read("nvmlDeviceGetEnforcedPowerLimit") or 0) / 1000)

    def users(self) -> tuple[User, ...]:
        """Return the processes that compute on the device."""
        found = self._read("nvmlDeviceGetComputeRunningProcesses") or ()
        return tuple(
            User(pid=item.pid, name=_process_name(item.pid), memory_bytes=item.usedGpuMemory or 0) for item in found
        )

    def busy_share(self) -> int:
        """Return the share of time, in per cent, in which some kernel ran of late; 0 where unknown."""
        found = self._read("nvmlDeviceGetUtilizationRates")
        return int(found.gpu) if found is not None else 0

    def reading(self) -> dict[str, Scalar]:
        """Return clocks in MHz, temperature in degrees Celsius, power draw in watts, and what throttles."""
        if self._nvml is None:
            return {}
        result: dict[str, Scalar] = {}
        for name, value in (
            ("sm_clock_mhz", self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)),
            ("memory_clock_mhz", self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM)),
            ("temperature_c", self._read("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU)),
        ):
            if value is not None:
                result[name] = int(value)
        power = self._read("nvmlDeviceGetPowerUsage")
        if power is not None:
            result["power_w"] = round(power / 1000)
        reasons = self._read("nvmlDeviceGetCurrentClocksThrottleReasons")
        if reasons is not None:
            result["throttle"] = ", ".join(text for bit, text in _REASONS.items() if reasons & bit)
        return result


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process of another container"


def refuse_busy(watch: Watch, device: str) -> None:
    """Raise if something else uses the device; call it before a context of ours exists there.

    Raises:
        DeviceError: other processes compute there, or keep it busy; the message names them.
    """
    users = watch.users()
    if users:
        who = ", ".join(str(user) for user in users)
        raise DeviceError(
            f"{device}: in use by {who}; calibration times an idle device. Close that work, or pass --allow-busy to "
            "measure anyway and mark the evidence"
        )
    share = watch.busy_share()
    if share > BUSY_SHARE:
        raise DeviceError(
            f"{device}: busy for {share} % of the time, idle is up to {BUSY_SHARE} %; calibration times an idle "
            "device. Close that work, or pass --allow-busy to measure anyway and mark the evidence"
        )


def summary(readings: Iterable[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Return readings of one key as one record: lowest and highest of each number, every throttle reason seen."""
    numbers: dict[str, list[int]] = {}
    reasons: set[str] = set()
    seen = False
    for reading in readings:
        seen = True
        for name, value in reading.items():
            if isinstance(value, int):
                numbers.setdefault(name, []).append(value)
            elif name == "throttle" and value:
                reasons.update(str(value).split(", "))
    result: dict[str, Scalar] = {}
    for name, values in numbers.items():
        result[f"{name}_low"] = min(values)
        result[f"{name}_high"] = max(values)
    if seen:
        result["throttle"] = ", ".join(sorted(reasons))
    return result
