"""What a verb may say, and where it goes: results to stdout, notes and errors to stderr.

Verbs get an `Output` and never print; only ``__main__`` makes the real one.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from generator.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType
    from rich.text import Text

LEAST_COLUMNS = 20
"""A table in fewer columns shows nothing."""

_WIDEST = 1000
"""Widest table that a file or a pipe gets, in columns."""

_DIGITS = 7
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Output(Protocol):
    """Takes what a verb has to say."""

    def text(self, text: str) -> None:
        """Write ``text`` to stdout as it is, without adding a newline."""

    def show(self, renderable: RenderableType) -> None:
        """Write a rich renderable to stdout."""

    def note(self, text: str) -> None:
        """Write one line of progress or advice to stderr."""

    def json(self, value: object) -> None:
        """Write ``value`` to stdout as canonical JSON: sorted keys, indent 2, one final newline."""


def consoles(environment: Mapping[str, str]) -> tuple[Console, Console]:
    """Return the consoles of stdout and stderr: no text of a file is ever markup, and no character ends a verb.

    A stream that is closed is replaced by one that refuses what is written to it. ``COLUMNS`` counts from
    `LEAST_COLUMNS`; what is no such number counts as unset.
    """
    text = environment.get("COLUMNS", "")
    given = int(text) if len(text) < _DIGITS and text.isascii() and text.isdigit() else 0
    width = {"width": max(given, LEAST_COLUMNS)} if given else {"_environ": _without_columns(environment)}
    made = []
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        made.append(_console(stream or _Closed(), **width))
    return made[0], made[1]


def _console(file: IO[str], **width: Any) -> Console:
    return _Console(file=file, markup=False, emoji=False, highlight=False, **width)


def harmless(text: str) -> str:
    r"""Return ``text`` with what would steer a terminal as ``\uXXXX``, which JSON reads as the same character."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Console(Console):
    """Shows texts of files as they are: cells of a table and notes pass through here."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return ``text`` harmless."""
        return super().render_str(harmless(text), **options)


class _Closed(io.StringIO):
    """Stands for a stream that the caller closed."""

    def write(self, _text: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class ConsoleOutput:
    """Write to two rich consoles, one for stdout and one for stderr.

    Raises:
        OutputError: stdout takes no more (a full disk, a closed stream); a reader that went away is `BrokenPipeError`.
    """

    def __init__(self, out: Console, err: Console) -> None:
        self._out = out
        self.err = err

    def text(self, text: str) -> None:
        """Write ``text`` to stdout, harmless to a terminal."""
        with _taken(self._out):
            self._out.file.write(harmless(text))
            self._out.file.flush()

    def show(self, renderable: RenderableType) -> None:
        """Write a rich renderable to stdout. No cell of a table is cut; on no terminal, none is broken either."""
        console = self._out
        if isinstance(renderable, Table):
            for column in renderable.columns:
                column.overflow = "fold"
            if not console.is_terminal:
                needed = Measurement.get(console, console.options.update(max_width=_WIDEST), renderable).maximum
                console = _console(console.file, width=max(needed, console.width))
        with _taken(self._out), console.capture() as captured:
            console.print(renderable)
        with _taken(self._out):
            self._out.file.write(captured.get())
            self._out.file.flush()

    def note(self, text: str) -> None:
        """Write one line to stderr, without markup; what stderr does not take is no reason to stop."""
        with suppress(OSError):
            self.err.print(text, soft_wrap=True)

    def error(self, text: str) -> None:
        """Write the line that ends a verb to stderr."""
        self.note(text)

    def json(self, value: object) -> None:
        """Write ``value`` to stdout as canonical JSON."""
        self.text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        """Write what is still held back, so that the interpreter's end finds nothing to fail on."""
        with _taken(self._out):
            self._out.file.flush()


@contextmanager
def _taken(console: Console) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _give_up(console)
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(
            f"stdout: {error.strerror or error}; expected a stream that takes the result. "
            "Free space, or send the output elsewhere"
        ) from None


def _give_up(console: Console) -> None:
    """Point the stream at nothing: what is buffered would fail again when the interpreter ends."""
    with suppress(OSError, ValueError):
        descriptor = console.file.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _without_columns(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != "COLUMNS"}
