"""Measure every route family on a GPU and store the profile where the engine looks for it.

Exit 0: stored. Exit 1: the device is absent, busy or another card, or storing was refused. Exit 2: usage.
Ctrl-C leaves a journal; the command that goes on from it is printed.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.location import profile_location
from ninfer_device_profiles.model import Document
from ninfer_device_profiles.store import store_profile
from ninfer_device_profiles.writing import serialise

from generator.arguments import device_or_all, share
from generator.calibration import Outcomes, calibrate, summary_lines
from generator.core.catalog import build_catalog
from generator.core.evidence_file import dump_evidence, evidence_name, load_evidence
from generator.core.limits import LIMITS
from generator.core.recorded_rule import recorded_rule
from generator.core.route import Group
from generator.core.settle import earlier_choices
from generator.core.verdict import Rule
from generator.core.workload import Workload, key_words, select_routes
from generator.device_run import DeviceRun, device_count, named_card, refuse_other_card, refuse_overrides
from generator.engine import run_engine
from generator.errors import GeneratorError, UsageError
from generator.files import read_text, write_files
from generator.gpu.kernel_cache import cache_folder
from generator.progress import ticker
from generator.replay import ReplayBench
from generator.repository import find_repository
from generator.shipped import shipped_diff
from generator.stored import stored_choices
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ninfer_device_profiles.model import Profile

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence
    from generator.core.limits import Limits
    from generator.core.reference import ReferenceGpu
    from generator.output import Output

FAMILIES = "kernels:find_families"
_SESSION = "calibrate"
_SKIPS = (Group.TERNARY, Group.GROUPWISE, Group.ATTENTION, Group.LINEAR_ATTENTION)


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments: the engine tool's own, then ours."""
    parser.add_argument(
        "--device", type=device_or_all, default="0", metavar="N", help="CUDA device index, or all (default: 0)"
    )
    parser.add_argument("--out", metavar="PATH", default="", help="profile file (default: where the engine looks)")
    parser.add_argument("--print", action="store_true", dest="print_entry", help="print the stored entry to stdout")
    parser.add_argument("--repeat", type=int, metavar="N", help="samples a median, at least 3 (default: 11)")
    parser.add_argument("--margin", type=share, metavar="F", help="share a candidate must save (default: 0.03)")
    for group in _SKIPS:
        parser.add_argument(f"--no-{group}", action="store_true", help=f"skip the {group} family")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only route keys with this prefix")
    parser.add_argument("--detail", action="store_true", help="log every candidate's time")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--rule", choices=[rule.value for rule in Rule], help="default: guarded")
    parser.add_argument("--afresh", action="store_true", help="decide without the choices of the stored entry")
    parser.add_argument("--exhaustive", action="store_true", help="time hopeless candidates to the end")
    parser.add_argument("--allow-busy", action="store_true", help="measure although others use the device")
    parser.add_argument("--evidence", type=Path, metavar="DIR", help="folder of evidence (with --card: the sources)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="decide and store from evidence instead of measuring"
    )
    parser.add_argument("--engine", type=Path, metavar="PATH", help="let the engine's ninfer-calibrate measure")
    parser.add_argument("--card", metavar="NAME", help="refuse any other card, for example rtx-3090")


def run(arguments: Namespace, output: Output) -> int:
    """Calibrate."""
    catalog = build_catalog(find_families())
    card = named_card(arguments.card)
    _selected(arguments, catalog, None if card is None else card.capability)
    if arguments.replay is not None:
        return _replay(arguments, output, catalog, card)
    refuse_overrides(os.environ)
    if arguments.engine is not None:
        return _engine(arguments, output, catalog)
    if arguments.device is not None:
        return _measure(arguments, output, catalog, arguments.device, card)
    devices = range(device_count(FAMILIES, _SESSION, card))
    codes = [_measure(arguments, output, catalog, index, card) for index in devices]
    return max(codes)


def _rule(arguments: Namespace, rule: Rule, limits: Limits) -> tuple[Rule, Limits]:
    if arguments.rule is not None:
        rule = Rule(arguments.rule)
    if arguments.margin is not None:
        limits = replace(limits, min_gain=arguments.margin)
    if arguments.repeat is not None:
        limits = replace(limits, samples=max(arguments.repeat, limits.least_samples))
    return rule, limits


def _selected(arguments: Namespace, catalog: Catalog, capability: int | None = None) -> Workload:
    skip = [group for group in _SKIPS if getattr(arguments, f"no_{group.replace('-', '_')}")]
    return select_routes(catalog, only=arguments.only, skip=skip, capability=capability)


def _replay(arguments: Namespace, output: Output, catalog: Catalog, card: ReferenceGpu | None) -> int:
    name = str(arguments.replay)
    evidence = load_evidence(read_text(arguments.replay, name), name)
    refuse_other_card(card, evidence.device, f"replay {name} without --card")
    rule, limits = _rule(arguments, *recorded_rule(evidence, name))
    measured = {facts.key for facts in evidence.keys}
    work = _selected(arguments, catalog, evidence.device.capability)
    routes = [route for route in (*work.routes, *work.pending) if route.key in measured]
    routes.sort(key=lambda route: route.order)
    bench = ReplayBench(evidence, name)
    points = sum(len(route.widths) for route in routes)
    _note(arguments, output, f"replaying {key_words(routes)} of {name}, {rule} rule; no GPU")
    progress = ticker(output, points, quiet=arguments.quiet)
    try:
        outcomes = calibrate(
            bench=bench,
            catalog=catalog,
            routes=routes,
            limits=limits,
            rule=rule,
            run={},
            journal=None,
            resume=False,
            progress=progress,
            detail=arguments.detail,
            earlier=earlier_choices(evidence),
            afresh=arguments.afresh,
        )
    finally:
        progress.close()
    return _store(arguments, output, catalog, outcomes, arguments.evidence)


def _engine(arguments: Namespace, output: Output, catalog: Catalog) -> int:
    """Let the engine's tool measure; a failure of it changes nothing."""
    done = run_engine(
        arguments.engine, engine_options(arguments), catalog, lambda line: _note(arguments, output, f"engine: {line}")
    )
    _write_evidence(arguments, output, done.evidence, arguments.evidence or cache_folder().parent / "evidence")
    _store_profile(arguments, output, catalog, done.profile)
    return 0


def engine_options(arguments: Namespace) -> list[str]:
    """Return the options of the engine's tool that ``arguments`` ask for.

    Raises:
        UsageError: an option is asked for that the tool does not have.
    """
    ours = ("rule", "afresh", "exhaustive", "resume", "card", "allow_busy")
    for name in ours:
        if getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} beside --engine; the engine's tool has no such option")
    if arguments.device is None:
        raise UsageError("--device all beside --engine; the engine's tool measures one device. Name one by its index")
    words = ["--device", str(arguments.device)]
    for name in ("repeat", "margin"):
        value = getattr(arguments, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--only", arguments.only] if arguments.only else []
    words += [f"--no-{group}" for group in _SKIPS if getattr(arguments, f"no_{group.replace('-', '_')}")]
    return words


def _measure(arguments: Namespace, output: Output, catalog: Catalog, index: int, card: ReferenceGpu | None) -> int:
    rule, limits = _rule(arguments, Rule.GUARDED, LIMITS)
    options = {"exhaustive": arguments.exhaustive, "session": _SESSION, "card": card}
    with DeviceRun(FAMILIES, index, limits, catalog, **options) as device, device.journal.held():
        device.refuse_other_card()
        busy = device.occupants(allow=arguments.allow_busy)
        work = _selected(arguments, catalog, device.capability)
        for line in _pending_lines(work):
            _note(arguments, output, line)
        if not work.routes:
            raise GeneratorError("nothing to measure: the kernels of every selected key are pending")
        device.start()
        _note(arguments, output, device.opening(work))
        device.prepare(work, lambda text: _note(arguments, output, text))
        run = device.run_facts(dt.datetime.now(dt.UTC), busy) | ({"afresh": True} if arguments.afresh else {})
        earlier = {} if arguments.afresh else stored_choices(_location(arguments), device.bench.facts().device, catalog)
        progress = ticker(output, work.points, quiet=arguments.quiet)
        try:
            outcomes = calibrate(
                bench=device.bench,
                catalog=catalog,
                routes=work.routes,
                limits=limits,
                rule=rule,
                run=run,
                journal=device.journal,
                resume=arguments.resume,
                progress=progress,
                detail=arguments.detail,
                earlier=earlier,
            )
        except KeyboardInterrupt:
            progress.close()
            output.note(_resumption("stopped; finished keys are in", device.journal.path))
            raise
        finally:
            progress.close()
        folder = arguments.evidence or evidence_folder(arguments.card, device.journal.path)
        try:
            code = _store(arguments, output, catalog, outcomes, folder)
        except (GeneratorError, ProfileError, OSError, KeyboardInterrupt):
            output.note(_resumption("not stored; every key is in", device.journal.path))
            raise
        device.journal.finish()
    return code


def evidence_folder(card: str | None, journal: Path) -> Path:
    """Return where evidence goes unless told: a reference card's into the sources, any other's beside the journal."""
    return journal.parent.parent / "evidence" if card is None else find_repository().sources / "measured"


def resume_command(words: list[str]) -> str:
    """Return the command line ``words`` with ``--resume``, as a shell takes it."""
    program = Path(words[0])
    start = ["python", "-m", "generator"] if program.name == "__main__.py" else [program.name]
    rest = [word for word in words[1:] if word != "--resume"]
    return shlex.join([*start, *rest, "--resume"])


def _resumption(where: str, journal: Path) -> str:
    return f"{where} {journal}\nresume: {resume_command(sys.argv)}"


def _pending_lines(work: Workload) -> list[str]:
    if not work.pending:
        return []
    names = sorted({route.key.partition("/")[0] for route in work.pending})
    return [f"pending, not measured: {len(work.pending)} keys whose kernels are not written ({', '.join(names)})"]


def _note(arguments: Namespace, output: Output, text: str) -> None:
    if not arguments.quiet:
        output.note(text)


def _store(arguments: Namespace, output: Output, catalog: Catalog, outcomes: Outcomes, folder: Path | None) -> int:
    """Write evidence, store the entry, and close as the engine's tool does."""
    for line in summary_lines(outcomes):
        _note(arguments, output, line)
    if folder is not None:
        _write_evidence(arguments, output, outcomes.evidence, folder)
    _store_profile(arguments, output, catalog, outcomes.profile)
    return 1 if outcomes.incomplete else 0


def _write_evidence(arguments: Namespace, output: Output, evidence: Evidence, folder: Path) -> None:
    path = folder / evidence_name(evidence)
    write_files({path: dump_evidence(evidence).encode()})
    _note(arguments, output, f"evidence: {path}")


def _location(arguments: Namespace) -> str:
    return profile_location(os.environ, platform=sys.platform, explicit=arguments.out).path


def _store_profile(arguments: Namespace, output: Output, catalog: Catalog, measured: Profile) -> None:
    stored = store_profile(measured, _location(arguments))
    if arguments.print_entry:
        output.text(serialise(Document(devices=(stored.profile,))))
    if not arguments.quiet:
        output.note(shipped_diff(measured, catalog).rstrip("\n"))
    profile = stored.profile
    output.note(
        f"stored {len(profile.routes)} measured keys for {profile.hardware_class} ({profile.multiprocessors} SMs, "
        f"route catalog {measured.calibration.route_catalog if measured.calibration else 'unknown'}) in {stored.path}"
    )
