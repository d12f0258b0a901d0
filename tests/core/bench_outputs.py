"""What each benchmark program would print: outputs in the described formats, with times that a test chooses."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from generator.core.bench_commands import bench_commands, folder_of
from generator.core.bench_readers import find_programs
from generator.core.cases import EVERY_WIDTH
from kernels.widths import UNIFIED_GRID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from generator.core.bench_commands import Command
    from generator.core.bench_readers.program import Program
    from generator.core.cases import Expected
    from generator.core.rounds import Case, Table
    from generator.core.route import RouteKey
    from generator.core.sources import Device

    Median = Callable[[RouteKey, Case, int, Table], float]

_TOPK = {"q8": "q8-full", "fp8": "fp8-full", "q4": "q4-optimized"}


def commands_of(device: Device, prefix: str = "") -> tuple[Command, ...]:
    return bench_commands(find_programs().values(), device, UNIFIED_GRID, EVERY_WIDTH, prefix=prefix)


def outputs_of(device: Device, number: int, table: Table, median: Median, prefix: str = "") -> dict[str, str]:
    """Return the text of every output of one table of one round, by path below the manifest."""
    programs = find_programs()
    folder = folder_of(number, table)
    result = {
        f"{folder}/{command.output}": _output(programs[command.program], command, device, table, median)
        for command in commands_of(device, prefix)
    }
    table_feeds = programs["times_table"].feeds
    if any(key.startswith(prefix) for key in table_feeds):
        result[f"{folder}/times_table.csv"] = _rows(programs["times_table"], {}, device, table, median)
    return result


def _output(program: Program, command: Command, device: Device, table: Table, median: Median) -> str:
    words = command.words.split()
    options = {name.lstrip("-"): value for name, value in itertools.pairwise(words) if name.startswith("--")}
    return _rows(program, options, device, table, median)


def _rows(program: Program, options: Mapping[str, str], device: Device, table: Table, median: Median) -> str:
    lines = [",".join(program.columns)] if program.columns else [f"{program.name} on {device}"]
    for key, cases in program.feeds.items():
        for item in cases:
            for width in UNIFIED_GRID:
                fields = _fields(item, width) | {"key": key, "shape": item.case.shape, "median_us": ""}
                if not item.at(width, device.capability) or not _asked(options, fields, item):
                    continue
                time = median(key, item.case, width, table)
                fields |= {"median_us": f"{time:.3f}", "min_us": f"{time * 0.99:.3f}", "p95_us": f"{time * 1.02:.3f}"}
                if program.name == "times_table":
                    fields["width"] = str(width)
                if program.columns:
                    lines.append(",".join(fields.get(name, "0") for name in program.columns))
                else:
                    lines.append(
                        f"T={width} median={fields['median_us']} us min={fields['min_us']} us p95={fields['p95_us']} us"
                    )
    return "\n".join(lines) + "\n"


def _fields(item: Expected, width: int) -> dict[str, str]:
    case = item.case
    depth = case.shape.rpartition("x")[2]
    return {
        **dict.fromkeys(("t", "u", "tokens", "w", "columns", "valid_columns"), str(width)),
        **dict.fromkeys(("b", "batch"), str(case.batch)),
        "width": str(width // case.batch),
        "format": case.format,
        "profile": _TOPK[case.format] if case.shape.startswith(("248320", "131072")) else case.format,
        "policy": case.policy,
        **dict.fromkeys(("k", "c"), depth),
        "rows": "5120",
        **dict.fromkeys(("problem", "form", "counts"), case.form),
        **dict.fromkeys(("path", "route"), "production"),
        "execution": item.execution,
        "cache": "cold",
        "gpu": "",
    }


def _asked(options: Mapping[str, str], fields: Mapping[str, str], item: Expected) -> bool:
    """Return whether a run with these options times the case."""
    policies = {options[name] for name in options if name.endswith("policy")}
    same = [fields[name] == options[name] for name in ("k", "batch", "problem") if name in options]
    formats = {options[name] for name in ("format", "profile") if name in options}
    return (
        all(same)
        and (not policies or item.case.policy in policies)
        and (not formats or bool(formats & {fields["format"], fields["profile"]}))
    )
