"""Progress: a bar on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

from rich.console import Console

from generator.output import ConsoleOutput
from generator.progress import Bar, Plain, Silent, tenths, ticker


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


def test_units_are_noted_at_each_tenth_with_the_seconds_that_are_left() -> None:
    times = iter([0.0, 4.0, 6.0, 20.0])
    lines: list[str] = []
    on_unit = tenths("sm_90: compiled", lines.append, lambda: next(times))
    for done in (1, 2, 3, 20):
        on_unit(done, 20)
    assert lines == [
        "sm_90: compiled 2 of 20 units, about 36 s left",
        "sm_90: compiled 20 of 20 units",
    ]
