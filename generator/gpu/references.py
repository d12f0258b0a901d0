"""Wide-precision references of operations, computed on the host once and kept on disk by content."""

from __future__ import annotations

import hashlib
import importlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

import numpy as np

import generator.core
from generator.core.catalog import build_catalog
from generator.core.fill import Host
from generator.core.route import Expected
from generator.gpu.kernel_cache import QUIET, cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Point = tuple[str, int]
"""Route key and width."""


def references_digest(kernels: Path) -> str:
    """Return a digest of all Python source that a reference may depend on."""
    digest = hashlib.sha256()
    core = Path(next(iter(generator.core.__path__)))
    for path in sorted([*kernels.rglob("*.py"), core / "fill.py", core / "route.py"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _path(digest: str, point: Point) -> Path:
    name = hashlib.sha256(f"{digest}\0{point[0]}\0{point[1]}".encode()).hexdigest()
    return cache_folder().parent / "references" / name[:2] / f"{name}.npz"


def load_reference(digest: str, point: Point) -> dict[str, Expected] | None:
    """Return the stored reference of ``point``, or None."""
    try:
        with _path(digest, point).open("rb") as file, np.load(file) as stored:
            names = {name.rpartition("/")[0] for name in stored.files}
            return {name: Expected(stored[f"{name}/indices"], stored[f"{name}/values"]) for name in names}
    except (OSError, EOFError, KeyError, ValueError, BadZipFile):
        return None


def compute_reference(families: str, digest: str, point: Point) -> dict[str, Expected]:
    """Compute the reference of ``point`` and store it."""
    module, _, name = families.partition(":")
    operation = build_catalog(getattr(importlib.import_module(module), name)()).route(point[0]).operation
    assert operation is not None
    found = dict(operation.reference(point[1], Host(operation.operands)))
    path = _path(digest, point)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: Any = {}
    for plane, expected in found.items():
        arrays[f"{plane}/indices"] = expected.indices
        arrays[f"{plane}/values"] = expected.values
    part = path.with_name(f"{path.stem}.{np.random.default_rng().integers(1 << 62)}.npz")
    np.savez(part, **arrays)
    part.replace(path)
    return found


def ensure_references(families: str, digest: str, points: Sequence[Point], jobs: int) -> Mapping[Point, str]:
    """Compute what is missing or cut off of ``points`` in ``jobs`` processes; return the failures by point."""
    missing = [point for point in points if not is_zipfile(_path(digest, point))]
    failures: dict[Point, str] = {}
    if not missing:
        return failures
    if jobs <= 1:
        for point in missing:
            text = _try(families, digest, point)
            if text:
                failures[point] = text
        return failures
    with ProcessPoolExecutor(min(jobs, len(missing)), get_context("spawn"), *QUIET) as pool:
        runs = [pool.submit(_try, families, digest, point) for point in missing]
        for point, run in zip(missing, runs, strict=True):
            text = run.result()
            if text:
                failures[point] = text
    return failures


def _try(families: str, digest: str, point: Point) -> str:
    try:
        compute_reference(families, digest, point)
    except Exception as error:  # noqa: BLE001 - a reference that cannot be made is reported, it stops no measuring
        return f"{type(error).__name__}: {error}"
    return ""
