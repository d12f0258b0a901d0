"""One module a verb: ``configure(parser)`` adds its arguments, ``run(arguments, output)`` returns the exit code.

A verb's one-line help is the first line of its module's docstring. A new file is found, not registered.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from generator.output import Output


class Verb(Protocol):
    """What a verb module offers."""

    __name__: str
    __doc__: str | None

    def configure(self, parser: ArgumentParser) -> None:
        """Add the verb's arguments."""

    def run(self, arguments: Namespace, output: Output) -> int:
        """Do the work and return the exit code."""


def verb_names() -> tuple[str, ...]:
    """Return the verbs' names as a command line spells them (``bench-unified`` for ``bench_unified.py``)."""
    return tuple(sorted(_command(info.name) for info in pkgutil.iter_modules(__path__)))


def load_verb(name: str) -> Verb:
    """Import the verb ``name``; only the verb asked for is imported, so one verb's packages never slow another."""
    stem = name.replace("-", "_")
    module = f"{stem}_" if stem == "import" else stem
    return cast("Verb", importlib.import_module(f"{__name__}.{module}"))


def _command(stem: str) -> str:
    return stem.rstrip("_").replace("_", "-")
