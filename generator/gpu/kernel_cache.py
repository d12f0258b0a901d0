"""Compiled kernels on disk, found by content: source, headers, options, architecture and NVRTC release.

Every expression has an entry of its own; expressions that were compiled together share one cubin.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import CompileError
from generator.gpu.compile import BASE_OPTIONS, Compiled, KernelReport, compile_unit, source_digest
from generator.gpu.nvrtc import find_toolkits, load_nvrtc, toolkit_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from generator.core.route import Launch

QUIET = (signal.signal, (signal.SIGINT, signal.SIG_IGN))
"""Initialiser of helper processes: Ctrl-C is the parent's to handle."""

UNIT = 4
"""Expressions compiled together: parsing headers is shared, and many units still keep all cores busy."""

Unit = tuple[Path, str, tuple[str, ...], str]
"""Folder, source stem, expressions, architecture."""


def cache_folder() -> Path:
    """Return the folder of compiled kernels: ``$XDG_CACHE_HOME`` or ``~/.cache``, then ours."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "ninfer-profile-generator" / "kernels"


def wanted_kernels(plans: Iterable[Sequence[Launch]]) -> dict[str, set[str]]:
    """Return the expressions that ``plans`` name, by source stem."""
    wanted: dict[str, set[str]] = {}
    for plan in plans:
        for launch in plan:
            wanted.setdefault(launch.source, set()).add(launch.kernel)
    return wanted


def wanted_names(plan: Iterable[Launch]) -> list[tuple[str, str]]:
    """Return the (source stem, expression) pairs of one plan, in launch order."""
    return [(launch.source, launch.kernel) for launch in plan]


def unit_digest(folder: Path, stem: str, arch: str) -> str:
    """Return the digest of everything but the expression that makes a kernel of ``stem``.cu what it is."""
    version = load_nvrtc(toolkit_for(arch, find_toolkits()).library).version()
    text = "\0".join((source_digest(folder, stem), *BASE_OPTIONS, arch, repr(version)))
    return hashlib.sha256(text.encode()).hexdigest()


class KernelCache:
    """Kernels by content under ``folder``; None keeps them in memory alone.

    Args:
        jobs: processes that compile at once; 1 compiles in this process.
    """

    def __init__(self, folder: Path | None, jobs: int = 1) -> None:
        self._folder = folder
        self._jobs = jobs

    def compile(
        self,
        root: Path,
        wanted: Mapping[str, Collection[str]],
        arch: str,
        on_unit: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> list[tuple[str, Compiled]]:
        """Return units that hold every wanted expression of the ``.cu`` files under ``root``, as (stem, unit).

        Args:
            root: folder of the ``.cu`` files and their ``include``.
            wanted: expressions by source stem.
            arch: ``"sm_90"``.
            on_unit: called with the number of units compiled and to compile.

        Raises:
            CompileError: NVRTC refused a source.
        """
        found: list[tuple[str, Compiled]] = []
        units: list[Unit] = []
        for stem in sorted(wanted):
            digest = unit_digest(root, stem, arch)
            missing: list[str] = []
            for expression in sorted(wanted[stem]):
                item = self._load(digest, expression)
                if item is None:
                    missing.append(expression)
                else:
                    found.append((stem, item))
            units += [(root, stem, tuple(missing[i : i + UNIT]), arch) for i in range(0, len(missing), UNIT)]
        for place, (unit, compiled) in enumerate(self._run(units), start=1):
            self._store(unit_digest(root, unit[1], arch), compiled)
            found.append((unit[1], compiled))
            on_unit(place, len(units))
        return _merged(found)

    def compile_all(
        self,
        root: Path,
        wanted: Mapping[str, Collection[str]],
        arch: str,
        on_unit: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> tuple[list[tuple[str, Compiled]], dict[tuple[str, str], str]]:
        """Compile as `compile` does, but go on past refused expressions; return them with the compiler's words."""
        try:
            return self.compile(root, wanted, arch, on_unit), {}
        except CompileError:
            pass
        units: list[tuple[str, Compiled]] = []
        refused: dict[tuple[str, str], str] = {}
        for stem, names in wanted.items():
            for name in sorted(names):
                try:
                    units += self.compile(root, {stem: {name}}, arch)
                except CompileError as error:
                    refused[stem, name] = str(error)
        return units, refused

    def _run(self, units: Sequence[Unit]) -> Iterable[tuple[Unit, Compiled]]:
        if self._jobs <= 1 or len(units) <= 1:
            yield from ((unit, compile_unit(*unit)) for unit in units)
            return
        with ProcessPoolExecutor(min(self._jobs, len(units)), get_context("spawn"), *QUIET) as pool:
            yield from zip(units, pool.map(_compile, units), strict=True)

    def _paths(self, digest: str, expression: str) -> Path:
        assert self._folder is not None
        name = hashlib.sha256(f"{digest}\0{expression}".encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"

    def _load(self, digest: str, expression: str) -> Compiled | None:
        if self._folder is None:
            return None
        try:
            entry = json.loads(self._paths(digest, expression).read_text())
            cubin = (self._folder / entry["cubin"]).read_bytes()
            reports = {expression: KernelReport(**entry["report"])}
            whole = entry["cubin"] == f"{hashlib.sha256(cubin).hexdigest()}.cubin"
            return Compiled(cubin=cubin, names={expression: entry["name"]}, reports=reports) if whole else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _store(self, digest: str, compiled: Compiled) -> None:
        if self._folder is None:
            return
        name = f"{hashlib.sha256(compiled.cubin).hexdigest()}.cubin"
        _publish(self._folder / name, compiled.cubin)
        for expression, lowered in compiled.names.items():
            entry = {"cubin": name, "name": lowered, "report": asdict(compiled.reports[expression])}
            _publish(self._paths(digest, expression), json.dumps(entry, sort_keys=True).encode())


def _compile(unit: Unit) -> Compiled:
    return compile_unit(*unit)


def _merged(found: Iterable[tuple[str, Compiled]]) -> list[tuple[str, Compiled]]:
    """Join what came from one cubin, so that it is loaded once."""
    units: dict[tuple[str, bytes], Compiled] = {}
    for stem, item in found:
        known = units.get((stem, item.cubin))
        names = {**(known.names if known else {}), **item.names}
        reports = {**(known.reports if known else {}), **item.reports}
        units[stem, item.cubin] = Compiled(cubin=item.cubin, names=names, reports=reports)
    return [(stem, item) for (stem, _), item in units.items()]


def _publish(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(6)}.part")
    part.write_bytes(data)
    part.replace(path)
