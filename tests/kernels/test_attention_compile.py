"""What NVRTC makes of the small-T attention kernel: arenas as planned, no spills where the fastest tiers work."""

from __future__ import annotations

import pytest

from generator.core.route import Ask, DeviceFacts, Schedule
from generator.gpu.compile import KernelReport, compile_unit
from generator.gpu.nvrtc import find_toolkits
from kernels import ROOT
from kernels.attention import SmallCall, Tier
from kernels.attn_i8_small import row_tiles


def report(coding: str, tokens: int, tier: str, capability: int) -> KernelReport:
    """Compile one tier's kernel for ``capability`` and return its report."""
    if not any(toolkit.major >= 13 for toolkit in find_toolkits()):
        pytest.skip("NVRTC 13 is not installed (extra cuda13)")

    def ask(key: str, _width: int) -> Schedule:
        return Schedule("" if key == "attn_pv_f16" else tier)

    answer: Ask = ask
    call = SmallCall(coding=coding, tokens=tokens, envelope=65536, out="out")
    main, _ = call.launches(answer, DeviceFacts(capability=capability, multiprocessors=132))
    return compile_unit(ROOT, main.source, [main.kernel], f"sm_{capability}").reports[main.kernel]


@pytest.mark.parametrize(
    ("coding", "tokens", "tier"), [("int8", 1, "4x2x32"), ("rk2v4-e8", 2, "8x2x32"), ("rk4v4", 4, "8x2x32")]
)
def test_the_planned_arena_is_what_the_kernel_declares(coding: str, tokens: int, tier: str) -> None:
    found = report(coding, tokens, tier, 90)
    assert found.shared_bytes == Tier.parse(tier).shared_bytes(row_tiles(tokens), coding)
    assert found.spill_store_bytes == 0
