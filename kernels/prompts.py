"""Operations behind the four attention switches: prompt chunks, verification of wide rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles import sizes

from generator.core.route import (
    I32,
    Ask,
    Buf,
    DeviceFacts,
    Expected,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Poison,
    RouteKey,
)
from kernels.attention import (
    PV_F16,
    ROW,
    SmallCall,
    cache_arguments,
    cache_bytes,
    cache_operands,
    coding_name,
    cpp,
    expect_rows,
    output_operand,
    partial_operands,
    query_operand,
    upload_positions,
)
from kernels.reference.attention import GROUP, QUERY_HEADS
from kernels.reference.kv import CODINGS, DIMS, KV_HEADS, PAGE_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

PACK_GQA = RouteKey("attn_pack_gqa")
PROMPT_FAST = RouteKey("attn_prompt_fast")
PARALLEL_TILES = RouteKey("attn_parallel_tiles")

CODING = "rk8v4"
"""The coding with which the switches are measured."""

ENVELOPE = 262144
"""Largest window the measured calls are planned for."""

CHUNK = 1024
"""Requested prompt chunk, in tokens."""

LEAST_CHUNK = 512
"""Fewest tokens of a wave-aligned chunk from `CHUNK`, on any device."""

DEPTHS = (32768, 131072)
"""Visible keys at the end of a call, shallow and deep."""

VERIFY = (16, 32)
"""Columns of the verification calls."""

_PV_F16_PROMPT = ("rk8v4", "rk4v4", "rk4v4-e8")
"""Codings whose standard prompt kernel heeds ``attn_pv_f16`` (engine-kernels 7.5)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptCall:
    """One prompt chunk of ``tokens`` tokens whose first position is in the operand ``positions``."""

    coding: str
    tokens: int
    out: str

    def launch(self, ask: Ask, device: DeviceFacts) -> Launch:
        """Return the prompt kernel that the switches in force choose."""
        if ask(PROMPT_FAST, 1) == "on":
            return self.fast(
                sizes.fast_kernel_warps(tokens=self.tokens, query_heads=QUERY_HEADS, sms=device.multiprocessors)
            )
        pv_f16 = self.coding in _PV_F16_PROMPT and ask(PV_F16, 1) == "on"
        return self.standard(pack=ask(PACK_GQA, 1) == "on", pv_f16=pv_f16)

    def standard(self, *, pack: bool, pv_f16: bool) -> Launch:
        """Return the standard kernel; ``pack`` puts the six heads of a KV head into one tile."""
        rows, heads = (self.tokens * GROUP, KV_HEADS) if pack else (self.tokens, QUERY_HEADS)
        block = 64
        queries, codes, products, statistics = block * 256, PAGE_TOKENS * 4 * 256, block * PAGE_TOKENS * 2, block * 4
        return Launch(
            source="attn_prompt",
            kernel=f"attn_prompt<{coding_name(self.coding)}, {cpp(flag=pack)}, {cpp(flag=pv_f16)}>",
            grid=(-(-rows // block), heads, 1),
            block=(512, 1, 1),
            shared_bytes=queries + codes + products + statistics + PAGE_TOKENS * (8 + 16),
            args=self._arguments(),
        )

    def fast(self, warps: int) -> Launch:
        """Return the fast kernel in its 4- or 8-warp form."""
        item = CODINGS[self.coding]
        rows = 16 * warps
        return Launch(
            source="attn_prompt_fast",
            kernel=f"attn_prompt_fast<{coding_name(self.coding)}, {warps}>",
            grid=(QUERY_HEADS, -(-self.tokens // rows), 1),
            block=(32 * warps, 1, 1),
            shared_bytes=rows * DIMS + 2 * PAGE_TOKENS * item.row_bytes,
            args=self._arguments(),
        )

    def _arguments(self) -> tuple[Buf | I32, ...]:
        return Buf("q"), *cache_arguments(self.coding), Buf("positions"), Buf(self.out), I32(self.tokens)


def _positions(count: int) -> Operand:
    return Operand(name="positions", dtype="i32", shape=(count,), fill=Poison())


def _chunk(depth: int, tokens: int, out: str, ask: Ask, device: DeviceFacts) -> tuple[Launch, Launch]:
    call = PromptCall(coding=CODING, tokens=tokens, out=out)
    return upload_positions(depth - tokens, tokens), call.launch(ask, device)


def _chunk_bytes(depth: int) -> int:
    return cache_bytes(CODING, depth) + 2 * 2 * CHUNK * ROW


def _chunk_rows(depth: int) -> tuple[tuple[int, int], ...]:
    return tuple((token, depth - CHUNK + token + 1) for token in (0, CHUNK - 1))


def tile_metadata(tiles: int, tokens: int) -> Launch:
    """Return the launch that makes the positions of ``tiles`` batch rows of those of one wide row."""
    return Launch(
        source="attn_parallel_tiles",
        kernel="attn_parallel_tiles",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        args=(Buf("positions"), Buf("tile_positions"), I32(tiles), I32(tokens)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PvF16:
    """``attn_pv_f16``: a prompt chunk at the shallow depth, then one decoded token at the deep one."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Return the cache, the chunk's queries, partials of 85 splits and both outputs."""
        return (
            *cache_operands(CODING),
            query_operand(CHUNK),
            _positions(CHUNK),
            *partial_operands(sizes.SPLIT_LIMIT),
            output_operand("out_decode", 1),
            output_operand("out_prompt", CHUNK),
        )

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the decoded token, which the engine compares, then the chunk."""
        del width
        return Plane("out_decode", ROW), Plane("out_prompt", CHUNK * ROW)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return no plane: nothing is changed in place."""
        del width
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return upload and prompt kernel, then upload, main and reduce."""
        del width
        decode = SmallCall(coding=CODING, tokens=1, envelope=ENVELOPE, out="out_decode")
        return (
            *_chunk(DEPTHS[0], CHUNK, "out_prompt", ask, device),
            upload_positions(DEPTHS[1] - 1, 1),
            *decode.launches(ask, device),
        )

    def floor_bytes(self, width: int) -> int:
        """Return the visible cache, queries and outputs of both calls; the chunk is bound by arithmetic instead."""
        del width
        return _chunk_bytes(DEPTHS[0]) + cache_bytes(CODING, DEPTHS[1]) + 2 * 2 * ROW

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return one query head of the chunk's first and last token."""
        del width
        return {"out_prompt": expect_rows(host, CODING, 1, _chunk_rows(DEPTHS[0]))}


@dataclass(frozen=True, kw_only=True, slots=True)
class PackGqa:
    """``attn_pack_gqa``: a prompt chunk at the shallow, then at the deep depth."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Return the cache, the chunk's queries and both outputs."""
        outs = output_operand("out_deep", CHUNK), output_operand("out_shallow", CHUNK)
        return *cache_operands(CODING), query_operand(CHUNK), _positions(CHUNK), *outs

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the deep chunk (the engine compares its first column), then the shallow one."""
        del width
        return Plane("out_deep", CHUNK * ROW), Plane("out_shallow", CHUNK * ROW)

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return no plane: nothing is changed in place."""
        del width
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return upload and prompt kernel of each depth."""
        del width
        shallow, deep = DEPTHS
        return (
            *_chunk(shallow, CHUNK, "out_shallow", ask, device),
            *_chunk(deep, CHUNK, "out_deep", ask, device),
        )

    def floor_bytes(self, width: int) -> int:
        """Return the visible cache, queries and outputs of both calls; chunks are bound by arithmetic instead."""
        del width
        return sum(_chunk_bytes(depth) for depth in DEPTHS)

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return one query head of the shallow chunk's first and last token."""
        del width
        return {"out_shallow": expect_rows(host, CODING, 1, _chunk_rows(DEPTHS[0]))}


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptFast:
    """``attn_prompt_fast``: a chunk aligned to whole waves of the fast kernel, shallow then deep.

    How many tokens that is depends on the device (`LEAST_CHUNK` to `CHUNK` + 256), so outputs compare the columns that
    every device has, and there is no reference: what a column sees follows from the chunk.
    """

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Return the cache, the queries of the longest aligned chunk and both outputs."""
        most = CHUNK + sizes.CHUNK_REACH
        outs = output_operand("out_deep", most), output_operand("out_shallow", most)
        return *cache_operands(CODING), query_operand(most), _positions(most), *outs

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return the deep chunk's columns (the engine compares the first), then the shallow one's."""
        del width
        return tuple(Plane(name, LEAST_CHUNK * ROW, open_ended=True) for name in ("out_deep", "out_shallow"))

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return no plane: nothing is changed in place."""
        del width
        return ()

    def chunk(self, device: DeviceFacts) -> int:
        """Return the tokens of the aligned chunk, for both kernels the one of the fast kernel."""
        return sizes.aligned_prefill_chunk(
            requested=CHUNK,
            max_context=ENVELOPE,
            sms=device.multiprocessors,
            query_heads=QUERY_HEADS,
            fast_kernel=True,
            kv_storage=CODING,
        )

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return upload and prompt kernel of each depth."""
        del width
        tokens = self.chunk(device)
        shallow, deep = DEPTHS
        return (
            *_chunk(shallow, tokens, "out_shallow", ask, device),
            *_chunk(deep, tokens, "out_deep", ask, device),
        )

    def floor_bytes(self, width: int) -> int:
        """Return the bytes of chunks of `CHUNK` tokens; prompt chunks are bound by arithmetic instead."""
        del width
        return sum(_chunk_bytes(depth) for depth in DEPTHS)

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return nothing: see the class."""
        del width, host
        return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelTiles:
    """``attn_parallel_tiles``: verification of 16 and 32 columns at each depth, serial chunks or parallel tiles."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Return the cache, 32 query tokens, partials of the larger route and an output a call."""
        widest = VERIFY[-1]
        return (
            *cache_operands(CODING),
            query_operand(widest),
            _positions(widest),
            Operand(name="tile_positions", dtype="i32", shape=(widest,), fill=Poison()),
            *partial_operands(widest * sizes.SPLIT_LIMIT),
            *(output_operand(name, columns) for name, columns, _ in self._calls()),
        )

    @staticmethod
    def _calls() -> tuple[tuple[str, int, int], ...]:
        """Return (output, columns, depth) of each call, the last one first, as outputs are compared."""
        return tuple((f"out_{depth}_{columns}", columns, depth) for depth in DEPTHS[::-1] for columns in VERIFY[::-1])

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """Return all columns of each call, the last call first: that one the engine compares."""
        del width
        return tuple(Plane(name, columns * ROW) for name, columns, _ in self._calls())

    def restored(self, width: int) -> tuple[Plane, ...]:
        """Return no plane: nothing is changed in place."""
        del width
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return the four calls in order."""
        del width
        launches: list[Launch] = []
        for name, columns, depth in self._calls()[::-1]:
            launches.append(upload_positions(depth - columns, columns))
            tile = sizes.parallel_tile(width=columns) if ask(PARALLEL_TILES, 1) == "on" else None
            if tile is None:
                for first in range(0, columns, 8):
                    part = SmallCall(coding=CODING, tokens=8, envelope=ENVELOPE, out=name, first_token=first)
                    launches += part.launches(ask, device)
                continue
            tiles = columns // tile
            batch = SmallCall(
                coding=CODING, tokens=tile, envelope=ENVELOPE, out=name, batch=tiles, positions="tile_positions"
            )
            launches += [tile_metadata(tiles, tile), *batch.launches(ask, device)]
        return tuple(launches)

    def floor_bytes(self, width: int) -> int:
        """Return the visible cache, queries and outputs of the four calls: serial chunks read the cache more often."""
        del width
        return sum(cache_bytes(CODING, depth) + 2 * 2 * columns * ROW for _, columns, depth in self._calls())

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return one query head of the first and last column of the widest shallow call."""
        del width
        depth, columns = DEPTHS[0], VERIFY[-1]
        rows = tuple((token, depth - columns + token + 1) for token in (0, columns - 1))
        return {f"out_{depth}_{columns}": expect_rows(host, CODING, 1, rows)}
