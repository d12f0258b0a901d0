"""Where the project's files are, and how they are read and written: the only reader of sources outside tests."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.atomic import real_target, refusal, replace_file

from generator.core.bench_readers import judged_cases
from generator.core.evidence_file import load_evidence
from generator.core.imported import read_imported
from generator.core.measured import measured_source
from generator.core.overrides import check_expiry, parse_overrides
from generator.core.reference import parse_reference_gpus
from generator.core.selected import selected_sources
from generator.core.sources import Sources
from generator.errors import DifferenceError, SourceError
from generator.round_store import load_grids, load_round_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.catalog import Catalog

MAX_SOURCE_BYTES = 64 * 1024 * 1024
"""No source is near this size; a larger file is refused before it is read."""


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


def read_bytes(path: Path, name: str) -> bytes:
    """Return the content of a regular file of sensible size.

    Raises:
        SourceError: not a regular file, too large, or not readable.
    """
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file" if path.exists() else "not there"
            raise SourceError(f"{name}: {what}; expected a file")
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise SourceError(f"{name}: {size} bytes; expected at most {MAX_SOURCE_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror or error}; check the path and its permissions") from None


def read_text(path: Path, name: str) -> str:
    """Return the UTF-8 text of a file.

    Raises:
        SourceError: as `read_bytes`, or the content is not UTF-8.
    """
    try:
        return read_bytes(path, name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"{name}: byte {error.start} is not UTF-8; restore the file") from None


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
        try:
            return take(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{repository.relative(path)}: byte {error.start} is not UTF-8; restore the file"
            ) from None

    reference = parse_reference_gpus(take_text(repository.reference), repository.relative(repository.reference))
    decisions = repository.sources / "overrides.toml"
    overrides = parse_overrides(take_text(decisions), repository.relative(decisions), catalog)
    check_expiry(overrides, today, repository.relative(decisions))
    imported = tuple(
        read_imported(take(path), repository.relative(path))
        for path in sorted((repository.sources / "imported").glob("*.json"))
    )
    evidence = tuple(
        (
            path.relative_to(repository.sources / "measured").as_posix(),
            load_evidence(take_text(path), repository.relative(path)),
        )
        for path in sorted((repository.sources / "measured").glob("*/*.json"))
    )
    measured = tuple(
        measured_source(item, name, digests[f"sources/measured/{name}"], catalog) for name, item in evidence
    )
    rounds = load_round_files(repository.sources / "measured")
    digests |= {f"sources/measured/{file.name}": file.sha256 for file in rounds}
    for path in sorted((repository.sources / "measured").glob("*/rounds/grid.toml")):
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


def write_files(files: Mapping[Path, bytes]) -> tuple[Path, ...]:
    """Write each file whose content differs, whole or not at all; return those written.

    Raises:
        StoreError: a file could not be written; it is as it was.
    """
    changed = [path for path, content in files.items() if not path.is_file() or path.read_bytes() != content]
    for path in changed:
        target = real_target(str(path))
        try:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refusal(target, error) from error
        replace_file(target, files[path])
    return tuple(changed)


def check_files(repository: Repository, files: Mapping[Path, bytes], remedy: str) -> None:
    """Raise for the first committed file that differs from what its sources give.

    Raises:
        DifferenceError: names the file and its first differing line.
    """
    for path, content in files.items():
        name = repository.relative(path)
        if not path.is_file():
            raise DifferenceError(f"{name}: not there; {remedy}")
        found = path.read_bytes()
        if found == content:
            continue
        old, new = found.decode("utf-8", "replace").splitlines(), content.decode("utf-8", "replace").splitlines()
        line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        shown = [repr(lines[line][:100]) if line < len(lines) else "end of file" for lines in (old, new)]
        raise DifferenceError(f"{name} line {line + 1}: found {shown[0]}, expected {shown[1]}; {remedy}")


def today_from(environment: Mapping[str, str], clock: dt.date) -> dt.date:
    """Return the day that counts: of SOURCE_DATE_EPOCH where it is set (reproducible builds), else of the clock."""
    epoch = environment.get("SOURCE_DATE_EPOCH", "")
    return dt.datetime.fromtimestamp(int(epoch), tz=dt.UTC).date() if epoch.isdecimal() else clock


def current_day() -> dt.date:
    """Return today's date, UTC, or that of SOURCE_DATE_EPOCH."""
    return today_from(os.environ, dt.datetime.now(tz=dt.UTC).date())
