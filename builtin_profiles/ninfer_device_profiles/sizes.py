"""Launch sizes that follow the device directly and need no profile entry.

``sms`` is the device's SM count throughout; 0 stands for "unknown" where a rule says what happens then. Head
geometries are 24 query heads over 4 KV heads and 16 over 2, head size 256. Windows are visible keys, widths are query
tokens of one row.

Source of every rule: engine-profiles, section 6; tiers and envelopes: engine-kernels, section 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ninfer_device_profiles.errors import SizesError

INT8_FAMILY = ("int8", "rk8v4", "rk4v4", "rk4v4-e8", "rk2v4-e8")
"""KV storages with INT8 products: those with chunk alignment, a wave rule and a fast prompt kernel."""

QUERY_HEADS = (24, 16)
"""Query head counts of the two attention geometries."""

CHUNK_STEP = 128
"""Aligned prefill chunks are multiples of this many tokens."""

CHUNK_REACH = 256
"""An aligned chunk exceeds the request by at most this many tokens; smaller requests stay as they are."""

FAST_ROWS = 128
"""Query rows a CTA of the fast prompt kernel's 8-warp form covers."""

STANDARD_ROWS = 64
"""Query rows a CTA of the standard prompt kernel covers."""

ASSUMED_SMS = 170
"""SM count that stands in for an unknown one."""

GDN_CHUNK = 64
"""Prompt tokens of one GDN chunk."""

GDN_FALLBACK_TARGET = 680
"""CTAs to aim for when the occupancy query fails: 170 SMs with four CTAs each."""

SPLIT_LIMIT = 85
"""Most splits of a window, with 24 query heads; twice as many with 16."""

LONGEST_SPLIT = 3968
"""Most keys that one split covers once the wave rule or the batch rule cuts the count."""

_TIE = 1e-9
_CAPACITY_POINTS = (128, 160, 512, 4096, 5000, 8198, 16390)
_KEYS_PER_SPLIT = ((4096, 64), (8198, 128), (16390, 256))
_LAST_KEYS_PER_SPLIT = 480


@dataclass(frozen=True, kw_only=True, slots=True)
class GdnOutputGrid:
    """Grid of the chunked GDN output kernel.

    Args:
        chunks: whole chunks of 64 tokens; the remainder of the prompt goes to another kernel.
        jobs: chunks times value heads.
        target: CTAs that fill the device once.
        per_block: chunks that one CTA walks through.
        blocks: CTAs in all, ``ceil(chunks / per_block) * value heads``.
    """

    chunks: int
    jobs: int
    target: int
    per_block: int
    blocks: int


def prompt_grid_fill(chunk: int, *, rows: int, query_heads: int, sms: int) -> float:
    """Return the share of whole waves that a prompt-attention grid uses, one CTA per SM (ratio, at most 1)."""
    _positive(chunk=chunk, rows=rows, query_heads=query_heads, sms=sms)
    ctas = _ceil(chunk, rows) * query_heads
    return ctas / (_ceil(ctas, sms) * sms)


def aligned_prefill_chunk(
    *,
    requested: int,
    max_context: int,
    sms: int,
    query_heads: int,
    fast_kernel: bool,
    kv_storage: str,
    align: bool = True,
) -> int:
    """Return the prefill chunk in tokens whose prompt-attention grid leaves least of its last wave idle.

    Args:
        requested: the option's value.
        max_context: bounds request and result.
        sms: SM count.
        query_heads: 24 or 16.
        fast_kernel: whether the fast prompt kernel will run: option, variable or profile, in this order.
        kv_storage: outside of `INT8_FAMILY` the request is kept.
        align: False keeps the request (``NINFER_PREFILL_ALIGN=0``).

    Raises:
        SizesError: an argument is not positive, or no geometry has that many query heads.

    Spec: engine-profiles 6.1.
    """
    _positive(requested=requested, max_context=max_context, sms=sms)
    _scale(query_heads)
    request = min(requested, max_context)
    if not align or request < CHUNK_REACH or kv_storage not in INT8_FAMILY:
        return request
    rows = FAST_ROWS if fast_kernel else STANDARD_ROWS
    best = request
    best_fill = prompt_grid_fill(request, rows=rows, query_heads=query_heads, sms=sms)
    first = max(CHUNK_STEP, request // 2 // CHUNK_STEP * CHUNK_STEP)
    for chunk in range(first, request + CHUNK_REACH + 1, CHUNK_STEP):
        fill = prompt_grid_fill(chunk, rows=rows, query_heads=query_heads, sms=sms)
        nearer = abs(chunk - request) < abs(best - request)
        if fill > best_fill + _TIE or (fill > best_fill - _TIE and nearer):
            best, best_fill = chunk, fill
    return min(best, max_context)


def fast_kernel_wave_tokens(*, sms: int, query_heads: int) -> int:
    """Return the prompt tokens that fill one whole wave of the fast kernel's 8-warp form."""
    _positive(sms=sms)
    _scale(query_heads)
    return max(1, sms // query_heads) * FAST_ROWS


def fast_kernel_warps(*, tokens: int, query_heads: int, sms: int) -> Literal[4, 8]:
    """Return the warps of the fast prompt kernel: 4 (64 rows) where its waves cost less, else 8 (128 rows)."""
    _positive(tokens=tokens, sms=sms)
    _scale(query_heads)
    narrow = _ceil(_ceil(tokens, STANDARD_ROWS) * query_heads, sms)
    wide = _ceil(_ceil(tokens, FAST_ROWS) * query_heads, sms)
    return 4 if narrow * 72 < wide * 100 else 8


def gdn_output_grid(*, tokens: int, value_heads: int, sms: int, ctas_per_sm: int | None) -> GdnOutputGrid:
    """Return the grid of the chunked GDN output kernel.

    Args:
        tokens: prompt tokens of the call; under 64 there is no whole chunk and the grid is empty.
        value_heads: 48 or 32 in the registered models.
        sms: SM count.
        ctas_per_sm: resident CTAs per SM; None when the occupancy query failed.

    Spec: engine-profiles 6.2.
    """
    _positive(value_heads=value_heads)
    if tokens < 0:
        raise SizesError(f"tokens: {tokens!r}; a count of prompt tokens is 0 or more. Pass the call's token count.")
    if ctas_per_sm is None:
        target = GDN_FALLBACK_TARGET
    else:
        _positive(sms=sms, ctas_per_sm=ctas_per_sm)
        target = sms * ctas_per_sm
    chunks = tokens // GDN_CHUNK
    jobs = chunks * value_heads
    per_block = _ceil(jobs, target)
    blocks = _ceil(chunks, per_block) * value_heads if chunks else 0
    return GdnOutputGrid(chunks=chunks, jobs=jobs, target=target, per_block=per_block, blocks=blocks)


def tier_ctas_per_sm(tier: str) -> int | None:
    """Return the CTAs per SM that an attention tier names, or None.

    It is the single digit 1 to 8 between the two ``x`` of ``<warps>x<CTAs per SM>x<key block>``, taken from the text
    alone: the name need not be a candidate.
    """
    _, found, rest = tier.partition("x")
    if found and len(rest) > 1 and rest[0] in "12345678" and rest[1] == "x":
        return int(rest[0])
    return None


def compiled_ctas_per_sm(*, width: int, captured_window: int, query_heads: int = 24) -> int:
    """Return the CTAs per SM of the compiled small-T attention tier (1 or 2)."""
    scale = _scale(query_heads)
    if width >= 6:
        single = captured_window <= 8198
    elif width == 5:
        single = captured_window <= (1029 if scale == 1 else 4096)
    else:
        single = width == 4 and captured_window <= 1029
    return 1 if single else 2


def small_t_base_splits(*, window: int, width: int, query_heads: int = 24, kv_storage: str = "int8") -> int:
    """Return the splits of ``window`` visible keys before any wave rule.

    Widths from 5 have denser splits over some short windows, with an INT8-family cache only.

    Spec: engine-profiles 6.3.
    """
    _positive(window=window, width=width)
    scale = _scale(query_heads)
    if kv_storage in INT8_FAMILY:
        if width == 5 and 128 < window <= 512:
            return _ceil(window, 32 // scale)
        if width >= 6 and 128 < window <= 160:
            return _ceil(window, 24 if scale == 1 else 17)
        if width >= 6 and 5000 < window <= 8198:
            return _clamp(_ceil(window, 192 // scale), 4 * scale, 42 * scale)
    keys = next((keys for last, keys in _KEYS_PER_SPLIT if window <= last), _LAST_KEYS_PER_SPLIT)
    return _clamp(_ceil(window, keys // scale), 4 * scale, SPLIT_LIMIT * scale)


def small_t_wave(*, sms: int, width: int, captured_window: int, query_heads: int = 24, tier: str = "") -> int:
    """Return the splits of one whole wave, 0 (no wave rule) when the SM count is unknown.

    Args:
        sms: SM count, 0 when unknown.
        width: query tokens.
        captured_window: the largest number of keys the launch may see, with which the tier is looked up.
        query_heads: 24 or 16.
        tier: the schedule that the profile names there; empty for the compiled tier.
    """
    scale = _scale(query_heads)
    _positive(width=width, captured_window=captured_window)
    ctas = tier_ctas_per_sm(tier)
    if ctas is None:
        ctas = compiled_ctas_per_sm(width=width, captured_window=captured_window, query_heads=query_heads)
    return max(0, sms) * ctas // (4 // scale)


def small_t_capacity(
    *,
    low: int = 1,
    high: int,
    width: int,
    query_heads: int = 24,
    kv_storage: str = "int8",
    wave: int = 0,
) -> int:
    """Return the split capacity of a launch captured for windows ``low`` to ``high``; it sizes grid and workspace.

    A window beyond the end of a split tier counts at least what that tier reaches in full. ``wave`` is that of
    `small_t_wave`; leave it 0 for batches and for caches outside of the INT8 family.
    """
    _positive(low=low, high=high, width=width)
    if low > high:
        raise SizesError(
            f"captured windows {low!r} to {high!r}: the lower end is above the upper; "
            "intervals ascend. Pass the two ends in order."
        )
    points = {low, high, *(point for point in _CAPACITY_POINTS if low <= point <= high)}
    most = max(
        _planned_splits(window=point, width=width, query_heads=query_heads, kv_storage=kv_storage) for point in points
    )
    return _whole_waves(most, window=high, wave=wave)


def small_t_splits(
    *,
    window: int,
    captured_window: int,
    width: int,
    sms: int,
    query_heads: int = 24,
    kv_storage: str = "int8",
    tier: str = "",
    captured_low: int = 1,
) -> int:
    """Return the splits that do work in a single-row small-T attention call.

    The wave rule holds for INT8-family caches; other caches keep the base count, within the capacity.

    Spec: engine-profiles 6.3, engine-kernels 7.4.6.
    """
    wave = 0
    if kv_storage in INT8_FAMILY:
        wave = small_t_wave(sms=sms, width=width, captured_window=captured_window, query_heads=query_heads, tier=tier)
    base = small_t_base_splits(window=window, width=width, query_heads=query_heads, kv_storage=kv_storage)
    capacity = small_t_capacity(
        low=captured_low,
        high=captured_window,
        width=width,
        query_heads=query_heads,
        kv_storage=kv_storage,
        wave=wave,
    )
    return min(_whole_waves(base, window=window, wave=wave), capacity)


def batch_splits(
    *,
    batch: int,
    width: int,
    window: int,
    sms: int,
    kv_storage: str,
    query_heads: int = 24,
    capacity: int | None = None,
) -> int:
    """Return the splits of a small-T attention call with more than one row.

    Args:
        batch: rows, or the number of parallel tiles.
        width: query tokens of a row, or of a tile.
        window: captured window.
        sms: SM count, 0 when unknown (170 is assumed then).
        kv_storage: an INT8-family storage, ``bf16``, ``nvfp4`` or another.
        query_heads: 24 or 16; with 16 the capacity is the only limit.
        capacity: that of `small_t_capacity` without a wave; computed for windows 1 to ``window`` when None.
    """
    _positive(batch=batch, width=width, window=window)
    if capacity is None:
        capacity = small_t_capacity(high=window, width=width, query_heads=query_heads, kv_storage=kv_storage)
    if _scale(query_heads) != 1:
        return capacity
    known = sms if sms > 0 else ASSUMED_SMS
    wave = known - known // 16
    target = wave * (2 if _doubled(kv_storage, width=width, batch=batch, window=window) else 1)
    return min(capacity, max(4, _ceil(target, 4 * batch), _ceil(window, LONGEST_SPLIT)))


def parallel_tile(*, width: int, query_heads: int = 24) -> int | None:
    """Return the query tokens of a parallel tile, or None where the width stays with serial chunks.

    The widest tile (8 down to 2 with 24 heads, 6 down to 2 with 16) that divides the width into two tiles or more.
    """
    _positive(width=width)
    widest = 8 if _scale(query_heads) == 1 else 6
    return next((tile for tile in range(widest, 1, -1) if width % tile == 0 and width // tile >= 2), None)


def moe_prefill_blocks(
    *,
    tokens: int,
    experts: int,
    row_blocks: int,
    sms: int,
    nvfp4: bool = False,
    wide: bool = False,
) -> int:
    """Return the CTAs of a sparse-MoE prefill grid.

    Args:
        tokens: prompt tokens; each is assigned to eight experts.
        experts: experts of the layer.
        row_blocks: row blocks of the expert's matrix.
        sms: SM count, 0 when unknown (170 is assumed then).
        nvfp4: NVFP4 weights: 64 columns a job, and no more extra jobs than there are assignments.
        wide: a wide plan: 64 columns a job.

    Spec: engine-profiles 6.4.
    """
    _positive(tokens=tokens, experts=experts, row_blocks=row_blocks)
    assignments = tokens * 8
    jobs = assignments // (64 if nvfp4 or wide else 32) + (min(experts, assignments) if nvfp4 else experts)
    return min(jobs * row_blocks, 32 * (sms if sms > 0 else ASSUMED_SMS))


def _planned_splits(*, window: int, width: int, query_heads: int, kv_storage: str) -> int:
    base = small_t_base_splits(window=window, width=width, query_heads=query_heads, kv_storage=kv_storage)
    scale = _scale(query_heads)
    if kv_storage in INT8_FAMILY and width >= 6 and 5000 < window <= 8198:
        return base
    passed = [_ceil(last, keys // scale) for last, keys in _KEYS_PER_SPLIT if window >= last]
    return max([base, *(min(count, SPLIT_LIMIT * scale) for count in passed)])


def _doubled(kv_storage: str, *, width: int, batch: int, window: int) -> bool:
    if kv_storage == "int8":
        return width <= 5 or window > 4096
    if kv_storage == "bf16":
        return width <= 5 or batch >= 5 or window > 4096
    return kv_storage == "nvfp4" and width <= 5


def _whole_waves(count: int, *, window: int, wave: int) -> int:
    if wave <= 0 or count <= wave:
        return count
    return min(count, wave * _ceil(_ceil(window, LONGEST_SPLIT), wave))


def _ceil(value: int, step: int) -> int:
    return -(-value // step)


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


def _scale(query_heads: int) -> int:
    if query_heads not in QUERY_HEADS:
        raise SizesError(
            f"query_heads: {query_heads!r}; attention geometries have 24 query heads over 4 KV heads or 16 over 2. "
            "Pass one of the two."
        )
    return 1 if query_heads == 24 else 2


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise SizesError(f"{name}: {value!r}; a size is computed from positive counts. Pass a count of 1 or more.")
