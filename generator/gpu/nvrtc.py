"""NVRTC through ctypes: any installed release by its file, no CuPy, no driver, no GPU.

Compute capability 7.0 needs NVRTC 12.9, the last release that knows it, while CuPy for CUDA 13 loads release 13. So the
library is chosen by the architecture asked for, and both may be installed side by side.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Sequence

NEWEST_MAJOR = 13
"""Newest NVRTC major that is looked for."""

LAST_MAJOR_OF = {50: 12, 52: 12, 53: 12, 60: 12, 61: 12, 62: 12, 70: 12, 72: 12}
"""Capability -> last NVRTC major that compiles for it (release notes of CUDA 13.0); others have no end yet."""

_TOOLKIT = Path("/usr/local/cuda")
_HEADER = "cuda_fp16.h"


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """One installed NVRTC: its major release, its library and the folders of the headers that belong to it."""

    major: int
    library: Path
    includes: tuple[Path, ...]


def _package_roots() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(root) for root in (spec.submodule_search_locations or () if spec is not None else ()))


def _includes(roots: Sequence[Path], major: int) -> tuple[Path, ...]:
    folders = [root / name / "include" for root in roots for name in (f"cu{major}", "cuda_runtime")]
    # Packages of CUDA 12 are one folder a component; those of CUDA 13 share the folder cu13.
    found = [folder for folder in folders if (folder / _HEADER).is_file() and _major(folder) == major]
    toolkit = _TOOLKIT / "include"
    if not found and (toolkit / _HEADER).is_file() and _major(toolkit) == major:
        found.append(toolkit)
    return tuple(found)


def _major(include: Path) -> int | None:
    header = include / "cuda.h"
    if not header.is_file():
        header = include / "cuda_runtime_api.h"
    match = re.search(r"#define\s+CUD(?:A|ART)_VERSION\s+(\d+)", header.read_text(errors="replace"))
    return int(match[1]) // 1000 if match else None


@cache
def find_toolkits() -> tuple[Toolkit, ...]:
    """Return every NVRTC of the installed packages, then that of ``/usr/local/cuda``, newest major first."""
    roots = _package_roots()
    found: dict[int, Toolkit] = {}
    folders = [root / name / "lib" for root in roots for name in (f"cu{NEWEST_MAJOR}", "cuda_nvrtc")]
    for folder in (*folders, _TOOLKIT / "lib64"):
        for library in sorted(folder.glob("libnvrtc.so.*")):
            match = re.fullmatch(r"libnvrtc\.so\.(\d+)", library.name)
            if match and int(match[1]) not in found:
                major = int(match[1])
                found[major] = Toolkit(major=major, library=library, includes=_includes(roots, major))
    return tuple(found[major] for major in sorted(found, reverse=True))


def toolkit_for(arch: str, toolkits: Sequence[Toolkit]) -> Toolkit:
    """Return the newest toolkit that compiles for ``arch`` (``"sm_70"``, ``"sm_120a"``).

    Raises:
        CompileError: none of them does; the message says which package brings one.
    """
    match = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", arch)
    if match is None:
        raise CompileError(
            f"architecture {arch!r}: expected the form 'sm_90'; see `python -m generator kernels --help`."
        )
    last = LAST_MAJOR_OF.get(int(match[1]), NEWEST_MAJOR)
    for toolkit in toolkits:
        if toolkit.major <= last:
            return toolkit
    package = "nvidia-cuda-nvrtc" if last == NEWEST_MAJOR else f"nvidia-cuda-nvrtc-cu{last}"
    have = ", ".join(str(toolkit.library) for toolkit in toolkits) or "none"
    raise CompileError(
        f"no NVRTC for {arch}: found {have}, expected release {last} or older. Install the package {package!r} "
        "and the runtime headers of the same release, or both with `pip install -e builtin_profiles -e '.[compile]'`."
    )


class Nvrtc:
    """One loaded NVRTC library."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _check(self, status: int, what: str, log: str = "") -> None:
        if status != 0:
            words = self._library.nvrtcGetErrorString(status).decode()
            raise CompileError(f"{what}: {words}" + (f"\n{log}" if log else ""))

    def version(self) -> tuple[int, int]:
        """Return the release as (major, minor)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        return major.value, minor.value

    def capabilities(self) -> tuple[int, ...]:
        """Return the capabilities that this release compiles for, ascending, as major * 10 + minor."""
        number = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(number)), "nvrtcGetNumSupportedArchs")
        found = (ctypes.c_int * number.value)()
        self._check(self._library.nvrtcGetSupportedArchs(found), "nvrtcGetSupportedArchs")
        return tuple(sorted(found))

    def compile(
        self, source: str, name: str, options: Sequence[str], expressions: Sequence[str]
    ) -> tuple[bytes, dict[str, str], str]:
        """Compile ``source`` and return the cubin, the lowered name of each expression, and the log.

        Raises:
            CompileError: the source was refused; the message holds the log.
        """
        program = ctypes.c_void_p()
        status = self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        self._check(status, name)
        try:
            for expression in expressions:
                self._check(self._library.nvrtcAddNameExpression(program, expression.encode()), expression)
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), words)
            log = self._bytes(program, "nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
            self._check(status, name, log)
            names = {expression: self._lowered(program, expression) for expression in expressions}
            return self._bytes(program, "nvrtcGetCUBIN"), names, log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, program: ctypes.c_void_p, getter: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"{getter}Size")(program, ctypes.byref(size)), getter)
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, getter)(program, buffer), getter)
        return buffer.raw

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        lowered = ctypes.c_char_p()
        status = self._library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(lowered))
        self._check(status, expression)
        assert lowered.value is not None
        return lowered.value.decode()


@cache
def load_nvrtc(library: Path) -> Nvrtc:
    """Return the library at ``library``, loaded once a process."""
    return Nvrtc(library)
