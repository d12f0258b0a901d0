"""Progress: a bar on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

from rich.console import Console

from generator.output import ConsoleOutput
from generator.progress import Bar, Plain, Silent, ticker


def output(stream: io.StringIO, *, terminal: bool) -> ConsoleOutput:
    return ConsoleOutput(Console(file=io.StringIO()), Console(file=stream, force_terminal=terminal, width=100))


def test_a_terminal_gets_a_bar_with_the_current_key_and_lines_above_it() -> None:
    stream = io.StringIO()
    shown = ticker(output(stream, terminal=True), 2, quiet=False)
    assert isinstance(shown, Bar)
    shown.at("t2_i8_route w=16")
    shown.line("t2_i8_route w=16 compiled 1.0 us -> [tile] 0.9 us")
    shown.at("t2_i8_route w=24")
    shown.close()
    shown.close()
    assert "t2_i8_route w=16 compiled 1.0 us -> [tile] 0.9 us" in stream.getvalue()


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    shown = ticker(output(stream, terminal=False), 2, quiet=False)
    assert isinstance(shown, Plain)
    shown.at("t2_i8_route w=16")
    shown.line("a line")
    shown.close()
    assert stream.getvalue() == "a line\n"


def test_quiet_shows_nothing() -> None:
    stream = io.StringIO()
    shown = ticker(output(stream, terminal=True), 2, quiet=True)
    assert isinstance(shown, Silent)
    shown.at("x")
    shown.line("y")
    shown.close()
    assert stream.getvalue() == ""
