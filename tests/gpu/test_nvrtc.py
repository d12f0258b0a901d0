from __future__ import annotations

from pathlib import Path

import pytest

from generator.errors import CompileError
from generator.gpu import compile as compile_module
from generator.gpu.compile import BASE_OPTIONS, compile_unit, options_of
from generator.gpu.nvrtc import Toolkit, find_toolkits, load_nvrtc, toolkit_for

FOLDER = Path(compile_module.__file__).parent
NEW = Toolkit(major=13, library=Path("/new/libnvrtc.so.13"), includes=())
OLD = Toolkit(major=12, library=Path("/old/libnvrtc.so.12"), includes=())


def test_newest_release_compiles_for_current_architectures() -> None:
    assert toolkit_for("sm_86", (NEW, OLD)) is NEW
    assert toolkit_for("sm_120a", (NEW, OLD)) is NEW


def test_volta_takes_the_last_release_that_knows_it() -> None:
    assert toolkit_for("sm_70", (NEW, OLD)) is OLD


def test_volta_without_release_12_names_the_package_to_install() -> None:
    with pytest.raises(CompileError) as caught:
        toolkit_for("sm_70", (NEW,))
    assert str(caught.value) == (
        "no NVRTC for sm_70: found /new/libnvrtc.so.13, expected release 12 or older. Install the package "
        "'nvidia-cuda-nvrtc-cu12' and the runtime headers of the same release, or both with "
        "`pip install -e builtin_profiles -e '.[compile]'`."
    )


def test_unreadable_architecture_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        toolkit_for("ampere", (NEW,))
    assert str(caught.value) == (
        "architecture 'ampere': expected the form 'sm_90'; see `python -m generator kernels --help`."
    )


def test_a_release_without_a_cache_is_not_told_to_go_without() -> None:
    """Of /usr/local/cuda any may be found: 12.4 refuses every source for the option."""
    assert options_of((12, 9)) == options_of((13, 0)) == BASE_OPTIONS
    assert options_of((12, 8)) == ("--std=c++17", "-default-device", "--ptxas-options=-v")


@pytest.fixture
def newest() -> Toolkit:
    toolkits = find_toolkits()
    if not toolkits:
        pytest.skip("no NVRTC is installed (extra cuda13 or cuda12)")
    return toolkits[0]


def test_installed_release_is_the_one_its_file_name_says(newest: Toolkit) -> None:
    assert load_nvrtc(newest.library).version()[0] == newest.major


def test_expression_gets_a_lowered_name_and_a_cubin(newest: Toolkit) -> None:
    source = "template <int N> __global__ void twice(float* x) { x[threadIdx.x] *= N; }"
    options = ("--std=c++17", "-default-device", "-arch=sm_90")
    cubin, names, _ = load_nvrtc(newest.library).compile(source, "twice.cu", options, ["twice<2>"])
    assert cubin.startswith(b"\x7fELF")
    assert names == {"twice<2>": "_Z5twiceILi2EEvPf"}


def test_refused_source_reports_the_compilers_words(newest: Toolkit) -> None:
    with pytest.raises(CompileError, match='identifier "nowhere" is undefined'):
        load_nvrtc(newest.library).compile("__global__ void f() { nowhere(); }", "f.cu", ("-arch=sm_90",), ["f"])


@pytest.mark.usefixtures("newest")
def test_a_kernel_compiled_before_is_reported_again() -> None:
    for _ in range(2):
        unit = compile_unit(FOLDER, "check", ["read_all"], "sm_90")
        assert unit.reports["read_all"].registers > 0


def test_a_compile_without_a_report_is_refused(monkeypatch: pytest.MonkeyPatch, newest: Toolkit) -> None:
    monkeypatch.setattr(compile_module, "_reports", lambda _log: {})
    with pytest.raises(CompileError) as caught:
        compile_unit(FOLDER, "check", ["read_all"], "sm_90")
    assert str(caught.value).partition(" Its log:")[0] == (
        f"check.cu for sm_90: {newest.library} reports no registers for read_all, expected a line 'Used N registers' a "
        "kernel; use another release of NVRTC."
    )
