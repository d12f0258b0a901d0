"""Round files on disk: read those of every device, add benchmark outputs to them, all or nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.bench_readers import find_programs
from generator.core.bench_readers.read import read_output
from generator.core.manifest import parse_grid
from generator.core.round_files import parse_round, round_name
from generator.core.rounds import Round, merge_rounds, merge_times, serialise_round
from generator.core.route import HardwareClass
from generator.core.selected import RoundFile
from generator.errors import SourceError
from generator.files import held, listed_below, read_bytes, read_chunks, read_text, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.bench_readers.read import Reading
    from generator.core.cases import Grid
    from generator.core.manifest import Manifest, Run
    from generator.core.rounds import Conditions, Table
    from generator.core.route import RouteKey


def load_round_files(folder: Path) -> tuple[RoundFile, ...]:
    """Return every round below ``folder`` (``<class>/rounds/*.json``), by file name.

    Raises:
        EvidenceError: a file is no round file.
        SourceError: a file stands under another name than its content asks for, or cannot be read.
    """
    files: list[RoundFile] = []
    for path in listed_below(folder, "sources/measured", "*", "rounds", "*.json"):
        name = path.relative_to(folder).as_posix()
        content = read_bytes(path, name)
        item = parse_round(content, name)
        expected = round_name(item.device, item.number)
        if name != expected:
            raise SourceError(f"{name}: holds {item.where()}; its place is {expected!r}. Move the file there")
        files.append(RoundFile(item, name, hashlib.sha256(content).hexdigest()))
    return tuple(files)


def load_grids(folder: Path) -> dict[HardwareClass, Grid]:
    """Return the committed width grid of every class below ``folder`` that has one (``<class>/rounds/grid.toml``).

    Raises:
        SourceError: a file is no grid, or cannot be read.
    """
    return {
        _class_of(path): load_grid(path)
        for path in listed_below(folder, "sources/measured", "*", "rounds", "grid.toml")
    }


def load_grid(path: Path) -> Grid:
    """Return the width grid in the file ``path``.

    Raises:
        SourceError: the file is no grid, or cannot be read.
    """
    return parse_grid(read_text(path, str(path)), str(path))


def read_manifest_text(path: Path) -> str:
    """Return the text of a manifest.

    Raises:
        SourceError: the file cannot be read, or is not UTF-8.
    """
    return read_text(path, str(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """Round files as they are now, those among them that changed, and what to say about the outputs."""

    files: dict[Path, bytes]
    written: tuple[Path, ...]
    notes: tuple[str, ...]


def import_outputs(manifest: Manifest, base: Path, folder: Path) -> Added:
    """Add the outputs of ``manifest`` to the round files below ``folder``: all of them, or none.

    Paths of the manifest are relative to ``base``. The device's rounds are held from reading to writing, so that two
    imports at once add up.

    Raises:
        SourceError: an output cannot be read, or no output holds a time.
        EvidenceError: an output contradicts another, or the file it is added to.
        InUseError: another import holds the device's rounds.
        StoreError: a file could not be written; all are as they were.
    """
    notes: list[str] = []
    rounds: dict[int, Round] = {}
    for run in manifest.runs:
        readings = [_read(manifest, run, base, place) for place in range(len(run.files))]
        notes.extend(note for reading in readings for note in reading.notes)
        added = _round(manifest, run, readings)
        if not added.widths:
            notes.append(f"{added.where()} table {run.table.value!r}: no output holds a row; nothing is added")
            continue
        earlier = rounds.get(run.round)
        rounds[run.round] = added if earlier is None else merge_rounds(earlier, added)
    if not rounds:
        raise SourceError(
            f"{manifest.device}: no output holds a time ({len(notes)} notes); expected rows of a benchmark program. "
            "A program that printed SKIP found no GPU: run it again"
        )
    places = {number: folder / round_name(item.device, number) for number, item in rounds.items()}
    with held(next(iter(places.values())).parent, "another import of this device's rounds"):
        files: dict[Path, bytes] = {}
        for number, item in rounds.items():
            known = _known(folder, item)
            files[places[number]] = serialise_round(merge_rounds(known, item) if known is not None else item).encode()
        return Added(files=files, written=write_files(files), notes=tuple(notes))


def _read(manifest: Manifest, run: Run, base: Path, place: int) -> Reading:
    file = run.files[place]
    return read_output(
        read_chunks(base / file.path, str(base / file.path)),
        file.path.replace("\\", "/").rpartition("/")[2],
        programs=find_programs(),
        device=manifest.device,
        table=run.table,
        program=file.program,
        settings=file.settings,
    )


def _round(manifest: Manifest, run: Run, readings: list[Reading]) -> Round:
    where = f"{manifest.device} round {run.round}"
    widths: dict[RouteKey, set[int]] = {}
    for reading in readings:
        for key, found in reading.widths.items():
            widths.setdefault(key, set()).update(found)
    conditions: dict[Table, Conditions] = {run.table: run.conditions}
    return Round(
        device=manifest.device,
        number=run.round,
        order=run.order,
        execution=manifest.execution,
        conditions=conditions,
        sources=tuple(sorted({reading.source for reading in readings if reading.widths})),
        widths={key: tuple(sorted(widths[key])) for key in sorted(widths)},
        times=merge_times((time for reading in readings for time in reading.times), where),
    )


def _known(folder: Path, added: Round) -> Round | None:
    name = round_name(added.device, added.number)
    path = folder / name
    return parse_round(read_bytes(path, name), name) if path.is_file() else None


def _class_of(path: Path) -> HardwareClass:
    return HardwareClass(path.parent.parent.name)
