"""A release, stage by stage: read this first.

What costs a GPU is committed below ``builtin_profiles/sources/``. Everything here is a function of those files and runs
anywhere: each stage takes what the ones before it made, adds its own part, and stops the release where something does
not hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ninfer_device_profiles.document import Document, parse_document

from generator.core.catalog import build_catalog
from generator.core.derive import Derivation, derive
from generator.core.dropped import dropped_keys
from generator.core.report import Format, headline, render
from generator.core.review import Review, Side, review
from generator.core.sources import Sources
from generator.core.support import derived_supports
from generator.emitted import emitted_files
from generator.errors import GateError
from generator.files import write_files
from generator.repository import check_files, load_sources
from generator.revision import commit_epoch, newest_release, read_table, uncommitted
from generator.wheel import EARLIEST_EPOCH, Built, build_wheel, verify_installed
from kernels import find_families

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.repository import Repository


PACKED = ("builtin_profiles", "pyproject.toml")
"""What a wheel is made from: its project with the sources, and the version of the generator."""

_NAMED = 3
"""Files that are named in the note about uncommitted changes."""


@dataclass(kw_only=True)
class Release:
    """What a release knows; every stage fills in its part.

    Args:
        repository: the checkout.
        output: folder of the results.
        today: the day on which decisions by hand must still hold.
        epoch: SOURCE_DATE_EPOCH given from outside, or None for the commit's time.
        with_extras: ship the extras of ``reference_gpus.toml`` too.
        say: takes one line a fact.
    """

    repository: Repository
    output: Path
    today: dt.date
    epoch: int | None
    with_extras: bool
    say: Callable[[str], None]
    catalog: Catalog = field(init=False)
    sources: Sources = field(init=False)
    derivation: Derivation = field(init=False)
    review: Review = field(init=False)
    files: dict[Path, bytes] = field(init=False)
    built: Built = field(init=False)


def read_sources(release: Release) -> None:
    """Build the catalog from the family files and read every source."""
    changed = uncommitted(release.repository.root, *PACKED)
    if changed:
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        release.say(
            f"note: not as committed: {', '.join(changed[:_NAMED])}{more}; the wheel will not be that of the commit. "
            "Commit or stash that before a release"
        )
    release.catalog = build_catalog(find_families())
    release.sources = load_sources(release.repository, release.catalog, release.today)
    sources = release.sources
    release.say(
        f"route catalog {release.catalog.digest()}: {len(release.catalog.calibrated)} calibrated keys; sources: "
        f"{len(sources.imported)} imported, {len(sources.measured)} measured, {len(sources.selected)} selected, "
        f"{len(sources.overrides)} by hand"
    )


def derive_table(release: Release) -> None:
    """Derive the table, and check that the committed one is the same."""
    release.derivation = derive(release.sources, release.catalog, with_extras=release.with_extras)
    default = derive(release.sources, release.catalog) if release.with_extras else release.derivation
    committed = emitted_files(release.repository, release.sources, default, release.catalog)
    check_files(release.repository, committed, "run `python -m generator emit --write` and review the difference")
    release.say(f"{len(release.derivation.document.devices)} devices; the committed files are what the sources give")
    for item in dropped_keys(release.sources, release.derivation):
        release.say(f"note: {item}")
    for card in release.derivation.missing:
        release.say(f"MISSING: {card.name} has no entry; nobody has measured it (python -m generator plan)")


def review_change(release: Release) -> None:
    """Compare the effective routing with the last release, and let the gate say its word."""
    label, old = _last_release(release)
    reference = tuple(card for card in release.sources.reference if not card.extra)
    release.review = review(
        Side(label, old),
        Side("this release", release.derivation.document),
        release.catalog,
        reference=reference,
        supports=derived_supports(release.derivation, release.sources),
    )
    names = {"review.md": Format.MARKDOWN, "review.html": Format.HTML, "review.json": Format.JSON}
    write_files({release.output / name: render(release.review, form).encode() for name, form in names.items()})
    release.say(f"compared with {label}, see review.html: {headline(release.review)}")
    if release.review.refused:
        reasons = sorted({item.refusal.value for item in release.review.refused})
        raise GateError(
            f"the gate says no: {', '.join(reasons)}; {release.output / 'review.md'} names each. "
            "Restore what is lost, or add evidence that it should go"
        )


def _last_release(release: Release) -> tuple[str, Document]:
    tag = newest_release(release.repository.root)
    if tag is None:
        imported = Sources(reference=release.sources.reference, imported=release.sources.imported)
        return "the imported entries alone (no release tag yet)", derive(imported, release.catalog).document
    return tag, parse_document(read_table(tag, release.repository), tag)


def emit_files(release: Release) -> None:
    """Write the table, the catalog, the build info and the C++ pair of this release."""
    release.files = emitted_files(release.repository, release.sources, release.derivation, release.catalog)
    write_files({release.output / path.name: content for path, content in release.files.items()})
    release.say(f"wrote {', '.join(path.name for path in release.files)}")


def build_package(release: Release) -> None:
    """Build sdist and wheel twice, compare them, and check names and metadata."""
    epoch = release.epoch if release.epoch is not None else commit_epoch(release.repository.root) or EARLIEST_EPOCH
    package = {path: content for path, content in release.files.items() if path.parent == release.repository.package}
    release.built = build_wheel(release.repository, package, release.output, epoch, release.say)


def verify_package(release: Release) -> None:
    """Install the wheel into an empty environment and let it verify itself."""
    for line in verify_installed(release.built.wheel.resolve(), release.say).splitlines():
        release.say(line)


class Stage(NamedTuple):
    """One step of a release."""

    name: str
    run: Callable[[Release], None]


STAGES = (
    Stage("sources", read_sources),
    Stage("derive", derive_table),
    Stage("review", review_change),
    Stage("emit", emit_files),
    Stage("wheel", build_package),
    Stage("verify", verify_package),
)
"""All stages, in order."""
