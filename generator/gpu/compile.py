"""Compile name expressions of the ``.cu`` files with NVRTC; works on a machine without a GPU."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Sequence

BASE_OPTIONS = ("--std=c++17", "-default-device", "--ptxas-options=-v")
"""Options of every compile; they belong to a kernel's digest."""


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


@cache
def cuda_include_dirs() -> tuple[str, ...]:
    """Return the folders that hold the CUDA headers (``cuda_fp16.h``) of the installed runtime package."""
    import importlib.util  # noqa: PLC0415

    found: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        for name in ("cu13", "cuda_runtime", "cu12"):
            folder = Path(root) / name / "include"
            if (folder / "cuda_fp16.h").is_file():
                found.append(str(folder))
    toolkit = Path("/usr/local/cuda/include")
    return (*found, str(toolkit)) if (toolkit / "cuda_fp16.h").is_file() else tuple(found)


def source_digest(folder: Path, stem: str) -> str:
    """Return a digest of ``stem``.cu and of every header, so that an edited header is another kernel."""
    digest = hashlib.sha256()
    for path in [folder / f"{stem}.cu", *sorted((folder / "include").glob("*.cuh"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_unit(folder: Path, stem: str, expressions: Sequence[str], arch: str) -> Compiled:
    """Compile ``expressions`` of ``folder / stem.cu`` for ``arch`` (``"sm_90"``).

    Raises:
        CompileError: NVRTC refused the source; the message holds its log.
    """
    from cupy_backends.cuda.libs import nvrtc  # noqa: PLC0415

    includes = [f"-I{folder / 'include'}", *(f"-I{path}" for path in cuda_include_dirs())]
    options = [*BASE_OPTIONS, f"-arch={arch}", *includes]
    program = nvrtc.createProgram((folder / f"{stem}.cu").read_text(), f"{stem}.cu", (), ())
    try:
        for expression in expressions:
            nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise CompileError(f"{stem}.cu for {arch}: {error}\n{log}") from None
        names = {expression: nvrtc.getLoweredName(program, expression) for expression in expressions}
        reports = _reports(nvrtc.getProgramLog(program))
        return Compiled(
            cubin=nvrtc.getCUBIN(program),
            names=names,
            reports={expression: reports[lowered] for expression, lowered in names.items() if lowered in reports},
        )
    finally:
        nvrtc.destroyProgram(program)


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
