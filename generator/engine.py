"""The engine's own ``ninfer-calibrate`` as a bench: run it, show its progress live, keep its log and its entry.

The tool writes its profile file to a folder that is thrown away, so that a run that fails in the middle leaves
everything as it was; what it measured is stored here, afterwards, by the same code as any other measurement.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ninfer_device_profiles.document import parse_document
from ninfer_device_profiles.errors import ProfileError, system_reason
from ninfer_device_profiles.jsontext import MAX_BYTES

from generator.core.engine_evidence import engine_evidence
from generator.core.engine_log import parse_log
from generator.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ninfer_device_profiles.document import Profile

    from generator.core.catalog import Catalog
    from generator.core.evidence import Evidence

_SHOWN = 200
_PATIENCE_S = 10
"""How long an interrupted tool may take to end by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRun:
    """What one run of the tool gave: its entry and the evidence behind it."""

    profile: Profile
    evidence: Evidence


def run_engine(binary: Path, options: Sequence[str], catalog: Catalog, progress: Callable[[str], None]) -> EngineRun:
    """Run the engine's ``ninfer-calibrate`` and return what it measured.

    Args:
        binary: the tool.
        options: its own options (``--device``, ``--only``, ``--repeat``, …); ``--print``, ``--detail`` and ``--out``
            are added here.
        catalog: of this build; the tool's must be the same.
        progress: is called with each line that the tool prints to stderr, as it comes.

    Raises:
        EngineError: the tool is missing, cannot be run, fails, or prints no entry.
        SourceError: its log is not of its entry, or of another catalog.
    """
    with tempfile.TemporaryDirectory(prefix="ninfer-calibrate-") as folder:
        command = [str(binary), *options, "--print", "--detail", "--out", str(Path(folder) / "device-profiles.json")]
        document, lines = _run(command, progress)
    return read_run(document, lines, f"{binary}", catalog)


def read_run(document: bytes, lines: Sequence[str], source: str, catalog: Catalog) -> EngineRun:
    """Return the run whose ``--print`` output is ``document`` and whose log is ``lines``.

    Raises:
        EngineError: the document is no profile document of one entry.
        SourceError: the log is not of the entry, or of another catalog.
    """
    try:
        devices = parse_document(document, f"{source} (--print output)").devices
    except ProfileError as error:
        raise EngineError(f"{error}; expected one entry on stdout") from error
    if len(devices) != 1:
        raise EngineError(f"{source}: printed {len(devices)} entries; expected one. Use --print of one device")
    log = parse_log(lines, f"{source} (log)")
    facts = {
        "entry_sha256": hashlib.sha256(document).hexdigest(),
        "log_sha256": hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest(),
    }
    return EngineRun(
        profile=devices[0], evidence=engine_evidence(devices[0], log, catalog, f"{source} (log)", run=facts)
    )


def _run(command: Sequence[str], progress: Callable[[str], None]) -> tuple[bytes, list[str]]:
    """Return the tool's stdout and the lines of its stderr."""
    binary = command[0]
    try:
        process = subprocess.Popen(  # noqa: S603 - the user names the tool, no shell
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except (OSError, ValueError) as error:
        raise EngineError(
            f"{binary}: {system_reason(binary, error)}; expected the engine's ninfer-calibrate. Give its path to "
            "--engine"
        ) from error
    assert process.stdout is not None
    assert process.stderr is not None
    printed: list[bytes] = []
    collector = threading.Thread(target=lambda: printed.append(_collected(process)), daemon=True)
    collector.start()
    lines: list[str] = []
    try:
        for raw in process.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            lines.append(line)
            progress(line)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        collector.join()
        process.stdout.close()
        process.stderr.close()
    if len(printed[0]) > MAX_BYTES:
        raise EngineError(
            f"{binary}: printed more than {MAX_BYTES} bytes and was stopped; expected one entry on stdout. "
            "Give the engine's ninfer-calibrate to --engine"
        )
    if code:
        how = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
        told = next((line for line in reversed(lines) if line.strip()), "nothing on stderr")[:_SHOWN]
        raise EngineError(f"{binary}: {how}: {told!r}; nothing was stored. Mend that and calibrate again")
    return b"".join(printed), lines


def _collected(process: subprocess.Popen[bytes]) -> bytes:
    """Return what the tool prints to stdout; one that prints more than a document may hold is stopped."""
    assert process.stdout is not None
    content = process.stdout.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        process.terminate()
        while process.stdout.read(MAX_BYTES):
            pass
    return content
