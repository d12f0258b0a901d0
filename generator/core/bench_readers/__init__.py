"""Readers of the benchmark programs' outputs: one module a format. A new file is found, not registered."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from generator.core.bench_readers.program import Program
from generator.core.cases import join_cases

if TYPE_CHECKING:
    from generator.core.cases import CasesByKey


@cache
def find_programs() -> dict[str, Program]:
    """Return the program of every module here that defines ``PROGRAM``, by the program's name."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    programs = [getattr(module, "PROGRAM", None) for module in modules]
    return {item.name: item for item in programs if isinstance(item, Program)}


@cache
def judged_cases() -> CasesByKey:
    """Return per ``unified/*`` key the cases that it is judged on: all that any program feeds."""
    return join_cases(
        {
            key: tuple(replace(case, fixed=not program.has_execution) for case in cases)
            for key, cases in program.feeds.items()
        }
        for program in find_programs().values()
    )
