"""Compile name expressions of the ``.cu`` files with NVRTC; works on a machine without a GPU."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.errors import CompileError
from generator.gpu.nvrtc import find_toolkits, load_nvrtc, toolkit_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BASE_OPTIONS = ("--std=c++17", "-default-device", "--ptxas-options=-v", "--no-cache")
"""Options of every compile; they belong to a kernel's digest. What NVRTC takes from its own cache has no report."""

_CACHING = (12, 9)
"""The first release that has a cache, and the option to go without: one before refuses the option."""


def options_of(release: tuple[int, int]) -> tuple[str, ...]:
    """Return those of `BASE_OPTIONS` that an NVRTC of ``release`` knows."""
    return tuple(option for option in BASE_OPTIONS if option != "--no-cache" or release >= _CACHING)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelReport:
    """What ptxas says of one kernel. Spills and stack in bytes per thread, static shared memory in bytes per CTA."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A cubin, the lowered name of each expression, and the resource report of each expression."""

    cubin: bytes
    names: dict[str, str]
    reports: dict[str, KernelReport]


def source_digest(folder: Path, stem: str) -> str:
    """Return a digest of ``stem``.cu and of every header, so that an edited header is another kernel."""
    digest = hashlib.sha256()
    for path in [folder / f"{stem}.cu", *sorted((folder / "include").glob("*.cuh"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_unit(folder: Path, stem: str, expressions: Sequence[str], arch: str) -> Compiled:
    """Compile ``expressions`` of ``folder / stem.cu`` for ``arch`` (``"sm_90"``).

    Raises:
        CompileError: NVRTC refused the source, or reports no resources; the message holds its log.
    """
    toolkit = toolkit_for(arch, find_toolkits())
    includes = [f"-I{folder / 'include'}", *(f"-I{path}" for path in toolkit.includes)]
    nvrtc = load_nvrtc(toolkit.library)
    options = [*options_of(nvrtc.version()), f"-arch={arch}", *includes]
    source = (folder / f"{stem}.cu").read_text()
    cubin, names, log = nvrtc.compile(source, f"{stem}.cu for {arch}", options, expressions)
    reports = _reports(log)
    missing = [expression for expression, lowered in names.items() if lowered not in reports]
    if missing:
        raise CompileError(
            f"{stem}.cu for {arch}: {toolkit.library} reports no registers for {', '.join(missing)}, expected a line "
            f"'Used N registers' a kernel; use another release of NVRTC. Its log:\n{log}"
        )
    return Compiled(
        cubin=cubin,
        names=names,
        reports={expression: reports[lowered] for expression, lowered in names.items()},
    )


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def _reports(log: str) -> dict[str, KernelReport]:
    result: dict[str, KernelReport] = {}
    name = ""
    stack = (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            name = match[1]
            stack = (0, 0, 0)
        elif match := _STACK.search(line):
            stack = (int(match[1]), int(match[2]), int(match[3]))
        elif match := _USED.search(line):
            shared = _SHARED.search(line)
            result[name] = KernelReport(
                registers=int(match[1]),
                stack_bytes=stack[0],
                spill_store_bytes=stack[1],
                spill_load_bytes=stack[2],
                shared_bytes=int(shared[1]) if shared else 0,
            )
    return result
