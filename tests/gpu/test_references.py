"""References on disk: computed once, and again where a crash has cut the file off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from generator.core.catalog import build_catalog
from generator.core.route import RouteKey
from generator.gpu.references import ensure_references, load_reference
from tests.kernels import toy_sum

if TYPE_CHECKING:
    from pathlib import Path

LOADER = "tests.kernels.toy_sum:families"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ninfer-profile-generator" / "references"


def test_a_reference_that_was_cut_off_is_computed_anew(folder: Path) -> None:
    route = next(iter(build_catalog(toy_sum.families()).routes.values()))
    point = (str(route.key), route.widths[0])
    assert ensure_references(LOADER, "d", [point], 1) == {}
    whole = load_reference("d", (RouteKey(point[0]), point[1]))
    assert whole
    (path,) = folder.glob("*/*.npz")
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert load_reference("d", point) is None
        assert ensure_references(LOADER, "d", [point], 1) == {}
        again = load_reference("d", point)
        assert again is not None
        assert again.keys() == whole.keys()
        assert all(np.array_equal(again[name].values, whole[name].values) for name in whole)
