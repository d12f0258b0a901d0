"""What a lab machine with the engine runs for one device: the benchmark commands, and the manifest of their outputs."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, NamedTuple

from generator.core.rounds import Table, usual_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from generator.core.bench_readers.program import Program
    from generator.core.cases import Grid
    from generator.core.sources import Device

EXECUTABLE = "ninfer_benches"


class Command(NamedTuple):
    """One benchmark run without the table: its words, the name of its output, and what the output does not say."""

    program: str
    words: str
    output: str
    settings: Mapping[str, str]


def bench_commands(
    programs: Iterable[Program],
    device: Device,
    widths: Sequence[int],
    grid: Grid,
    *,
    prefix: str = "",
    execution: str = "",
) -> tuple[Command, ...]:
    """Return the runs that together time every case that ``device`` is judged on.

    Args:
        programs: in the order to run.
        device: runs that none of its cases needs are left out.
        widths: the grid; each run gets those at which one of its cases exists.
        grid: may give a key widths of its own, and leave cases out.
        prefix: only programs that feed a key with this prefix.
        execution: of every program that has a choice; empty for each one's own.
    """
    result: list[Command] = []
    for program in programs:
        if not program.arguments or not any(key.startswith(prefix) for key in program.feeds):
            continue
        for variant in program.variants:
            needed = sorted(
                {
                    width
                    for key, cases in program.feeds.items()
                    for item in grid.cases(key, cases)
                    if variant.times(item.case)
                    for width in grid.of(key) or widths
                    if item.at(width, device.capability)
                }
            )
            if not needed:
                continue
            tail = "".join(f"-{word.lstrip('-')}" for word in variant.options.split())
            suffix = "txt" if ">" in program.arguments else "csv"
            output = f"{program.name}{tail}.{suffix}"
            chosen = f"--execution {execution}" if execution and program.has_execution else ""
            settings = {"execution": execution} if chosen and "execution" in program.settings else {}
            words = program.arguments.format(
                options=f"{variant.options} {chosen}".strip(),
                widths=",".join(map(str, needed)),
                out=f"{{folder}}/{output}",
            )
            result.append(
                Command(program.name, f"{program.name} {words.strip()}", output, {**variant.settings, **settings})
            )
    return tuple(result)


def folder_of(number: int, table: Table) -> str:
    """Return the folder that a run's outputs go to."""
    return f"round-{number}-{table}"


def script(commands: Sequence[Command], device: Device, number: int) -> str:
    """Return a shell script that runs both tables of round ``number`` in the round's order."""
    lines = ["#!/bin/sh", f"# unified/* benchmarks of {device}, round {number}", "set -eux"]
    for table in usual_order(number):
        folder = folder_of(number, table)
        lines.append(f"mkdir -p {folder}")
        for command in commands:
            words = command.words.format(folder=shlex.quote(folder))
            lines.append(f"NINFER_LINEAR_ROUTES={table} {EXECUTABLE} {words}")
    return "\n".join(lines) + "\n"


def manifest(commands: Sequence[Command], device: Device, rounds: int, execution: str = "") -> str:
    """Return the manifest of what the scripts of all rounds write, its conditions to be filled in."""
    lines = [
        f"device = {json.dumps(str(device))}",
        *([f"execution = {json.dumps(execution)}"] if execution else []),
        "",
        "# What held in every run; a [[run]] may say otherwise under `conditions`. Empty and 0 are not recorded.",
        "[conditions]",
        'build = ""',
        "cuda_driver = 0",
        "power_limit_w = 0",
        "sm_clock_mhz = 0",
        'date = ""',
        'gpu = ""',
    ]
    for number in range(1, rounds + 1):
        for table in usual_order(number):
            lines += ["", "[[run]]", f"round = {number}", f'table = "{table}"', "files = ["]
            for command in commands:
                settings = "".join(f", {name} = {json.dumps(value)}" for name, value in command.settings.items())
                lines.append(f'  {{ path = "{folder_of(number, table)}/{command.output}"{settings} }},')
            lines.append("]")
    return "\n".join(lines) + "\n"
