"""What a verb may say, and where it goes: results to stdout, notes and errors to stderr.

Verbs get an `Output` and never print; only ``__main__`` makes the real one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


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


class ConsoleOutput:
    """Write to two rich consoles, one for stdout and one for stderr."""

    def __init__(self, out: Console, err: Console) -> None:
        self._out = out
        self.err = err

    def text(self, text: str) -> None:
        """Write ``text`` to stdout as it is."""
        self._out.file.write(text)
        self._out.file.flush()

    def show(self, renderable: RenderableType) -> None:
        """Write a rich renderable to stdout."""
        self._out.print(renderable)

    def note(self, text: str) -> None:
        """Write one line to stderr, without markup."""
        self.err.print(text, markup=False, highlight=False, soft_wrap=True)

    def json(self, value: object) -> None:
        """Write ``value`` to stdout as canonical JSON."""
        self.text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
