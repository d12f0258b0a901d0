"""Re-check the embedded files of a package against each other.

The engine does not check its built-in table at run time; the place for it is here and at emit. A schedule named past
its legal width is a remark and no fault: the engine ignores it there, and the shipped table has such a band.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ninfer_device_profiles import embedded
from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.linting import Rule, lint_document
from ninfer_device_profiles.matching import find_entry
from ninfer_device_profiles.writing import serialise_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

    from ninfer_device_profiles.embedded import BuildInfo, EmbeddedCatalog
    from ninfer_device_profiles.linting import Finding
    from ninfer_device_profiles.model import Document

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check: what was looked at, whether it holds, and what was found."""

    name: str
    holds: bool
    found: str


def check_package(folder: Traversable | None = None) -> tuple[Check, ...]:
    """Return every check of the package's embedded files; of ``folder`` instead of the package where given."""
    checks: list[Check] = []
    info = _loaded(checks, "build info", lambda: embedded.load_build_info(folder))
    catalog = _loaded(checks, "catalog", lambda: embedded.load_catalog(folder))
    table = _loaded(checks, "table", lambda: embedded.load_table(folder))
    if info is not None:
        checks += _digests(info, folder)
    if catalog is not None:
        checks.append(_compared("catalog digest, recomputed", catalog.computed_digest(), catalog.digest))
        if info is not None:
            checks.append(_compared("catalog digest, in build info", info.catalog_digest, catalog.digest))
    if table is not None:
        checks.append(_canonical(table, folder))
        checks.append(_matching(table))
        if catalog is not None:
            checks += _schedules(table, catalog)
    return tuple(checks)


def _loaded(checks: list[Check], name: str, load: Callable[[], T]) -> T | None:
    try:
        return load()
    except ProfileError as error:
        checks.append(Check(name=name, holds=False, found=str(error)))
        return None


def _digests(info: BuildInfo, folder: Traversable | None) -> list[Check]:
    checks = []
    for name, expected in ((embedded.TABLE, info.table_sha256), (embedded.CATALOG, info.catalog_sha256)):
        try:
            found = embedded.sha256(embedded.read_embedded(name, folder))
        except ProfileError:
            continue
        checks.append(_compared(f"{name}, SHA-256", found, expected))
    return checks


def _compared(name: str, found: str, expected: str) -> Check:
    holds = found == expected
    return Check(name=name, holds=holds, found=found if holds else f"{found}, expected {expected}")


def _canonical(table: Document, folder: Traversable | None) -> Check:
    same = serialise_table(table).encode() == embedded.read_embedded(embedded.TABLE, folder)
    found = "as the generator writes it" if same else "another layout or order than the generator writes"
    return Check(name="table layout", holds=same, found=found)


def _matching(table: Document) -> Check:
    lost = [
        f"{entry.hardware_class} with {entry.multiprocessors} SMs"
        for entry in table.devices
        if entry.multiprocessors <= 0
        or find_entry(table.devices, entry.hardware_class, entry.multiprocessors) is not entry
    ]
    found = f"not found: {', '.join(lost)}" if lost else f"{len(table.devices)} of {len(table.devices)} found"
    return Check(name="entries, by class and SM count", holds=not lost, found=found)


def _schedules(table: Document, catalog: EmbeddedCatalog) -> list[Check]:
    findings = lint_document(table, catalog, builtin=True)
    unknown = [item for item in findings if item.rule in {Rule.UNKNOWN_KEY, Rule.UNKNOWN_SCHEDULE}]
    past = [item for item in findings if item.rule is Rule.PAST_LEGAL_WIDTH]
    cells = sum(len(bands) for entry in table.devices for bands in entry.routes.values())
    return [
        Check(
            name="schedules, in the catalog",
            holds=not unknown,
            found=_listed(unknown) or f"{cells} of {cells} bands name a known key and a candidate, or no schedule",
        ),
        Check(
            name="schedules, at legal widths",
            holds=True,
            found=f"remark: {_listed(past)}" if past else f"{cells} of {cells} bands",
        ),
    ]


def _listed(findings: list[Finding]) -> str:
    return "; ".join(f"{item.where}: {item.text}" for item in findings)
