"""Time a table's choices against all candidates on this GPU, or from evidence, and report what each choice costs.

Exit 3 with --most if the mean loss is larger.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.matching import find_entry
from ninfer_device_profiles.reading import parse_document

from generator.arguments import device_index, share
from generator.calibration import calibrate
from generator.core.catalog import build_catalog
from generator.core.evidence_file import load_evidence
from generator.core.evidence_report import regret_json, regret_markdown, regrets
from generator.core.limits import LIMITS
from generator.core.verdict import Rule
from generator.core.workload import select_routes
from generator.device_run import DeviceRun, refuse_overrides
from generator.errors import DeviceError, GateError
from generator.files import read_bytes, read_text
from generator.progress import ticker
from generator.shipped import shipped_table
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence
    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--replay", type=Path, metavar="FILE", help="take the times from evidence instead of a GPU")
    parser.add_argument("--table", type=Path, metavar="FILE", help="profile document (default: the built-in table)")
    parser.add_argument("--device", type=device_index, default=0, metavar="N", help="CUDA device index (default: 0)")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only route keys with this prefix")
    parser.add_argument("--allow-busy", action="store_true", help="measure although others use the device")
    parser.add_argument(
        "--least",
        type=share,
        default=LIMITS.min_gain,
        metavar="SHARE",
        help=f"list larger losses (default: {LIMITS.min_gain})",
    )
    parser.add_argument("--most", type=share, metavar="SHARE", help="exit 3 if the mean loss is larger")
    parser.add_argument("--json", action="store_true", help="print every point as JSON, largest loss first")


def run(arguments: Namespace, output: Output) -> int:
    """Measure or read, and report."""
    catalog = build_catalog(find_families())
    select_routes(catalog, only=arguments.only)
    label = "the built-in table" if arguments.table is None else str(arguments.table)
    table = shipped_table() if arguments.table is None else parse_document(read_bytes(arguments.table, label), label)
    if arguments.replay is not None:
        name = str(arguments.replay)
        evidence = load_evidence(read_text(arguments.replay, name), name)
    else:
        evidence = _measured(arguments, output, catalog)
    device = evidence.device
    entry = find_entry(table.devices, device.hardware_class, device.multiprocessors)
    if entry is None:
        raise DeviceError(
            f"{label}: no entry of {device.hardware_class!r} with {device.multiprocessors} SMs; "
            "name a document that has one with --table"
        )
    found = tuple(item for item in regrets(evidence, catalog, entry.routes) if item.key.startswith(arguments.only))
    if arguments.json:
        output.json([regret_json(item) for item in found])
    else:
        output.text(regret_markdown(found, f"{label} on {device.name}", arguments.least))
    shares = [item.share for item in found if item.share is not None]
    mean = sum(shares) / len(shares) if shares else 0.0
    if arguments.most is not None and mean > arguments.most:
        raise GateError(f"mean loss {mean:.2%}, allowed is {arguments.most:.2%}; calibrate this device anew")
    return 0


def _measured(arguments: Namespace, output: Output, catalog: Catalog) -> Evidence:
    refuse_overrides(os.environ)
    with DeviceRun("kernels:find_families", arguments.device, LIMITS, catalog) as device:
        device.occupants(allow=arguments.allow_busy)
        work = select_routes(catalog, only=arguments.only, capability=device.capability)
        device.start()
        output.note(device.opening(work))
        device.prepare(work, output.note)
        progress = ticker(output, work.points, quiet=False)
        try:
            return calibrate(
                bench=device.bench,
                catalog=catalog,
                routes=work.routes,
                limits=LIMITS,
                rule=Rule.GUARDED,
                run={},
                journal=None,
                resume=False,
                progress=progress,
                detail=False,
            ).evidence
        finally:
            progress.close()
