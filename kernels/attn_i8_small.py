"""Small-T split-KV attention over an INT8-family cache: warps, CTAs per SM, key block, split QK, early fetch."""

from __future__ import annotations

from generator.core.route import Group, Route, RouteFamily, RouteKey
from kernels.attention import SmallT
from kernels.tiers import compiled_tier
from kernels.widths import WINDOWS, any_width

CODINGS = ("rk8v4", "rk4v4", "rk4v4-e8", "rk2v4-e8", "int8")
"""KV codings in the engine's measuring order."""

QUERY_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)

TIERS = {
    1: any_width(
        "2x4x32", "4x2x32", "8x2x32", "16x1x32", "2x2x32q", "4x2x32q", "4x2x32e", "8x2x32e", "16x1x32e", "4x2x32qe"
    ),
    2: any_width(
        "4x2x32",
        "8x2x32",
        "16x1x32",
        "32x1x32",
        "4x2x32q",
        "8x2x32q",
        "4x2x32e",
        "8x2x32e",
        "16x1x32e",
        "4x2x32qe",
        "8x2x32qe",
    ),
    3: any_width(
        "6x2x32",
        "12x1x32",
        "12x1x64d",
        "24x1x32",
        "6x2x32q",
        "12x1x32q",
        "6x2x32e",
        "12x1x32e",
        "6x2x32qe",
        "12x1x32qe",
    ),
}
"""Candidates by the number of 16-row query tiles."""


def row_tiles(width: int) -> int:
    """Return the number of 16-row tiles of ``width`` tokens with six query heads a KV head."""
    return -(-width * 6 // 16)


FAMILY = RouteFamily(
    name="attn_i8_small",
    group=Group.ATTENTION,
    source="attn_i8_small",
    routes=tuple(
        Route(
            key=RouteKey(f"attn_i8_small/h24/{coding}/w{width}"),
            order=28 + 8 * place + width - 1,
            widths=WINDOWS,
            candidates=TIERS[row_tiles(width)],
            compiled=compiled_tier(width),
            stretch={262144: 1048576},
            operation=SmallT(coding=coding, tokens=width),
        )
        for place, coding in enumerate(CODINGS)
        for width in QUERY_WIDTHS
    ),
)
