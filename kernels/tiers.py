"""Compiled small-T attention tiers by query width and window."""

from __future__ import annotations

from generator.core.route import CompiledTable


def compiled_tier(width: int) -> CompiledTable:
    """Return the compiled tiers of ``width`` query tokens by window (engine-kernels 7.4.5)."""
    if width <= 3:
        return CompiledTable(default=((None, "8x2x32"),))
    if width == 4:
        return CompiledTable(default=((1029, "16x1x32"), (None, "8x2x32")))
    if width == 5:
        return CompiledTable(default=((128, "16x1x32"), (512, "32x1x32"), (1029, "16x1x32"), (None, "8x2x32")))
    return CompiledTable(
        default=((128, "12x1x32"), (160, "24x1x32"), (2054, "12x1x32"), (8198, "12x1x64d"), (None, "6x2x32"))
    )
