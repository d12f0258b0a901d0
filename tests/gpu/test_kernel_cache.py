"""Compiled kernels on disk: found by content, damaged entries compiled anew, refused expressions set apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generator.errors import CompileError
from generator.gpu.kernel_cache import KernelCache
from generator.gpu.nvrtc import find_toolkits, toolkit_for

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = '#include "scale.cuh"\ntemplate <int N> __global__ void f(float* x) { x[threadIdx.x] *= N * SCALE; }\n'
WANTED = {"toy": {"f<1>", "f<2>"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    try:
        toolkit_for("sm_90", find_toolkits())
    except CompileError as error:
        pytest.skip(str(error))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "scale.cuh").write_text("#define SCALE 2\n")
    (tmp_path / "toy.cu").write_text(SOURCE)
    return tmp_path


def units(cache: KernelCache, root: Path) -> int:
    """Return how many units a compile made anew."""
    seen: list[int] = []
    cache.compile(root, WANTED, "sm_90", lambda _done, total: seen.append(total))
    return max(seen, default=0)


def test_a_kernel_is_compiled_once_and_again_only_when_a_header_changes(root: Path) -> None:
    cache = KernelCache(root / "cache")
    assert units(cache, root) == 1
    assert units(cache, root) == 0
    (root / "include" / "scale.cuh").write_text("#define SCALE 3\n")
    assert units(cache, root) == 1


def test_what_is_loaded_is_what_was_compiled(root: Path) -> None:
    cache = KernelCache(root / "cache")
    ((_, first),) = cache.compile(root, WANTED, "sm_90")
    ((_, again),) = cache.compile(root, WANTED, "sm_90")
    assert again == first


def test_a_damaged_cubin_is_compiled_anew(root: Path) -> None:
    cache = KernelCache(root / "cache")
    units(cache, root)
    (cubin,) = (root / "cache").glob("*.cubin")
    cubin.write_bytes(b"cut off")
    assert units(cache, root) == 1


def test_refused_expressions_come_back_with_the_compilers_words(root: Path) -> None:
    cache = KernelCache(None)
    compiled, refused = cache.compile_all(root, {"toy": {"f<1>", "g<1>"}}, "sm_90")
    assert [name for _, unit in compiled for name in unit.names] == ["f<1>"]
    assert list(refused) == [("toy", "g<1>")]
    assert "g" in refused["toy", "g<1>"]
