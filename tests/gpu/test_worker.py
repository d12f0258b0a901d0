"""How a worker splits rounds over captures; the device itself is made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generator.core.bench import BASE, TWIN
from generator.core.limits import Limits
from generator.gpu.worker import _Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class MadeUpTimer:
    """Hands out captures by number, and samples that name the capture and the round they are of."""

    captured: int = 0
    busy: bool = False
    blocks: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
    captured_while_busy: list[int] = field(default_factory=list)

    def capture(self, work: Callable[[], None]) -> int:
        """Return the number of this capture."""
        work()
        self.captured += 1
        if self.busy:
            self.captured_while_busy.append(self.captured)
        return self.captured

    def block(
        self, graphs: Sequence[int], rounds: int, warmups: int, meanwhile: Callable[[], object] | None
    ) -> list[list[float]]:
        """Record the block and call what there is to do meanwhile."""
        self.blocks.append((tuple(graphs), rounds, warmups))
        self.busy = True
        if meanwhile is not None:
            meanwhile()
        self.busy = False
        return [[float(graph)] * rounds for graph in graphs]


class NoArena:
    """Launches nothing."""

    def run(self, plan: object, kernels: object) -> None:
        """Do nothing."""


def worker(timer: MadeUpTimer, graph_rounds: int) -> _Worker:
    made = object.__new__(_Worker)
    for name, value in {
        "_limits": Limits(graph_rounds=graph_rounds),
        "_timer": timer,
        "_arena": NoArena(),
        "_kernels": None,
        "_plans": {BASE: (), TWIN: ()},
    }.items():
        setattr(made, name, value)
    return made


def test_every_few_rounds_have_captures_of_their_own() -> None:
    timer = MadeUpTimer()
    taken = worker(timer, 8).time([BASE, TWIN], 20, 2)
    assert timer.blocks == [((1, 2), 8, 2), ((3, 4), 8, 0), ((5, 6), 4, 0)]
    assert taken == {
        BASE: (1.0,) * 8 + (3.0,) * 8 + (5.0,) * 4,
        TWIN: (2.0,) * 8 + (4.0,) * 8 + (6.0,) * 4,
    }


def test_the_next_captures_are_made_while_the_device_works_and_none_too_many() -> None:
    timer = MadeUpTimer()
    worker(timer, 5).time([BASE], 10, 0)
    assert timer.captured_while_busy == [2]
    assert timer.captured == 2


def test_no_rounds_take_no_samples() -> None:
    assert worker(MadeUpTimer(), 8).time([BASE], 0, 0) == {BASE: ()}
