"""Where the project's files are, and how its sources are read: the only reader of them outside tests."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generator.core.bench_readers import judged_cases
from generator.core.evidence_file import load_evidence
from generator.core.imported import read_imported, source_name
from generator.core.measured import measured_sources
from generator.core.overrides import check_expiry, parse_overrides
from generator.core.reference import parse_reference_gpus
from generator.core.selected import selected_sources
from generator.core.sources import Sources
from generator.errors import DifferenceError, SourceError, UsageError
from generator.files import listed, listed_below, read_bytes, utf8
from generator.round_store import load_grids, load_round_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence
    from generator.core.imported import Imported
    from generator.core.reference import ReferenceGpu

_EPOCH = re.compile(r"[0-9]{1,12}")
_LAST_EPOCH = 253402300799
"""9999-12-31: no date is later."""

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Repository:
    """Paths below the checkout's root."""

    root: Path

    @property
    def project(self) -> Path:
        """Return the wheel project's folder."""
        return self.root / "builtin_profiles"

    @property
    def package(self) -> Path:
        """Return the wheel's import package."""
        return self.project / "ninfer_device_profiles"

    @property
    def table(self) -> Path:
        """Return the committed built-in table."""
        return self.package / "device_profiles.json"

    @property
    def sources(self) -> Path:
        """Return the folder of all sources."""
        return self.project / "sources"

    @property
    def reference(self) -> Path:
        """Return the list of reference GPUs."""
        return self.project / "reference_gpus.toml"

    @property
    def cpp(self) -> Path:
        """Return the folder of the emitted C++ files."""
        return self.project / "cpp"

    @property
    def templates(self) -> Path:
        """Return the folder of templates."""
        return self.root / "templates"

    def relative(self, path: Path) -> str:
        """Return ``path`` as messages name it: below the root where it lies there."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def find_repository(root: Path | None = None) -> Repository:
    """Return the checkout that this code runs from, or the one at ``root``.

    Raises:
        SourceError: there is no ``builtin_profiles/reference_gpus.toml`` below it.
    """
    repository = Repository(root if root is not None else Path(__file__).resolve().parent.parent)
    if not repository.reference.is_file():
        raise SourceError(
            f"{repository.root}: no builtin_profiles/reference_gpus.toml; expected a checkout of the project. "
            "Run from a clone (pip install -e .), or name one with --root"
        )
    return repository


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def load_sources(repository: Repository, catalog: Catalog, today: dt.date) -> Sources:
    """Read every source below the repository.

    Raises:
        SourceError: a source is missing, broken, or a decision by hand has expired.
    """
    digests: dict[str, str] = {}

    def take(path: Path) -> bytes:
        name = repository.relative(path)
        content = read_bytes(path, name)
        digests[path.relative_to(repository.project).as_posix()] = sha256_of(content)
        return content

    def take_text(path: Path) -> str:
        return utf8(take(path), repository.relative(path))

    reference = parse_reference_gpus(take_text(repository.reference), repository.relative(repository.reference))
    decisions = repository.sources / "overrides.toml"
    overrides = parse_overrides(take_text(decisions), repository.relative(decisions), catalog)
    check_expiry(overrides, today, repository.relative(decisions))
    imported = tuple(
        _in_its_place(read_imported(take(path), repository.relative(path)), path, repository.relative(path))
        for path in listed(repository.sources / "imported", "sources/imported", "*.json")
    )
    files: list[tuple[str, str, Evidence]] = []
    for path in listed_below(repository.sources / "measured", "sources/measured", "*", "*.json"):
        name = path.relative_to(repository.sources / "measured").as_posix()
        evidence = load_evidence(take_text(path), repository.relative(path))
        files.append((name, digests[f"sources/measured/{name}"], evidence))
    measured = measured_sources(files, catalog)
    rounds = load_round_files(repository.sources / "measured")
    digests |= {f"sources/measured/{file.name}": file.sha256 for file in rounds}
    for path in listed_below(repository.sources / "measured", "sources/measured", "*", "rounds", "grid.toml"):
        take(path)
    grids = load_grids(repository.sources / "measured")
    return Sources(
        reference=reference,
        imported=imported,
        measured=measured,
        selected=selected_sources(rounds, judged_cases(), grids=grids),
        overrides=overrides,
        digests=digests,
    )


def load_reference(repository: Repository) -> tuple[ReferenceGpu, ...]:
    """Return the reference GPUs and extras, without a look at any source.

    Raises:
        SourceError: the list is missing or broken.
    """
    name = repository.relative(repository.reference)
    return parse_reference_gpus(utf8(read_bytes(repository.reference, name), name), name)


def _in_its_place(item: Imported, path: Path, name: str) -> Imported:
    expected = source_name(item.profile.hardware_class, item.profile.multiprocessors)
    if path.name != expected:
        raise SourceError(
            f"{name}: holds the entry of {item.profile.hardware_class!r} ({item.profile.multiprocessors} SMs), whose "
            f"file is {expected!r}. Rename the file, or remove it if that one is there"
        )
    return item


def check_files(repository: Repository, files: Mapping[Path, bytes], remedy: str) -> None:
    """Raise for the first committed file that differs from what its sources give.

    Raises:
        DifferenceError: names the file and its first differing line.
    """
    for path, content in files.items():
        name = repository.relative(path)
        if not path.is_file():
            raise DifferenceError(f"{name}: not there; {remedy}")
        found = read_bytes(path, name)
        if found == content:
            continue
        old, new = found.decode("utf-8", "replace").splitlines(), content.decode("utf-8", "replace").splitlines()
        line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        shown = [repr(lines[line][:100]) if line < len(lines) else "end of file" for lines in (old, new)]
        raise DifferenceError(f"{name} line {line + 1}: found {shown[0]}, expected {shown[1]}; {remedy}")


def source_date_epoch(environment: Mapping[str, str]) -> int | None:
    """Return SOURCE_DATE_EPOCH in seconds since 1970, or None where it is unset or empty.

    Raises:
        UsageError: it is no number of digits, or lies past the year 9999.
    """
    text = environment.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not _EPOCH.fullmatch(text) or int(text) > _LAST_EPOCH:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise UsageError(
            f"SOURCE_DATE_EPOCH: {shown!r}; expected seconds since 1970 in digits, up to {_LAST_EPOCH}. "
            "Correct or unset the variable"
        )
    return int(text)


def today_from(environment: Mapping[str, str], clock: dt.date) -> dt.date:
    """Return the day that counts: of SOURCE_DATE_EPOCH where it is set (reproducible builds), else of the clock.

    Raises:
        UsageError: SOURCE_DATE_EPOCH is none.
    """
    epoch = source_date_epoch(environment)
    return clock if epoch is None else dt.datetime.fromtimestamp(epoch, tz=dt.UTC).date()


def current_day() -> dt.date:
    """Return today's date, UTC, or that of SOURCE_DATE_EPOCH."""
    return today_from(os.environ, dt.datetime.now(tz=dt.UTC).date())
