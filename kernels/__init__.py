"""Route families, their shared parts and their ``.cu`` sources. A module with ``FAMILY`` is found, not registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from generator.core.route import RouteFamily

ROOT = Path(__file__).parent
"""Folder of the ``.cu`` files; headers are in ``ROOT / "include"``."""


@cache
def find_families() -> tuple[RouteFamily, ...]:
    """Return the family of every module here that defines ``FAMILY``, by module name."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    families = [getattr(module, "FAMILY", None) for module in modules]
    return tuple(family for family in families if isinstance(family, RouteFamily))
