"""Whether a kernel can be launched on a device of some compute capability, from what the compiler reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.route import DeviceFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.core.reference import ReferenceGpu

REGISTERS_PER_BLOCK = 65536
THREADS_PER_BLOCK = 1024
_REGISTER_UNIT = 8
_WARP = 32

SHARED_PER_BLOCK = {70: 98304, 75: 65536, 80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
"""Largest shared memory of a block in bytes by capability (CUDA C++ Programming Guide, compute capabilities)."""

L2_BYTES = {70: 6 << 20, 86: 6 << 20, 89: 72 << 20, 90: 60 << 20, 120: 96 << 20}
"""L2 of the first reference card of a capability; a plan may size its launch by it."""

_USUAL_MULTIPROCESSORS = {70: 80, 86: 82, 89: 128, 90: 132, 120: 170}


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What one kernel takes: registers a thread, bytes a block, and the threads of its largest block."""

    registers: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    threads: int


def device_facts(capability: int, cards: Sequence[ReferenceGpu]) -> DeviceFacts:
    """Return what plans may know of the reference card of ``capability``."""
    own = [card for card in cards if card.capability == capability]
    multiprocessors = own[0].multiprocessors if own else _USUAL_MULTIPROCESSORS.get(capability, 128)
    return DeviceFacts(
        capability=capability,
        multiprocessors=multiprocessors,
        shared_per_block_bytes=SHARED_PER_BLOCK.get(capability, 101376),
        l2_bytes=L2_BYTES.get(capability, 0),
    )


def obstacle(usage: Usage, device: DeviceFacts) -> str:
    """Return why the kernel cannot be launched on ``device``, empty if it can."""
    shared = usage.static_shared_bytes + usage.dynamic_shared_bytes
    if shared > device.shared_per_block_bytes:
        return f"{shared} bytes of shared memory, {device.shared_per_block_bytes} a block"
    if usage.threads > THREADS_PER_BLOCK:
        return f"{usage.threads} threads, {THREADS_PER_BLOCK} a block"
    registers = -(-usage.registers // _REGISTER_UNIT) * _REGISTER_UNIT * (-(-usage.threads // _WARP) * _WARP)
    if registers > REGISTERS_PER_BLOCK:
        return f"{registers} registers, {REGISTERS_PER_BLOCK} a block"
    return ""
