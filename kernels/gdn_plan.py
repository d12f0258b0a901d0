"""What runs behind ``gdn_two_stage/*``: buffers, the launches of both routes, and sampled reference values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from ninfer_device_profiles.sizes import gdn_output_grid

from generator.core.route import (
    F32,
    I32,
    Buf,
    DeviceFacts,
    Expected,
    HostOperands,
    Launch,
    Operand,
    Plane,
    Poison,
    RouteKey,
    Uniform,
)
from kernels.reference.gdn import gated_delta_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.route import Ask

DIM = 128
"""Key dims and value dims of a head."""

QK_HEADS = 16
SCALE = 1 / math.sqrt(DIM)

SMALL_CHUNK = 16
"""Tokens of a chunk of the two-stage prefill; fewer tokens never take it."""

CHUNK = 64
"""Tokens of a chunk of the WY pipeline."""

PACKET = 576
"""FP32 values of a control packet: 2304 bytes."""

DV_COSTS = ((64, 34), (32, 20), (16, 13))
"""Value dims of a CTA and what one wave of such CTAs costs (engine-kernels 8.3)."""

OUTPUT_CTAS_PER_SM = 4
"""Resident CTAs of the output kernel that its grid aims at (engine-profiles 6.2)."""

_FIRST_BF16_CAPABILITY = 80
_SCHEDULERS = 4
_SAMPLED_TOKENS = 96
_FORGET_TOKENS = 512
"""With g between -0.2 and -0.001, a state of so many tokens ago weighs e^-50 of its size or less."""


def value_dims(heads: int, multiprocessors: int) -> int:
    """Return the value dims of one CTA of the recurrence: fewest waves times cost, the wider on a tie.

    Spec: engine-kernels 8.3, "DV".
    """
    if heads * (DIM // 8) <= multiprocessors:
        return 8
    return min(DV_COSTS, key=lambda item: -(-heads * (DIM // item[0]) // multiprocessors) * item[1])[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class GdnPrefill:
    """Prefill of one layer: 16 query/key heads, ``heads`` value heads, q/k normalisation, initial and final state.

    ``widest`` is the largest number of tokens; buffers are sized for it.
    """

    key: RouteKey
    heads: int
    widest: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, outputs, scratch of the pipeline, scratch of the two stages."""
        heads, tokens = self.heads, self.widest
        chunks, small = tokens // CHUNK, -(-tokens // SMALL_CHUNK)
        state, poison = (heads, DIM, DIM), Poison()
        rows = (heads, chunks, CHUNK, DIM)
        return (
            Operand(name="q", dtype="bf16", shape=(tokens, QK_HEADS, DIM), fill=Uniform(seed=11, low=-1.0, high=1.0)),
            Operand(name="k", dtype="bf16", shape=(tokens, QK_HEADS, DIM), fill=Uniform(seed=12, low=-1.0, high=1.0)),
            Operand(name="v", dtype="bf16", shape=(tokens, heads, DIM), fill=Uniform(seed=13, low=-1.0, high=1.0)),
            Operand(name="g", dtype="f32", shape=(tokens, heads), fill=Uniform(seed=14, low=-0.2, high=-0.001)),
            Operand(name="beta", dtype="f32", shape=(tokens, heads), fill=Uniform(seed=15, low=0.1, high=0.9)),
            Operand(name="state_in", dtype="f32", shape=state, fill=Uniform(seed=16, low=-0.5, high=0.5)),
            Operand(name="out", dtype="bf16", shape=(tokens, heads, DIM), fill=poison),
            Operand(name="state_out", dtype="f32", shape=state, fill=poison),
            Operand(name="qn", dtype="bf16", shape=(tokens, QK_HEADS, DIM), fill=poison),
            Operand(name="kn", dtype="bf16", shape=(tokens, QK_HEADS, DIM), fill=poison),
            Operand(name="u", dtype="bf16", shape=rows, fill=poison),
            Operand(name="w", dtype="bf16", shape=rows, fill=poison),
            Operand(name="vn", dtype="bf16", shape=rows, fill=poison),
            Operand(name="sums", dtype="f32", shape=(heads, chunks, CHUNK), fill=poison),
            Operand(name="snapshots", dtype="bf16", shape=(heads, chunks, DIM, DIM), fill=poison),
            Operand(name="qk", dtype="bf16", shape=(QK_HEADS, small, 2, SMALL_CHUNK, DIM), fill=poison),
            Operand(name="packets", dtype="f32", shape=(heads, small, PACKET), fill=poison),
        )

    def outputs(self, width: int) -> tuple[Plane, ...]:
        """The outputs, then the final state."""
        return Plane("out", width * self.heads * DIM), Plane("state_out", self.heads * DIM * DIM)

    def restored(self, width: int) -> tuple[Plane, ...]:  # noqa: ARG002
        """Nothing: the state is read from one buffer and written to another."""
        return ()

    def plan(self, width: int, ask: Ask, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return two launches under ``on`` from 16 tokens, else the pipeline's one to six."""
        if ask(self.key, width) == "on" and width >= SMALL_CHUNK:
            return self.two_stage(width, device, dims=value_dims(self.heads, device.multiprocessors))
        return self.pipeline(width, device)

    def two_stage(self, width: int, device: DeviceFacts, *, dims: int, roles: int | None = None) -> tuple[Launch, ...]:
        """Return prepare and recurrence with ``dims`` value dims a CTA.

        ``roles`` warps serve 16 value dims, another one copies: two (state and outputs) where an SM then has no
        more than one such warp for each of its four schedulers, else one that does both.
        """
        heads, chunks = self.heads, -(-width // SMALL_CHUNK)
        strips = max(1, dims // 16)
        if roles is None:
            waves = -(-heads * (DIM // dims) // device.multiprocessors)
            roles = 2 if waves * strips * 2 <= _SCHEDULERS else 1
        volta = _volta(device)
        fetcher = not volta
        stages = 4 if fetcher or roles == 2 else 3
        prepare = f"{heads}, {_prepare_ctas(device)}, {_cpp(volta)}"
        recurrence = f"{heads}, {dims}, {roles}, {_cpp(fetcher)}, {stages}, {_cpp(volta)}"
        stage_bytes = 2 * SMALL_CHUNK * DIM * 2 + SMALL_CHUNK * dims * 2 + PACKET * 4
        exchange_bytes = strips * 2048 if roles > 1 else 0
        return (
            Launch(
                source="gdn_two_stage",
                kernel=f"gdn_two_stage_prepare<{prepare}>",
                grid=(heads, chunks, 1),
                block=(256, 1, 1),
                args=(Buf("q"), Buf("k"), Buf("g"), Buf("beta"), I32(width), Buf("qk"), Buf("packets")),
            ),
            Launch(
                source="gdn_two_stage",
                kernel=f"gdn_two_stage_recurrence<{recurrence}>",
                grid=(DIM // dims, heads, 1),
                block=(32 * (strips * roles + fetcher), 1, 1),
                shared_bytes=stages * stage_bytes + exchange_bytes,
                args=(
                    Buf("qk"),
                    Buf("packets"),
                    Buf("v"),
                    Buf("state_in"),
                    I32(width),
                    F32(SCALE),
                    Buf("out"),
                    Buf("state_out"),
                ),
            ),
        )

    def pipeline(self, width: int, device: DeviceFacts) -> tuple[Launch, ...]:
        """Return the compiled route: whole chunks by the WY pipeline, the rest token by token."""
        whole = width // CHUNK
        launches: tuple[Launch, ...] = self._whole_chunks(whole, device) if whole else ()
        if width % CHUNK:
            start = "state_out" if whole else "state_in"
            launches = (*launches, self.recurrent(whole * CHUNK, width, start=start))
        return launches

    def recurrent(self, first: int, width: int, *, start: str = "state_in") -> Launch:
        """Return the token-by-token kernel over tokens ``first`` to ``width`` from the state in buffer ``start``."""
        return Launch(
            source="gdn_pipeline",
            kernel=f"gdn_recurrent<{self.heads}>",
            grid=(self.heads, 1, DIM // 16),
            block=(128, 1, 1),
            args=(
                *(Buf(name) for name in ("q", "k", "v", "g", "beta", start)),
                I32(first),
                I32(width),
                F32(SCALE),
                Buf("out"),
                Buf("state_out"),
            ),
        )

    def _whole_chunks(self, chunks: int, device: DeviceFacts) -> tuple[Launch, ...]:
        heads, volta = self.heads, _cpp(_volta(device))
        strip, warps = (16, 8) if heads >= 48 else (32, 4)
        rows = chunks * CHUNK * QK_HEADS
        grid = gdn_output_grid(
            tokens=chunks * CHUNK, value_heads=heads, sms=device.multiprocessors, ctas_per_sm=OUTPUT_CTAS_PER_SM
        )
        tile_bytes = CHUNK * DIM * 2
        normalise = (
            Launch(
                source="gdn_pipeline",
                kernel="gdn_l2",
                grid=(-(-rows // 16), 1, 1),
                block=(256, 1, 1),
                args=(Buf(raw), Buf(unit), I32(rows)),
            )
            for raw, unit in (("q", "qn"), ("k", "kn"))
        )
        return (
            *normalise,
            Launch(
                source="gdn_pipeline",
                kernel=f"gdn_wy_prepare<{heads}, {warps}, {volta}>",
                grid=(heads, chunks, 1),
                block=(32 * warps, 1, 1),
                shared_bytes=2 * tile_bytes + (CHUNK * 72 + 2 * CHUNK) * 4,
                args=tuple(Buf(name) for name in ("kn", "v", "g", "beta", "u", "w", "sums")),
            ),
            Launch(
                source="gdn_pipeline",
                kernel=f"gdn_state_passing<{heads}, {strip}, {volta}>",
                grid=(DIM // strip, heads, 1),
                block=(16 * strip, 1, 1),
                shared_bytes=2 * tile_bytes + 4 * CHUNK * strip + strip * 136 * 4,
                args=(
                    *(Buf(name) for name in ("kn", "u", "w", "sums", "state_in")),
                    I32(chunks),
                    *(Buf(name) for name in ("snapshots", "vn", "state_out")),
                ),
            ),
            Launch(
                source="gdn_pipeline",
                kernel=f"gdn_output<{heads}, {volta}>",
                grid=(grid.blocks // heads, heads, 1),
                block=(128, 1, 1),
                shared_bytes=2 * tile_bytes,
                args=(
                    *(Buf(name) for name in ("qn", "kn", "vn", "snapshots", "sums")),
                    I32(chunks),
                    I32(grid.per_block),
                    F32(SCALE),
                    Buf("out"),
                ),
            ),
        )

    def floor_bytes(self, width: int) -> int:
        """q, k, v, g, beta and the state read once, outputs and the state written once."""
        per_token = 2 * QK_HEADS * DIM * 2 + 2 * self.heads * DIM * 2 + 2 * self.heads * 4
        return width * per_token + 2 * self.heads * DIM * DIM * 4

    def reference(self, width: int, host: HostOperands) -> Mapping[str, Expected]:
        """Return the first and last head's outputs at the first and the last tokens, and their final states.

        The last tokens start from a zero state `_FORGET_TOKENS` earlier where the prompt is longer than that.
        """
        out: list[Expected] = []
        state: list[Expected] = []
        for head in (0, self.heads - 1):
            start = max(0, width - _SAMPLED_TOKENS - _FORGET_TOKENS)
            tail_values, final = self._head(head, start, width, host)
            keep = min(_SAMPLED_TOKENS, width - start)
            out.append(self._expect(head, width - keep, tail_values[-keep:]))
            if start:
                values, _ = self._head(head, 0, _SAMPLED_TOKENS, host)
                out.append(self._expect(head, 0, values))
            indices = np.arange(head * DIM * DIM, (head + 1) * DIM * DIM, dtype=np.int64)
            state.append(Expected(indices=indices, values=final.reshape(-1)))
        return {"out": _join(out), "state_out": _join(state)}

    def _head(
        self, head: int, start: int, end: int, host: HostOperands
    ) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
        count = end - start
        qk = head // (self.heads // QK_HEADS)

        def rows(name: str, heads: int, at: int, dim: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            flat = host(name, start * heads * dim, count * heads * dim)
            wide: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.asarray(flat, dtype=np.float64)
            return wide.reshape(count, heads, dim)[:, at : at + 1]

        initial = np.zeros((1, DIM, DIM))
        if start == 0:
            initial = np.asarray(host("state_in", head * DIM * DIM, DIM * DIM), dtype=np.float64).reshape(1, DIM, DIM)
        result = gated_delta_rule(
            q=rows("q", QK_HEADS, qk, DIM),
            k=rows("k", QK_HEADS, qk, DIM),
            v=rows("v", self.heads, head, DIM),
            g=rows("g", self.heads, head, 1)[:, :, 0],
            beta=rows("beta", self.heads, head, 1)[:, :, 0],
            state=initial,
            scale=SCALE,
        )
        return result.out[:, 0], result.state[0]

    def _expect(self, head: int, start: int, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Expected:
        tokens = np.arange(start, start + len(values), dtype=np.int64)
        indices = ((tokens * self.heads + head) * DIM)[:, None] + np.arange(DIM, dtype=np.int64)
        return Expected(indices=indices.reshape(-1), values=values.reshape(-1))


def _volta(device: DeviceFacts) -> bool:
    return device.capability < _FIRST_BF16_CAPABILITY


def _prepare_ctas(device: DeviceFacts) -> int:
    """Return the CTAs of 256 threads per SM whose registers the preparation leaves room for.

    Measured on an H200, 48 heads, 8192 tokens, at 2, 4, 6 and 8: 217, 174, 135 and 127 us. SMs of 8.6, 8.9 and 12.0
    hold 1536 threads; FP32 products in place of tensor cores need the registers.
    """
    if _volta(device):
        return 4
    return 8 if device.capability in {80, 90} else 6


def _cpp(value: bool) -> str:
    return "true" if value else "false"


def _join(parts: list[Expected]) -> Expected:
    return Expected(
        indices=np.concatenate([part.indices for part in parts]), values=np.concatenate([part.values for part in parts])
    )
