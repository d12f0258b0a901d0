"""Ternary projections: shapes, operands, reference, and the launches of both routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from generator.core.route import (
    COMPILED,
    I32,
    Arg,
    Ask,
    Buf,
    CompiledTable,
    DeviceFacts,
    Expected,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Poison,
    RouteKey,
    Uniform,
    Words,
)
from kernels.projection import Parent, Part, Projection, expect, sampled_rows
from kernels.reference.formats import T2, decode, layout
from kernels.reference.ternary import project, quantise_small, quantise_tile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SPAN = 32
"""Most columns of one small-T launch."""

SMALL_COLUMNS = 192
"""Column capacity of the small-T route's activation scales."""

TILE_ROWS, TILE_COLUMNS = 128, 64

OVERLAPPED_CTAS = 3
"""Least CTAs a multiprocessor of a projection that begins while the kernel before it runs.

Fewer would be packed onto the multiprocessors that the kernel before leaves free: on an H200 (2026-11-30) 160 CTAs of
``t2_i8_small/5120x17408`` at 16 columns took 38.9 microseconds in place of 26.7.
"""


def _whole(plane: str, rows: int) -> tuple[Part, ...]:
    return (Part(rows=rows, plane=plane, stride=rows),)


GDN_PAIR = Projection(
    name="gdn",
    k=5120,
    parents=(
        Parent(name="qk", parts=(Part(rows=4096, plane="qkv", stride=10240),)),
        Parent(
            name="vz",
            parts=(
                Part(rows=6144, plane="qkv", stride=10240, first=4096),
                Part(rows=6144, plane="z", stride=6144),
            ),
        ),
    ),
)
ATTN_PAIR = Projection(
    name="attn",
    k=5120,
    parents=(
        Parent(
            name="qk",
            parts=(Part(rows=6144, plane="q", stride=6144), Part(rows=1024, plane="k", stride=1024)),
        ),
        Parent(
            name="gv",
            parts=(Part(rows=6144, plane="gate", stride=6144), Part(rows=1024, plane="v", stride=1024)),
        ),
    ),
)
OUT_ADD = Projection(name="out", k=6144, parents=(Parent(name="w", parts=_whole("residual", 5120)),), add=True)
GATE_UP = Projection(name="gate_up", k=5120, parents=(Parent(name="w", parts=_whole("gate_up", 34816)),))
DOWN_ADD = Projection(name="down", k=17408, parents=(Parent(name="w", parts=_whole("down", 5120)),), add=True)
HEAD = Projection(name="head", k=5120, parents=(Parent(name="w", parts=_whole("logits", 248320)),))

SMALL_KEYS = {
    RouteKey("t2_i8_small/4096+12288x5120"): GDN_PAIR,
    RouteKey("t2_i8_small/7168+7168x5120"): ATTN_PAIR,
    RouteKey("t2_i8_small/5120x6144"): OUT_ADD,
    RouteKey("t2_i8_small/34816x5120"): GATE_UP,
    RouteKey("t2_i8_small/5120x17408"): DOWN_ADD,
    RouteKey("t2_i8_small/248320x5120"): HEAD,
}
"""Keys of the small-T kernel in the engine's measuring order."""


@dataclass(frozen=True, slots=True)
class SmallTile:
    """Template arguments of one small-T schedule, in the kernel's order (engine-kernels 6.1)."""

    k_warps: int
    tiles_per_warp: int
    column_tiles: int
    stages: int
    least_ctas: int
    words: int

    @property
    def rows(self) -> int:
        """Weight rows a CTA."""
        return 16 * (8 // self.k_warps) * self.tiles_per_warp

    @property
    def columns(self) -> int:
        """Most columns a launch."""
        return 8 * self.column_tiles

    @property
    def kernel(self) -> str:
        """C++ name expression."""
        arguments = (self.k_warps, self.tiles_per_warp, self.column_tiles, self.stages, self.least_ctas, self.words)
        return f"t2_i8_small<{', '.join(map(str, arguments))}>"


SMALL_TILES = {
    "r16c8": SmallTile(8, 1, 1, 2, 4, 2),
    "r16c16": SmallTile(8, 1, 2, 2, 4, 2),
    "r32c32": SmallTile(4, 1, 4, 2, 3, 2),
    "r16c8w1": SmallTile(8, 1, 1, 2, 4, 1),
    "r16c8s3": SmallTile(8, 1, 1, 3, 4, 2),
    "r32c8": SmallTile(8, 2, 1, 2, 4, 2),
    "r32c8k4": SmallTile(4, 1, 1, 2, 4, 2),
    "r16c16w1": SmallTile(8, 1, 2, 2, 4, 1),
    "r32c16": SmallTile(4, 1, 2, 2, 4, 2),
    "r16c32": SmallTile(8, 1, 4, 2, 3, 2),
    "r32c16k8": SmallTile(8, 2, 2, 2, 4, 2),
}
"""Schedules in catalog order."""

SMALL_COMPILED = CompiledTable(default=((8, "r16c8"), (16, "r16c16"), (32, "r32c32")))
ROUTE_KEY = RouteKey("t2_i8_route")
ROUTE_COMPILED = CompiledTable(default=((64, "small"), (None, "tile")))


def operands(projection: Projection, widest: int, *, tile: bool) -> tuple[Operand, ...]:
    """Return the buffers of ``projection``, prefixed with its name; ``tile`` adds the tile route's scratch."""
    name, k = projection.name, projection.k
    seed = 0x5EED + k + sum(parent.rows for parent in projection.parents)
    result = [
        Operand(name=f"{name}.x", dtype="bf16", shape=(widest, k), fill=Uniform(seed=seed, low=-1.0, high=1.0)),
        Operand(name=f"{name}.small_codes", dtype="i8", shape=(k // 64, SMALL_COLUMNS, 64), fill=Poison()),
        Operand(name=f"{name}.small_scales", dtype="f16", shape=(k // 128, SMALL_COLUMNS, 2), fill=Poison()),
    ]
    if tile:
        padded = _padded(widest)
        result += [
            Operand(name=f"{name}.tile_codes", dtype="i8", shape=(padded, k), fill=Poison()),
            Operand(name=f"{name}.tile_scales", dtype="f16", shape=(k // 128, padded), fill=Poison()),
        ]
    for place, parent in enumerate(projection.parents):
        shape = (parent.rows, k // 128)
        scales = Uniform(seed=seed + 0x200 + place, low=-0.02, high=0.02)
        result += [
            Operand(
                name=f"{name}.{parent.name}.codes",
                dtype="u8",
                shape=(*shape, 32),
                fill=Words(seed=seed + 0x100 + place),
            ),
            Operand(name=f"{name}.{parent.name}.scales", dtype="f16", shape=shape, fill=scales),
        ]
    out = Uniform(seed=seed + 0x300, low=-1.0, high=1.0) if projection.add else Poison()
    result += [
        Operand(name=f"{name}.{plane}", dtype="bf16", shape=(widest, stride), fill=out)
        for plane, stride in projection.planes.items()
    ]
    return tuple(result)


def outputs(projection: Projection, width: int) -> tuple[Plane, ...]:
    """Return the output planes of ``projection`` under their operand names."""
    return tuple(Plane(f"{projection.name}.{plane.name}", plane.elements) for plane in projection.outputs(width))


def floor_bytes(projection: Projection, width: int) -> int:
    """Return the least bytes of one projection: packed weights, activations in, outputs out."""
    weights = sum(layout(T2, parent.rows, projection.k).packed_bytes for parent in projection.parents)
    return weights + projection.activation_bytes(width)


def small_launches(
    key: RouteKey, projection: Projection, width: int, ask: Ask, device: DeviceFacts
) -> tuple[Launch, ...]:
    """Return one quantisation and one projection a span of at most 32 columns; each span asks ``key`` for itself."""
    name, k = projection.name, projection.k
    quantise = Launch(
        source="t2_i8_small",
        kernel="t2_a8_small",
        grid=(-(-k // 512), -(-width // 8) * 8, 1),
        block=(256, 1, 1),
        args=(Buf(f"{name}.x"), Buf(f"{name}.small_codes"), Buf(f"{name}.small_scales"), I32(k), I32(width)),
    )
    spans = ((start, min(SPAN, width - start)) for start in range(0, width, SPAN))
    return (
        quantise,
        *(
            _small_span(projection, start, live, small_tile(ask(key, live), live, device.capability), device)
            for start, live in spans
        ),
    )


def small_tile(schedule: str, live: int, capability: int) -> SmallTile:
    """Return the tile of ``schedule``, or the compiled one where it is empty, unknown or too narrow for ``live``."""
    tile = SMALL_TILES.get(schedule)
    if tile is not None and live <= tile.columns:
        return tile
    return SMALL_TILES[SMALL_COMPILED.at(live, capability)]


def _small_span(projection: Projection, start: int, live: int, tile: SmallTile, device: DeviceFacts) -> Launch:
    name, k = projection.name, projection.k
    first, last = projection.parents[0], projection.parents[-1]
    weights = tuple(Buf(f"{name}.{parent.name}.{plane}") for parent in (first, last) for plane in ("codes", "scales"))
    targets = tuple(part for parent in (first, last) for part in (parent.parts[0], parent.parts[-1]))
    ctas = sum(parent.rows for parent in projection.parents) // tile.rows
    return Launch(
        source="t2_i8_small",
        kernel=tile.kernel,
        grid=(ctas, 1, 1),
        block=(256, 1, 1),
        args=(
            *weights,
            Buf(f"{name}.small_codes", start * 64),
            Buf(f"{name}.small_scales", start * 2),
            *(_target(projection, part, start) for part in targets),
            I32(k),
            I32(first.rows),
            *(I32(parent.parts[0].rows) for parent in (first, last)),
            *(I32(part.stride) for part in targets),
            I32(live),
            I32(int(projection.add)),
        ),
        dependent=ctas >= OVERLAPPED_CTAS * device.multiprocessors,
    )


def tile_launches(projection: Projection, width: int) -> tuple[Launch, ...]:
    """Return one quantisation and one projection a parent."""
    name, k, padded = projection.name, projection.k, _padded(width)
    quantised: tuple[Arg, ...] = (Buf(f"{name}.tile_codes"), Buf(f"{name}.tile_scales"))
    quantise = Launch(
        source="t2_i8_route",
        kernel="t2_a8_tile",
        grid=(padded, 1, 1),
        block=(256, 1, 1),
        args=(Buf(f"{name}.x"), *quantised, I32(k), I32(width), I32(padded)),
    )
    projections = (
        Launch(
            source="t2_i8_route",
            kernel="t2_i8_route",
            grid=(padded // TILE_COLUMNS, parent.rows // TILE_ROWS, 1),
            block=(128, 1, 1),
            args=(
                Buf(f"{name}.{parent.name}.codes"),
                Buf(f"{name}.{parent.name}.scales"),
                *quantised,
                *(_target(projection, part, 0) for part in (parent.parts[0], parent.parts[-1])),
                I32(k),
                I32(parent.parts[0].rows),
                *(I32(part.stride) for part in (parent.parts[0], parent.parts[-1])),
                I32(width),
                I32(padded),
                I32(int(projection.add)),
            ),
        )
        for parent in projection.parents
    )
    return (quantise, *projections)


def _target(projection: Projection, part: Part, token: int) -> Buf:
    at = part.at(token)
    return Buf(f"{projection.name}.{at.name}", at.offset)


def _padded(width: int) -> int:
    return -(-width // TILE_COLUMNS) * TILE_COLUMNS


def takes_tile(width: int, ask: Ask, device: DeviceFacts) -> bool:
    """Return whether ``t2_i8_route`` sends ``width`` columns to the tile kernel; small is legal to 192 columns."""
    schedule = ask(ROUTE_KEY, width)
    if schedule == COMPILED or (schedule == "small" and width > SMALL_COLUMNS):
        return ROUTE_COMPILED.at(width, device.capability) == "tile"
    return schedule == "tile"


def reference(projection: Projection, width: int, host: HostOperands, *, tile: bool) -> Mapping[str, Expected]:
    """Return what the sampled rows of each output plane must hold, quantised as the small or the tile route does."""
    name, k = projection.name, projection.k
    x = host(f"{name}.x", 0, width * k).reshape(width, k)
    x_codes, x_scales = quantise_tile(x) if tile else quantise_small(x)
    result = []
    for place, parent in enumerate(projection.parents):
        first = 0
        for part in parent.parts:
            rows = sampled_rows(part, TILE_ROWS, seed=place)
            weights, scales = _rows(host, f"{name}.{parent.name}", first + rows, k // 128)
            value = project(weights, scales, x_codes, x_scales)
            if projection.add:
                residual = host(f"{name}.{part.plane}", 0, width * part.stride).reshape(width, part.stride)
                value += residual[:, part.first + rows].astype(np.float64)
            result.append((part, rows, value))
            first += part.rows
    return {f"{name}.{plane}": value for plane, value in expect(result).items()}


def _rows(
    host: HostOperands, weight: str, rows: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    codes = [host(f"{weight}.codes", int(row) * groups * 32, groups * 32) for row in rows]
    scales = [host(f"{weight}.scales", int(row) * groups, groups) for row in rows]
    return decode(T2, np.concatenate(codes)).reshape(len(rows), groups * 128), np.stack(scales)
