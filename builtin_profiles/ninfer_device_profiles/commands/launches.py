"""``sizes``: launch sizes that follow the device, under its profile and the environment's overrides."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ninfer_device_profiles import sizes
from ninfer_device_profiles.commands.surroundings import add_device, add_file, found_of, location_of, required_device
from ninfer_device_profiles.lookup import RouteTable
from ninfer_device_profiles.overrides import Overrides

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ninfer_device_profiles.commands.surroundings import Surroundings

WINDOWS = (8192, 65536, 262144)
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)


def configure_sizes(parser: ArgumentParser) -> None:
    """Add the arguments of ``sizes``."""
    add_file(parser)
    add_device(parser)
    parser.add_argument("--prefill-chunk", type=_count, default=1024, metavar="N", help="requested tokens (1024)")
    parser.add_argument("--max-context", type=_count, default=262144, metavar="N", help="tokens (262144)")
    parser.add_argument("--query-heads", type=int, choices=sizes.QUERY_HEADS, default=24, help="attention geometry")
    parser.add_argument("--kv", choices=(*sizes.INT8_FAMILY, "bf16", "fp8", "nvfp4"), default="int8", help="KV storage")
    parser.add_argument(
        "--fast-prefill-kernel", action="store_true", help="assume that the engine runs with this option"
    )


def run_sizes(arguments: Namespace, around: Surroundings) -> int:
    """Print the prefill chunk that the engine would really use, and the attention splits, on a device."""
    device = required_device(arguments)
    found = found_of(device, location_of(arguments, around), around)
    routes = RouteTable({} if found.profile is None else found.profile.routes)
    overrides = Overrides.from_environment(around.environment)
    sms, heads, storage = device.multiprocessors, arguments.query_heads, arguments.kv
    fast = overrides.fast_prompt(routes.schedule("attn_prompt_fast", 1), storage, option=arguments.fast_prefill_kernel)
    request = min(arguments.prefill_chunk, arguments.max_context)
    chunk = sizes.aligned_prefill_chunk(
        requested=arguments.prefill_chunk,
        max_context=arguments.max_context,
        sms=sms,
        query_heads=heads,
        fast_kernel=fast.on,
        kv_storage=storage,
        align=overrides.prefill_align,
    )
    rows = sizes.FAST_ROWS if fast.on else sizes.STANDARD_ROWS
    fills = [sizes.prompt_grid_fill(tokens, rows=rows, query_heads=heads, sms=sms) for tokens in (request, chunk)]
    splits = {
        window: [
            sizes.small_t_splits(
                window=window,
                captured_window=window,
                width=width,
                sms=sms,
                query_heads=heads,
                kv_storage=storage,
                tier=routes.schedule(f"attn_i8_small/h{heads}/{storage}/w{width}", window),
            )
            for width in WIDTHS
        ]
        for window in WINDOWS
    }
    if arguments.json:
        around.json(
            {
                "aligned": overrides.prefill_align,
                "chunk": chunk,
                "fast_prompt_kernel": {"by": fast.by, "on": fast.on},
                "fill": fills[1],
                "requested": request,
                "requested_fill": fills[0],
                "splits": {str(window): row for window, row in splits.items()},
            }
        )
        return 0
    around.lines(
        f"{device.hardware_class}, {sms} SMs, {heads} query heads, {storage} cache",
        f"  prefill chunk       {chunk} tokens for a request of {request} "
        f"(share of whole waves used: {fills[0]:.3f} -> {fills[1]:.3f})",
        f"  alignment           {'on' if overrides.prefill_align else 'off, by NINFER_PREFILL_ALIGN'}",
        f"  fast prompt kernel  {'on' if fast.on else 'off'}, by {fast.by}",
        "  small-T attention splits of a full window, one row:",
    )
    around.table(
        ("    window", *(f"{width} wide" for width in WIDTHS)),
        [(f"    {window}", *(str(count) for count in row)) for window, row in splits.items()],
    )
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 16777216:
        raise argparse.ArgumentTypeError(f"{text!r}: token counts are whole numbers from 1 to 16777216")
    return int(text)
