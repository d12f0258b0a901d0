"""The journal of one run: append-only, one line a finished key, on disk before the next key begins.

One run at a time holds it (`Journal.held`). The first line holds what the run is; a run is resumed only by one that is
the same. A last line that was cut off by a crash is dropped; anything else that does not read is an error.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.evidence_file import (
    Place,
    device_to_json,
    key_from_json,
    key_to_json,
    scalars,
    trial_from_json,
    trial_to_json,
)
from generator.core.texts import load_json
from generator.errors import EvidenceError
from generator.files import held, write_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from generator.core.evidence import DeviceRecord, KeyFacts, Scalar, Trial
    from generator.core.route import CatalogDigest, RouteKey

Finished = dict["RouteKey", tuple["KeyFacts", tuple["Trial", ...]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a run is. ``run`` may differ between a run and its resumption (driver aside, it records, not decides)."""

    catalog: CatalogDigest
    device: DeviceRecord
    rule: Mapping[str, Scalar]
    run: Mapping[str, Scalar]

    def identity(self) -> dict[str, object]:
        """Return what must be equal for a run to be resumed."""
        return {
            "route catalog": self.catalog,
            "device": device_to_json(self.device),
            "rule": dict(self.rule),
            "CUDA driver": self.run.get("cuda_driver", 0),
            "exhaustive": self.run.get("exhaustive", False),
            "afresh": self.run.get("afresh", False),
        }


class Journal:
    """Writes a journal.

    Args:
        path: the file; `start` begins it anew, `resume` goes on with it, both while it is `held`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def held(self) -> AbstractContextManager[None]:
        """Hold the journal for the life of a run: two runs of one board would write into each other's.

        Raises:
            InUseError: another run holds it.
            StoreError: its folder cannot be written.
        """
        return held(self.path, "another run on this device", wait_s=0)

    def start(self, header: Header) -> None:
        """Begin a new journal; one that is left from an interrupted run is kept beside it as ``.previous``."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.path.replace(self.path.with_name(f"{self.path.name}.previous"))
        self._append({"identity": header.identity(), "run": dict(header.run)})

    def resume(self, header: Header) -> tuple[Finished, dict[str, Scalar]]:
        """Return the finished keys of the journal and its run's facts, ready to be appended to.

        Raises:
            EvidenceError: there is no journal, it is damaged, or it is of another run; the message names both values.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise EvidenceError(
                f"{self.path}: {error.strerror}; nothing to resume. Run without --resume to start anew"
            ) from None
        found: Finished = {}
        run: dict[str, Scalar] = {}
        for number, line in enumerate(lines, start=1):
            at = Place(f"{self.path} line {number}")
            data = load_json(line, f"{self.path} line {number}", "remove the file and start anew", error=EvidenceError)
            if not isinstance(data, dict):
                at.stop(data, "expected an object")
            if number == 1:
                run = self._same(data, header, at)
            else:
                facts = key_from_json(data.get("facts"), at["facts"])
                listed = data.get("trials")
                if not isinstance(listed, list):
                    at["trials"].stop(listed, "expected a list")
                trials = tuple(trial_from_json(item, at["trials"][i]) for i, item in enumerate(listed))
                found[facts.key] = (facts, trials)
        if not lines:
            raise EvidenceError(f"{self.path}: empty; nothing to resume. Run without --resume to start anew")
        write_files({self.path: b"".join(line + b"\n" for line in lines)})
        return found, run

    def _same(self, data: dict[str, object], header: Header, at: Place) -> dict[str, Scalar]:
        theirs, run, ours = data.get("identity"), data.get("run"), header.identity()
        if not isinstance(theirs, dict):
            at["identity"].stop(theirs, "expected an object")
        if not isinstance(run, dict):
            at["run"].stop(run, "expected an object")
        for name, value in ours.items():
            for part, found, wanted in _differences(name, theirs.get(name, _UNSAID.get(name)), value):
                raise EvidenceError(
                    f"{self.path}: {part} is {found!r}, this run's is {wanted!r}; a run is resumed only by "
                    "the same one. Repeat the options it began with, or run without --resume to start anew"
                )
        return scalars(run, at["run"])

    def add(self, facts: KeyFacts, trials: tuple[Trial, ...]) -> None:
        """Append a finished key."""
        self._append({"facts": key_to_json(facts), "trials": [trial_to_json(trial) for trial in trials]})

    def _append(self, value: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """Remove the journal: its content is in the evidence."""
        self.path.unlink(missing_ok=True)


_UNSAID = {"afresh": False}
"""What a journal of an earlier version means where it says nothing."""


def _differences(name: str, found: object, wanted: object) -> list[tuple[str, object, object]]:
    """Return what differs, by name: single values of an object, None for one that the other side lacks."""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return [(name, found, wanted)] if found != wanted else []
    names = dict.fromkeys((*wanted, *found))
    return [(f"{name}[{i!r}]", found.get(i), wanted.get(i)) for i in names if found.get(i) != wanted.get(i)]
