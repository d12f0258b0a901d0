"""Compile every kernel that a legal plan names, for each architecture, and report what it takes; needs no GPU.

Exit 1 if a kernel does not compile or cannot be launched on the architecture's reference card. Spills are shown.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from generator.arguments import count
from generator.core.catalog import build_catalog
from generator.core.dispatch import dispatcher
from generator.core.reference import parse_reference_gpus
from generator.core.resources import Usage, device_facts, obstacle
from generator.core.route import COMPILED
from generator.core.workload import VOLTA, select_routes
from generator.errors import UsageError
from generator.files import read_text
from generator.gpu.kernel_cache import KernelCache, cache_folder
from generator.gpu.nvrtc import find_toolkits, load_nvrtc, toolkit_for
from generator.progress import tenths
from generator.repository import find_repository
from kernels import ROOT, find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence

    from generator.core.catalog import Catalog
    from generator.core.reference import ReferenceGpu
    from generator.core.route import DeviceFacts, Launch
    from generator.output import Output

_ARCH = re.compile(r"sm_([0-9]{2,3})[af]?")
_SHOWN = 40

DEFAULT_ARCHS = "sm_70,sm_86,sm_89,sm_90,sm_120"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One kernel on one architecture. ``families`` are those whose plans name it; bytes are per thread or per block."""

    arch: str
    source: str
    kernel: str
    families: tuple[str, ...]
    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    threads: int = 0
    obstacle: str = ""
    error: str = ""

    @property
    def notable(self) -> bool:
        """Return whether a reader must see it."""
        return bool(self.obstacle or self.error or self.spill_store_bytes or self.spill_load_bytes)


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--arch", default=DEFAULT_ARCHS, metavar="LIST", help=f"default: {DEFAULT_ARCHS}")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only route keys with this prefix")
    parser.add_argument("--jobs", type=count, metavar="N", help="processes (default: one a core)")
    parser.add_argument("--no-cache", action="store_true", help="compile anew, keep nothing")
    parser.add_argument("--all", action="store_true", help="list every kernel, not only those to look at")
    parser.add_argument("--json", action="store_true", help="print every kernel as JSON")


def run(arguments: Namespace, output: Output) -> int:
    """Compile and report."""
    archs = [_capability(text) for text in arguments.arch.split(",")]
    for arch, _digits in archs:
        toolkit_for(arch, find_toolkits())
    catalog = build_catalog(find_families())
    select_routes(catalog, only=arguments.only)
    repository = find_repository()
    name = repository.relative(repository.reference)
    cards = parse_reference_gpus(read_text(repository.reference, name), name)
    cache = KernelCache(None if arguments.no_cache else cache_folder(), arguments.jobs or os.cpu_count() or 1)
    rows: list[Row] = []
    for target in archs:
        began = time.monotonic()
        on_unit = tenths(f"{target[0]}: compiled", output.note, time.monotonic)
        found = compile_arch(catalog, cards, target, cache, arguments.only, on_unit=on_unit)
        rows += found
        output.note(f"{target[0]}: {len(found)} kernels in {time.monotonic() - began:.1f} s")
    if arguments.json:
        output.json([asdict(row) for row in rows])
    else:
        output.text(_summary(rows))
        for row in rows:
            if arguments.all or row.notable:
                output.text(f"{_line(row)}\n")
    pending = sorted({family.name for family in catalog.families.values() if family.source is None and family.routes})
    output.note(f"families without kernels of their own: {', '.join(pending) or 'none'}")
    bad = [row for row in rows if row.error or row.obstacle]
    for row in bad:
        output.note(f"{row.arch} {row.source}.cu {row.kernel}: {row.error or 'cannot launch: ' + row.obstacle}")
    return 1 if bad else 0


def _capability(text: str) -> tuple[str, int]:
    arch = text.strip()
    found = _ARCH.fullmatch(arch)
    if found is None:
        raise UsageError(f"--arch {text[:_SHOWN]!r}: expected a list such as {DEFAULT_ARCHS}")
    known = load_nvrtc(toolkit_for(arch, find_toolkits()).library).capabilities()
    if int(found[1]) not in known:
        names = ", ".join(f"sm_{capability}" for capability in known)
        raise UsageError(f"--arch {arch!r}: this NVRTC does not compile for it; expected some of {names}")
    return arch, int(found[1])


def compile_arch(
    catalog: Catalog,
    cards: Sequence[ReferenceGpu],
    target: tuple[str, int],
    cache: KernelCache,
    only: str = "",
    *,
    on_unit: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Row]:
    """Compile for one architecture and its capability; on sm_70 the GDN prefill alone: nothing else is steered."""
    arch, capability = target
    device = device_facts(capability, cards)
    launches = named_launches(catalog, device, only)
    wanted: dict[str, set[str]] = {}
    for source, kernel in launches:
        wanted.setdefault(source, set()).add(kernel)
    units, refused = cache.compile_all(ROOT, wanted, arch, on_unit)
    reports = {(stem, kernel): unit.reports[kernel] for stem, unit in units for kernel in unit.names}
    rows: list[Row] = []
    for (source, kernel), (families, found) in sorted(launches.items()):
        threads = max(launch.block[0] * launch.block[1] * launch.block[2] for launch in found)
        dynamic = max(launch.shared_bytes for launch in found)
        report = reports.get((source, kernel))
        if report is None:
            error = refused[source, kernel]
            rows.append(Row(arch=arch, source=source, kernel=kernel, families=families, error=error))
            continue
        usage = Usage(
            registers=report.registers,
            static_shared_bytes=report.shared_bytes,
            dynamic_shared_bytes=dynamic,
            threads=threads,
        )
        rows.append(
            Row(
                arch=arch,
                source=source,
                kernel=kernel,
                families=families,
                registers=report.registers,
                stack_bytes=report.stack_bytes,
                spill_store_bytes=report.spill_store_bytes,
                spill_load_bytes=report.spill_load_bytes,
                static_shared_bytes=report.shared_bytes,
                dynamic_shared_bytes=dynamic,
                threads=threads,
                obstacle=obstacle(usage, device),
            )
        )
    return rows


def named_launches(
    catalog: Catalog, device: DeviceFacts, only: str = ""
) -> dict[tuple[str, str], tuple[tuple[str, ...], list[Launch]]]:
    """Return every launch that a legal candidate's plan holds, by (source, kernel), with the families that name it."""
    found: dict[tuple[str, str], tuple[set[str], list[Launch]]] = {}
    for route in catalog.calibrated:
        family = catalog.families[route.key]
        if route.operation is None or not route.key.startswith(only):
            continue
        if device.capability == VOLTA and family.group != "linear-attention":
            continue
        for width in route.widths:
            for name in (COMPILED, *(item.schedule for item in route.candidates if item.legal(width))):
                ask = dispatcher(catalog, {}, force=(route.key, name))
                for launch in route.operation.plan(width, ask, device):
                    families, launches = found.setdefault((launch.source, launch.kernel), (set(), []))
                    families.add(family.name)
                    launches.append(launch)
    return {place: (tuple(sorted(families)), launches) for place, (families, launches) in found.items()}


def _summary(rows: Sequence[Row]) -> str:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.arch, row.source), []).append(row)
    lines = []
    for (arch, source), found in groups.items():
        registers = [row.registers for row in found if not row.error]
        counts = (
            ("kernels", len(found)),
            ("spill", sum(bool(row.spill_store_bytes or row.spill_load_bytes) for row in found)),
            ("cannot launch", sum(bool(row.obstacle) for row in found)),
            ("refused", sum(bool(row.error) for row in found)),
        )
        text = ", ".join(f"{count:3} {what}" for what, count in counts)
        span = f"{min(registers, default=0)} to {max(registers, default=0)}"
        lines.append(f"{arch:8} {source + '.cu':22} {text}, {span} registers\n")
    return "".join(lines)


def _line(row: Row) -> str:
    spill = row.spill_store_bytes + row.spill_load_bytes
    text = (
        f"{row.arch} {row.source}.cu {row.kernel}: {row.threads} threads, {row.registers} registers, "
        f"{row.static_shared_bytes} + {row.dynamic_shared_bytes} bytes shared"
    )
    remarks = [f"{spill} bytes spilled"] if spill else []
    remarks += [f"cannot launch: {row.obstacle}"] if row.obstacle else []
    if row.error:
        return f"{row.arch} {row.source}.cu {row.kernel}: {row.error.splitlines()[0]}"
    return ", ".join([text, *remarks])
