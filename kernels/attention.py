"""Operations behind the attention keys: cache operands, tiers, launches of one small-T call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from ninfer_device_profiles import sizes

from generator.core.route import (
    COMPILED,
    I32,
    Ask,
    Buf,
    DeviceFacts,
    Expected,
    Given,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Poison,
    RouteKey,
    Uniform,
    Words,
)
from kernels.reference.attention import GROUP, QUERY_HEADS, attend, read_head
from kernels.reference.kv import CODINGS, DIMS, KV_HEADS, PAGE_TOKENS
from kernels.tiers import compiled_tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

WINDOW = 262144
"""Tokens of the cache: the largest measured envelope."""

PAGES = WINDOW // PAGE_TOKENS

PV_F16 = RouteKey("attn_pv_f16")

_KEY_SCALES = {
    "int8": (0.01, 0.02),
    "rk8v4": (0.01, 0.02),
    "rk4v4": (0.01, 0.02),
    "rk4v4-e8": (0.15, 0.3),
    "rk2v4-e8": (0.15, 0.3),
}
"""Ranges of key scales: about the engine's 1/64 for 8-bit codes; more for codes of few bits, so that scores spread."""

_VALUE_SCALES = (0.01, 0.02)
_QUERY_RANGE = 6.0
ROW = QUERY_HEADS * DIMS
"""Elements of q or out per token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """A small-T tier string ``<warps>x<CTAs per SM>x<key block>`` with ``d``, ``q``, ``e`` (engine-kernels 7.4.4)."""

    warps: int
    ctas: int
    block: int
    dynamic: bool
    split_qk: bool
    early: bool

    @classmethod
    def parse(cls, text: str) -> Tier:
        """Return the tier that ``text`` names.

        Raises:
            ValueError: ``text`` is not a tier.
        """
        match = re.fullmatch(r"(\d+)x(\d)x(\d+)(d?)(q?)(e?)", text)
        if match is None:
            raise ValueError(f"attention tier {text!r}: expected <warps>x<CTAs per SM>x<key block>[d][q][e]")
        warps, ctas, block = (int(part) for part in match.groups()[:3])
        dynamic, split_qk, early = (bool(part) for part in match.groups()[3:])
        return cls(warps=warps, ctas=ctas, block=block, dynamic=dynamic or split_qk, split_qk=split_qk, early=early)

    def shared_bytes(self, row_tiles: int, coding: str) -> int:
        """Return the bytes of the CTA's arena.

        One row tile: the map of ``attn_split.cuh``, more: that of ``attn_tile.cuh``.
        """
        rows, item = 16 * row_tiles, CODINGS[coding]
        queries, products, peers = rows * DIMS, rows * self.block * 2, rows * 8 if self.split_qk else 0
        if row_tiles == 1:
            keys = self.block * (DIMS + 2 * 4) + products + rows * 4
            values = self.block * (item.value_bytes + 2 * item.value_scales)
            tables = 128 + 1024 if coding == "rk2v4-e8" else 0
            return 2 * keys + 3 * values + queries + rows * 16 + peers + tables
        return queries + self.block * 4 * DIMS + products + rows * 4 + self.block * (8 + 16) + peers


def cpp(*, flag: bool) -> str:
    """Return ``flag`` as C++ spells it."""
    return "true" if flag else "false"


def coding_name(coding: str) -> str:
    """Return the C++ name of ``coding``."""
    return f"kv::{coding.replace('-', '_')}"


def cache_operands(coding: str, window: int = WINDOW) -> tuple[Operand, ...]:
    """Return the planes of one layer's cache of ``coding``, and the identity page table."""
    item = CODINGS[coding]
    pages = -(-window // PAGE_TOKENS)
    plane = (pages, KV_HEADS, PAGE_TOKENS)
    low, high = _KEY_SCALES[coding]
    return (
        Operand(name=f"{coding}_key_codes", dtype="u8", shape=(*plane, item.key_bytes), fill=Words(seed=0x1234)),
        Operand(
            name=f"{coding}_key_scales", dtype="f16", shape=(*plane, 4), fill=Uniform(seed=0x1235, low=low, high=high)
        ),
        Operand(name=f"{coding}_value_codes", dtype="u8", shape=(*plane, item.value_bytes), fill=Words(seed=0x5678)),
        Operand(
            name=f"{coding}_value_scales",
            dtype="f16",
            shape=(*plane, item.value_scales),
            fill=Uniform(seed=0x5679, low=_VALUE_SCALES[0], high=_VALUE_SCALES[1]),
        ),
        Operand(name="pages", dtype="i32", shape=(pages,), fill=Given(make=lambda: np.arange(pages, dtype=np.int32))),
    )


def query_operand(tokens: int) -> Operand:
    """Return the query rows of ``tokens`` tokens."""
    return Operand(
        name="q",
        dtype="bf16",
        shape=(tokens, QUERY_HEADS, DIMS),
        fill=Uniform(seed=0xA77, low=-_QUERY_RANGE, high=_QUERY_RANGE),
    )


def output_operand(name: str, tokens: int) -> Operand:
    """Return an output of ``tokens`` tokens."""
    return Operand(name=name, dtype="bf16", shape=(tokens, QUERY_HEADS, DIMS), fill=Poison())


def partial_operands(rows: int) -> tuple[Operand, ...]:
    """Return the partial sums of ``rows`` (token, split) pairs."""
    return (
        Operand(name="acc", dtype="f32", shape=(rows, QUERY_HEADS, DIMS), fill=Poison()),
        Operand(name="m", dtype="f32", shape=(rows, QUERY_HEADS), fill=Poison()),
        Operand(name="l", dtype="f32", shape=(rows, QUERY_HEADS), fill=Poison()),
    )


def cache_arguments(coding: str) -> tuple[Buf, ...]:
    """Return the cache pointers in the kernels' order."""
    planes = ("key_codes", "key_scales", "value_codes", "value_scales")
    return (*(Buf(f"{coding}_{plane}") for plane in planes), Buf("pages"))


def upload_positions(first: int, count: int) -> Launch:
    """Return the launch that stands for the engine's upload of the positions of one call."""
    return Launch(
        source="attn_i8_small",
        kernel="attn_i8_small_positions",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        args=(Buf("positions"), I32(first), I32(count)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallCall:
    """One small-T call: ``tokens`` columns of each of ``batch`` rows, planned for windows up to ``envelope``."""

    coding: str
    tokens: int
    envelope: int
    out: str
    first_token: int = 0
    batch: int = 1
    positions: str = "positions"

    def launches(self, ask: Ask, device: DeviceFacts) -> tuple[Launch, Launch]:
        """Return main and reduce under the tier and the ``attn_pv_f16`` that ``ask`` answers."""
        key = RouteKey(f"attn_i8_small/h24/{self.coding}/w{self.tokens}")
        routed = ask(key, self.envelope)
        name = routed if routed != COMPILED else compiled_tier(self.tokens).at(self.envelope)
        tier = Tier.parse(name)
        wave, splits = self.splits(name, device)
        row_tiles = -(-self.tokens * GROUP // 16)
        values = (
            coding_name(self.coding),
            str(row_tiles),
            str(tier.warps),
            str(tier.ctas),
            str(tier.block),
            "2" if tier.split_qk else "1",
            cpp(flag=tier.early),
            cpp(flag=tier.dynamic),
            cpp(flag=ask(PV_F16, 1) == "on"),
        )
        where = self.first_token
        partials = (Buf("acc"), Buf("m"), Buf("l"))
        main = Launch(
            source="attn_i8_small",
            kernel=f"attn_i8_small<{', '.join(values)}>",
            grid=(KV_HEADS, splits, self.batch),
            block=(32 * tier.warps, 1, 1),
            shared_bytes=tier.shared_bytes(row_tiles, self.coding) if tier.dynamic else 0,
            args=(
                Buf("q", where * ROW),
                *cache_arguments(self.coding),
                Buf(self.positions, where),
                *partials,
                I32(self.tokens),
                I32(wave),
            ),
        )
        reduce = Launch(
            source="attn_i8_small",
            kernel="attn_i8_small_reduce",
            grid=(QUERY_HEADS, 1, self.tokens * self.batch),
            block=(DIMS, 1, 1),
            args=(
                *partials,
                Buf(self.positions, where),
                Buf(self.out, where * ROW),
                I32(self.tokens),
                I32(wave),
                I32(splits),
            ),
            dependent=True,
        )
        return main, reduce

    def splits(self, tier: str, device: DeviceFacts) -> tuple[int, int]:
        """Return the whole wave (0: no such rule) and the grid's split count (engine-kernels 7.4.6)."""
        if self.batch > 1:
            count = sizes.batch_splits(
                batch=self.batch,
                width=self.tokens,
                window=self.envelope,
                sms=device.multiprocessors,
                kv_storage=self.coding,
            )
            return 0, count
        wave = sizes.small_t_wave(
            sms=device.multiprocessors, width=self.tokens, captured_window=self.envelope, tier=tier
        )
        capacity = sizes.small_t_capacity(high=self.envelope, width=self.tokens, kv_storage=self.coding, wave=wave)
        return wave, capacity


def cache_bytes(coding: str, depth: int) -> int:
    """Return the bytes of the cache that ``depth`` visible tokens occupy, all KV heads."""
    return depth * KV_HEADS * CODINGS[coding].row_bytes


def expect_rows(
    host: HostOperands, coding: str, head: int, rows: tuple[tuple[int, int], ...], group: int = 0
) -> Expected:
    """Return what query head ``KV head x 6 + group`` must give for ``rows``: (token, visible keys) pairs."""
    keys, values = read_head(host, coding, head, max(count for _, count in rows))
    query_head = head * GROUP + group
    starts = [(token * QUERY_HEADS + query_head) * DIMS for token, _ in rows]
    queries: NDArray[Any] = np.stack([host("q", start, DIMS) for start in starts])
    out = attend(queries, [count for _, count in rows], keys, values)
    indices = np.concatenate([np.arange(start, start + DIMS, dtype=np.int64) for start in starts])
    return Expected(indices=indices, values=out.reshape(-1))


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallT:
    """``attn_i8_small/h24/<coding>/w<tokens>``: attend at the envelope, then at a sixteenth of it.

    Both calls are planned with the envelope as capacity. The engine compares the second; the first is compared too.
    """

    coding: str
    tokens: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The cache at its largest window, eight query tokens, partials of 85 splits: the same for all widths."""
        return (
            *cache_operands(self.coding),
            query_operand(8),
            Operand(name="positions", dtype="i32", shape=(32,), fill=Poison()),
            *partial_operands(8 * sizes.SPLIT_LIMIT),
            output_operand("out_shallow", 8),
            output_operand("out_full", 8),
        )

    def depths(self, envelope: int) -> tuple[int, int]:
        """Return the visible keys of the two calls."""
        return envelope, max(self.tokens + 1, envelope // 16)

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the shallow call's columns, then the full call's."""
        del width
        return Plane("out_shallow", self.tokens * ROW), Plane("out_full", self.tokens * ROW)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return no plane: nothing is changed in place."""
        del width
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return upload, main and reduce of each depth; ``width`` is the envelope."""
        launches: list[Launch] = []
        for depth, out in zip(self.depths(width), ("out_full", "out_shallow"), strict=True):
            call = SmallCall(coding=self.coding, tokens=self.tokens, envelope=width, out=out)
            launches += [upload_positions(depth - self.tokens, self.tokens), *call.launches(ask, device)]
        return tuple(launches)

    def floor_bytes(self, width: int) -> int:
        """Return the visible cache, query and output of both calls; partial sums can stay in the L2."""
        return sum(cache_bytes(self.coding, depth) + 2 * 2 * self.tokens * ROW for depth in self.depths(width))

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return one query head of the first and last token of the shallow call."""
        depth = self.depths(width)[1]
        rows = tuple((token, depth - self.tokens + token + 1) for token in sorted({0, self.tokens - 1}))
        return {"out_shallow": expect_rows(host, self.coding, 1, rows, group=self.tokens % GROUP)}
