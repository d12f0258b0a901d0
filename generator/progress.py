"""Progress of a run: a bar with the current key and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from generator.output import ConsoleOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from generator.output import Output


class Ticker(Protocol):
    """Shows how far a run is."""

    def at(self, what: str) -> None:
        """Show what is being worked on; called once before each step."""

    def line(self, text: str) -> None:
        """Write a line without disturbing the bar."""

    def close(self) -> None:
        """Stop showing; more than once does no harm."""


class Silent:
    """Shows nothing."""

    def at(self, what: str) -> None:
        """Show nothing."""

    def line(self, text: str) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Stop showing nothing."""


class Plain(Silent):
    """Writes lines, and nothing for single steps."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def line(self, text: str) -> None:
        """Write a line."""
        self._output.note(text)


class Bar:
    """Shows a bar on a terminal."""

    def __init__(self, output: ConsoleOutput, total: int) -> None:
        columns = (
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._progress = Progress(*columns, console=output.err, transient=True)
        self._task = self._progress.add_task("", total=total)
        self._steps = -1
        self._progress.start()

    def at(self, what: str) -> None:
        """Show what is being worked on."""
        self._steps += 1
        self._progress.update(self._task, completed=max(self._steps, 0), description=what)

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def tenths(what: str, note: Callable[[str], None], clock: Callable[[], float]) -> Callable[[int, int], None]:
    """Return what notes at each tenth how many of all units are ``what``, and about how many seconds are left."""
    began = clock()
    shown = 0

    def on_unit(done: int, total: int) -> None:
        nonlocal shown
        if done * 10 // total > shown:
            shown = done * 10 // total
            left = (clock() - began) / done * (total - done)
            note(f"{what} {done} of {total} units" + (f", about {left:.0f} s left" if done < total else ""))

    return on_unit


def ticker(output: Output, total: int, *, quiet: bool) -> Ticker:
    """Return the progress that fits ``output``; ``total`` counts the steps."""
    if quiet:
        return Silent()
    if isinstance(output, ConsoleOutput) and output.err.is_terminal:
        return Bar(output, total)
    return Plain(output)
