"""Show, per reference GPU, which keys are present, missing or stale, and how to measure what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from generator.arguments import add_root
from generator.core.catalog import build_catalog
from generator.core.derive import derive
from generator.core.dropped import dropped_keys
from generator.core.plan import State, make_plan
from generator.core.selected import rounds_present
from generator.repository import current_day, find_repository, load_sources
from generator.round_store import load_round_files
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.core.plan import CardPlan
    from generator.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--keys", action="store_true", help="list every key, not only counts")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    add_root(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Print the plan."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    sources = load_sources(repository, catalog, current_day())
    derivation = derive(sources, catalog, with_extras=True)
    files = load_round_files(repository.sources / "measured")
    plans = make_plan(sources, derivation, catalog, rounds=rounds_present(file.round for file in files))
    for item in dropped_keys(sources, derivation):
        output.note(f"note: {item}")
    if arguments.json:
        output.json([_json(plan) for plan in plans])
        return 0
    table = Table(
        "GPU", "SMs", "measured", "imported", "stale", "absent", "unified rounds (2/1/0)", "nox session", title="plan"
    )
    for plan in plans:
        name = f"{plan.card.name} (extra)" if plan.card.extra else plan.card.name
        counts = [str(plan.count(state)) for state in (State.MEASURED, State.IMPORTED, State.STALE, State.ABSENT)]
        held = [sum(1 for number in plan.rounds.values() if number == wanted) for wanted in (2, 1, 0)]
        rounds = "/".join(map(str, held)) if plan.rounds else "none needed"
        takes = (
            f"about {max(plan.seconds, 1):.0f} s (timed on {' and '.join(plan.timed_on)})"
            if plan.seconds
            else "all measured"
        )
        session = f"{plan.command.removeprefix('nox -s ')}, {takes}"
        table.add_row(name, str(plan.card.multiprocessors), *counts, rounds, session)
    output.show(table)
    for plan in plans:
        if plan.missing:
            output.text(
                f"MISSING: {plan.card.name} has no entry; nobody has measured one. On a machine with the card:"
                f" {plan.command} (CUDA {plan.card.cuda}, {len(plan.keys)} keys)\n"
            )
        if arguments.keys:
            for key, state in plan.keys.items():
                output.text(
                    f"{plan.card.slug} {state.value:8} {key}{'  (kernels pending)' if key in plan.pending else ''}\n"
                )
            for key, number in plan.rounds.items():
                output.text(f"{plan.card.slug} {number} of 2 rounds {key}\n")
    return 0


def _json(plan: CardPlan) -> dict[str, object]:
    return {
        "name": plan.card.name,
        "hardware_class": plan.card.hardware_class,
        "multiprocessors": plan.card.multiprocessors,
        "extra": plan.card.extra,
        "missing": plan.missing,
        "keys": {key: state.value for key, state in plan.keys.items()},
        "kernels_pending": list(plan.pending),
        "unified_rounds": dict(plan.rounds),
        "seconds": round(plan.seconds, 1),
        "timed_on": list(plan.timed_on),
        "command": plan.command,
    }
