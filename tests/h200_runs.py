"""The committed runs of the H200, told apart by what they cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.evidence import complete_keys
from generator.core.evidence_file import load_evidence

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence

HARDWARE_CLASS = "nvidia-h200-sm90"
PROJECTIONS = ("t2_", "q4_", "q5_", "q6_", "unified/")
"""What the names of projection keys begin with."""


def h200_files(root: Path) -> tuple[Path, ...]:
    """Return the source of the table's entry, then the further runs of the same board by date."""
    folder = root / "builtin_profiles/sources/measured" / HARDWARE_CLASS
    (source,) = folder.glob("*.json")
    return (source, *sorted((folder / "repeats").glob("*.json")))


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of every key that the source measured, by date, the source first; and the run of the projections alone."""

    complete: tuple[Evidence, ...]
    projections: Evidence

    @property
    def all(self) -> tuple[Evidence, ...]:
        """Return the complete runs, then that of the projections."""
        return (*self.complete, self.projections)

    @property
    def named(self) -> dict[str, Evidence]:
        """Return every run by the name that docs/measured.md gives it."""
        return dict(zip(("first", "second", "third", "projections"), self.all, strict=True))


def h200_runs(root: Path, catalog: Catalog) -> Runs:
    """Return the committed runs."""
    loaded = [load_evidence(path.read_text(), path.name) for path in h200_files(root)]
    keys = set(complete_keys(loaded[0], catalog))
    complete = tuple(run for run in loaded if set(complete_keys(run, catalog)) == keys)
    (projections,) = (run for run in loaded if run not in complete)
    return Runs(complete=complete, projections=projections)
