"""The parent's end of a worker: starts it, asks it, notices faults and hangs, and starts it again."""

from __future__ import annotations

from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from generator.errors import DeviceError
from generator.gpu.driver import start_trouble
from generator.gpu.worker import WorkerFacts, worker_main

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from generator.core.bench import Subject
    from generator.core.limits import Limits

_START_LIMIT_S = 120.0


class WorkerLostError(Exception):
    """Say that the worker is gone; ``subject`` is what it worked on, ``hung`` whether its time ran out."""

    def __init__(self, text: str, subject: Subject | None, *, hung: bool) -> None:
        super().__init__(text)
        self.subject = subject
        self.hung = hung


class Link:
    """One worker process of one device.

    Raises:
        DeviceError: the worker did not come up.
    """

    def __init__(self, families: str, index: int, limits: Limits) -> None:
        self._families = families
        self._index = index
        self._limits = limits
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.facts: WorkerFacts = self.start()

    def start(self) -> WorkerFacts:
        """Start the worker, or start it again, and return what CUDA says of the device."""
        self.stop()
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, self._families, self._index, self._limits)
        self._process = context.Process(target=worker_main, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours
        try:
            kind, value = self._receive(_START_LIMIT_S, None)
        except WorkerLostError as error:
            raise DeviceError(start_trouble(self._index, str(error))) from None
        if kind != "ready":
            raise DeviceError(start_trouble(self._index, str(value)))
        assert isinstance(value, WorkerFacts)
        return value

    def stop(self) -> None:
        """End the worker."""
        if self._process is None:
            return
        if self._pipe is not None:
            try:
                self._pipe.send(("stop",))
            except OSError:
                pass
            else:
                self._process.join(2)
            self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process = None
        self._pipe = None

    def ask(self, order: str, *arguments: object, limit_s: float | None = None) -> Any:
        """Return the worker's answer to ``order``.

        Raises:
            WorkerLostError: a fault or a hang; the worker is gone, `start` brings another.
        """
        assert self._pipe is not None
        limit = self._limits.time_limit_s if limit_s is None else limit_s
        subject: Subject | None = None
        try:
            self._pipe.send((order, *arguments))
        except OSError:
            raise WorkerLostError("the worker is gone", None, hung=False) from None
        while True:
            kind, value = self._receive(limit, subject)
            if kind == "done":
                return value
            if kind == "at":
                subject = value
            else:
                raise WorkerLostError(str(value), subject, hung=False)

    def _receive(self, limit_s: float, subject: Subject | None) -> tuple[str, Any]:
        assert self._pipe is not None
        assert self._process is not None
        try:
            if not self._pipe.poll(limit_s):
                self._process.kill()
                raise WorkerLostError(f"no answer within {limit_s:g} s", subject, hung=True)
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(2)
            code = self._process.exitcode
            raise WorkerLostError(f"the worker ended with code {code}", subject, hung=False) from None
        return str(kind), value
