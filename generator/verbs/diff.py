"""Compare the effective routing of two tables: what changes for which device, key and width.

OLD and NEW are a PATH, a REV:PATH, or a git revision (the built-in table as it was then). Where NEW is a profile
file and OLD a table, the profile file is laid over OLD and compared with OLD alone. With --with-extras each side is
derived from its own sources, extras included, in place of the table without them. Exit code 0 whatever the comparison
finds; with --gate, 3 where coverage is lost, a schedule is unknown, or a device is dropped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import Document, parse_document

from generator.arguments import add_root
from generator.core.catalog import build_catalog
from generator.core.cause import causes, judged_as_recorded
from generator.core.derive import derive
from generator.core.report import Format, render
from generator.core.review import Side, review
from generator.core.routing import DeviceId
from generator.core.strips import width_words
from generator.core.support import derived_supports
from generator.errors import GateError, GeneratorError, SourceError, UsageError
from generator.evidence_pair import load_pair
from generator.files import write_report
from generator.repository import current_day, find_repository, load_reference, load_sources
from generator.revision import read_table, sources_at
from kernels import find_families

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from generator.core.catalog import Catalog
    from generator.core.derive import Derivation
    from generator.core.diff import Supports
    from generator.core.reference import ReferenceGpu
    from generator.core.review import Review
    from generator.core.sources import Sources
    from generator.output import Output
    from generator.repository import Repository

_NAMED = 5


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("old", nargs="?", default="HEAD", metavar="OLD", help="what was (default: HEAD)")
    parser.add_argument("new", nargs="?", metavar="NEW", help="what is reviewed (default: the table in the checkout)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=[item.value for item in Format], default="text", help="default: text")
    form.add_argument("--json", action="store_const", const="json", dest="format", help="short for --format json")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report to FILE instead of stdout")
    parser.add_argument("--gate", action="store_true", help="exit 3 on lost coverage, unknown schedules, lost devices")
    parser.add_argument("--file", metavar="PROFILE", help="a profile file that lies over both tables")
    parser.add_argument(
        "--evidence",
        nargs=2,
        type=Path,
        metavar=("BEFORE", "AFTER"),
        help="evidence behind OLD and NEW of one card; names the cause of each change",
    )
    parser.add_argument(
        "--with-extras",
        action="store_true",
        help="derive both sides from their sources, extras included; OLD and NEW are then revisions",
    )
    add_root(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Compare, report, and let the gate say its word."""
    repository = find_repository(arguments.root)
    catalog = build_catalog(find_families())
    found = _review(arguments, repository, catalog, output)
    write_report(render(found, Format(arguments.format)), arguments.output, output)
    if arguments.gate and found.refused:
        raise GateError(_refusal(found))
    return 0


def _review(arguments: Namespace, repository: Repository, catalog: Catalog, output: Output) -> Review:
    if arguments.with_extras:
        return _review_with_extras(arguments, repository, catalog)
    new_name = str(repository.table) if arguments.new is None else arguments.new
    new_label = repository.relative(repository.table) if arguments.new is None else arguments.new
    old, new = _document(arguments.old, arguments.old, repository), _document(new_name, new_label, repository)
    file = None if arguments.file is None else _document(arguments.file, arguments.file, repository)
    in_tree = arguments.new is None or Path(arguments.new).absolute() == repository.table.absolute()
    reference, supports = _sources(new, repository, catalog, output, in_tree=in_tree)
    if file is None and _calibrated(new) and not _calibrated(old):
        before, after = Side(arguments.old, old), Side(f"{new_label} over {arguments.old}", old, new)
    else:
        before, after = Side(arguments.old, old, file), Side(new_label, new, file)
    found = _causes(arguments.evidence, catalog) if arguments.evidence else {}
    return review(before, after, catalog, reference=reference, supports=supports, causes=found)


def _review_with_extras(arguments: Namespace, repository: Repository, catalog: Catalog) -> Review:
    """Return the review of two tables that are each derived from the sources of their side, extras included."""
    if arguments.file is not None:
        raise UsageError("--file beside --with-extras; a profile file lies over the tables alone. Leave one away")
    old, _, _ = _derived(arguments.old, repository, catalog)
    new, sources, derivation = _derived(arguments.new, repository, catalog)
    return review(
        Side(f"{arguments.old} with extras", old),
        Side(f"{'this checkout' if arguments.new is None else arguments.new} with extras", new),
        catalog,
        reference=tuple(card for card in sources.reference if not card.extra),
        supports=derived_supports(derivation, sources),
        causes=_causes(arguments.evidence, catalog) if arguments.evidence else {},
    )


def _derived(revision: str | None, repository: Repository, catalog: Catalog) -> tuple[Document, Sources, Derivation]:
    """Return the table that the sources of ``revision`` give, of the checkout where it is None."""
    if revision is None:
        sources = load_sources(repository, catalog, current_day())
    else:
        with sources_at(revision, repository) as (then, day):
            try:
                sources = load_sources(then, catalog, day)
            except SourceError as error:
                raise SourceError(
                    f"{revision}: its sources are not what this checkout reads: {error}. Compare the tables alone, "
                    "without --with-extras"
                ) from None
    derivation = derive(sources, catalog, with_extras=True)
    return derivation.document, sources, derivation


def _causes(paths: Sequence[Path], catalog: Catalog) -> dict[tuple[DeviceId, str, int], str]:
    """Return why the runs behind two tables decide differently, by device, key and measured width."""
    old, new = load_pair(*paths)
    device = DeviceId(new.device.hardware_class, new.device.multiprocessors)
    found = causes(judged_as_recorded(old), judged_as_recorded(new), catalog)
    return {(device, key, width): str(item) for (key, width), item in found.items()}


def _document(name: str, label: str, repository: Repository) -> Document:
    return parse_document(read_table(name, repository), label)


def _calibrated(document: Document) -> bool:
    return any(profile.calibration is not None for profile in document.devices)


def _sources(
    new: Document, repository: Repository, catalog: Catalog, output: Output, *, in_tree: bool
) -> tuple[tuple[ReferenceGpu, ...], Supports]:
    """Return the reference GPUs, and where the new table is what the sources give, the source behind each band.

    Where the new table is the one ``in_tree`` and is not what they give, a note says so. A broken source of the
    checkout is an error only there; any other table is compared without the evidence, and a note says why.

    Raises:
        SourceError: the new table is the checkout's, and a source of it is broken; or its list of GPUs is.
    """
    try:
        sources = load_sources(repository, catalog, current_day())
    except SourceError as error:
        if in_tree:
            raise
        output.note(f"note: no evidence shown, a source of this checkout is broken: {error}")
        return tuple(card for card in load_reference(repository) if not card.extra), {}
    reference = tuple(card for card in sources.reference if not card.extra)
    try:
        derivation = derive(sources, catalog)
    except GeneratorError as error:
        output.note(f"no evidence shown: {error}")
        return reference, {}
    if derivation.document.devices != new.devices:
        if in_tree:
            output.note(
                "note: the sources of this checkout give another table than the one compared here; "
                "`python -m generator derive --write` brings it up to date"
            )
        return reference, {}
    return reference, derived_supports(derivation, sources)


def _refusal(found: Review) -> str:
    reasons = [
        f"{item.refusal} on {item.device.hardware_class} ({item.device.multiprocessors} SMs)"
        + (f", {item.key!r} at {width_words(item.ranges)}" if item.key else "")
        for item in found.refused[:_NAMED]
    ]
    more = len(found.refused) - len(reasons)
    tail = f"; and {more} more" if more else ""
    return f"the gate says no: {'; '.join(reasons)}{tail}. Restore what is lost, or add evidence that it should go"
