"""Bring in one round of the unified/* benchmarks: what to run on a lab machine, and the import of what it printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import add_root
from generator.core.bench_commands import bench_commands, manifest, script
from generator.core.bench_readers import find_programs
from generator.core.cases import EVERY_WIDTH
from generator.core.limits import UNIFIED_LIMITS
from generator.core.manifest import Manifest, OutputFile, Run, order_of, parse_manifest
from generator.core.round_files import EXECUTIONS
from generator.core.rounds import PROGRAM_DEFAULT, Conditions, Table, parse_device
from generator.errors import UsageError
from generator.repository import find_repository
from generator.round_store import import_outputs, load_grid, read_manifest_text
from kernels.widths import UNIFIED_GRID

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    commands = actions.add_parser("commands", help="print the shell script that runs one round on a lab machine")
    _add_set(commands)
    commands.add_argument("--round", type=int, choices=(1, 2), required=True, help="it decides which table runs first")
    blank = actions.add_parser("manifest", help="print the manifest of what the scripts of both rounds write")
    _add_set(blank)
    bring = actions.add_parser("import", help="add benchmark outputs to the round files")
    bring.add_argument("file", nargs="*", type=Path, help="outputs of one table of one round, CSV or text")
    bring.add_argument("--manifest", type=Path, help="a TOML file that names outputs, tables, rounds and conditions")
    bring.add_argument("--device", metavar="CLASS/SMS", help="what was measured: nvidia-geforce-rtx-3090-sm86/82")
    bring.add_argument("--round", type=int, help="1 or 2")
    bring.add_argument("--table", choices=[table.value for table in Table], help="NINFER_LINEAR_ROUTES of the runs")
    bring.add_argument("--first", default="", choices=["", *Table], help="table that ran first, where not as usual")
    bring.add_argument("--program", default="", help="benchmark program, where neither file nor name tells it")
    bring.add_argument(
        "--with", dest="settings", action="append", default=[], metavar="NAME=VALUE", help="what no file says: k=2048"
    )
    bring.add_argument(
        "--execution",
        default=PROGRAM_DEFAULT,
        choices=[*EXECUTIONS, PROGRAM_DEFAULT],
        help="execution to judge (default: each program's own)",
    )
    bring.add_argument("--build", default="", help="engine build")
    bring.add_argument("--cuda-driver", type=int, default=0, help="CUDA's encoded driver version, 13010 for 13.1")
    bring.add_argument("--power-limit-w", type=int, default=0, help="power limit in watts")
    bring.add_argument("--sm-clock-mhz", type=int, default=0, help="SM clock in MHz")
    bring.add_argument("--date", default="", help="day of the run, YYYY-MM-DD")
    bring.add_argument("--gpu", default="", help="digest of the GPU's UUID")
    add_root(bring)
    bring.add_argument("--json", action="store_true", help="print what was written as JSON")


def _add_set(parser: ArgumentParser) -> None:
    parser.add_argument("--device", required=True, metavar="CLASS/SMS", help="nvidia-geforce-rtx-3090-sm86/82")
    parser.add_argument("--grid", type=Path, help="width grid (default: the common grid)")
    parser.add_argument(
        "--execution",
        default="",
        choices=["", *EXECUTIONS],
        help="of every program that has a choice (default: its own)",
    )
    parser.add_argument("--only", default="", metavar="PREFIX", help="only programs that feed a key with this prefix")


def run(arguments: Namespace, output: Output) -> int:
    """Print what to run, or import what was printed."""
    if arguments.action == "import":
        return _import(arguments, output)
    device = parse_device(arguments.device)
    grid = load_grid(arguments.grid) if arguments.grid is not None else EVERY_WIDTH
    commands = bench_commands(
        find_programs().values(),
        device,
        grid.widths or UNIFIED_GRID,
        grid,
        prefix=arguments.only,
        execution=arguments.execution,
    )
    if arguments.action == "commands":
        order_of(arguments.round, "", "--round")
        output.text(script(commands, device, arguments.round))
    else:
        output.text(manifest(commands, device, UNIFIED_LIMITS.rounds, arguments.execution))
    return 0


def _import(arguments: Namespace, output: Output) -> int:
    repository = find_repository(arguments.root)
    if arguments.manifest is not None:
        if arguments.file or arguments.device or arguments.round or arguments.table:
            raise UsageError(
                f"--manifest {str(arguments.manifest)!r} beside files, --device, --round or --table; "
                "the manifest names them all. Leave one of the two out"
            )
        wanted = parse_manifest(read_manifest_text(arguments.manifest), str(arguments.manifest))
        base = arguments.manifest.parent
    else:
        wanted, base = _from_options(arguments), Path()
    added = import_outputs(wanted, base, repository.sources / "measured")
    for note in added.notes:
        output.note(f"note: {note}")
    rows = [
        {
            "file": repository.relative(path),
            "times": content.count(b'"median_us"'),
            "state": "written" if path in added.written else "unchanged",
        }
        for path, content in added.files.items()
    ]
    if arguments.json:
        output.json({"rounds": rows, "notes": list(added.notes)})
    else:
        for row in rows:
            output.text(f"{row['file']}: {row['times']} times, {row['state']}\n")
    return 0


def _from_options(arguments: Namespace) -> Manifest:
    lacking = [name for name in ("device", "round", "table", "file") if not getattr(arguments, name)]
    if lacking:
        raise UsageError(
            f"import: no {', '.join(lacking)}; give files with --device, --round and --table, or --manifest"
        )
    settings: dict[str, str] = {}
    for text in arguments.settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--with {text!r}; expected NAME=VALUE, such as k=2048")
        settings[name] = value
    return Manifest(
        device=parse_device(arguments.device),
        execution=arguments.execution,
        runs=(
            Run(
                round=arguments.round,
                table=Table(arguments.table),
                order=order_of(arguments.round, arguments.first, "--round"),
                conditions=Conditions(
                    build=arguments.build,
                    cuda_driver=arguments.cuda_driver,
                    power_limit_w=arguments.power_limit_w,
                    sm_clock_mhz=arguments.sm_clock_mhz,
                    date=arguments.date,
                    gpu=arguments.gpu,
                ),
                files=tuple(
                    OutputFile(path=str(path), program=arguments.program, settings=settings) for path in arguments.file
                ),
            ),
        ),
    )
