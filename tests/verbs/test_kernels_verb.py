"""The verb kernels: what is compiled, what is shown, what fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from generator.__main__ import run_verb
from generator.core.reference import parse_reference_gpus
from generator.core.resources import Usage, device_facts, obstacle
from generator.errors import CompileError
from generator.gpu.nvrtc import find_toolkits, toolkit_for
from generator.verbs.kernels import DEFAULT_ARCHS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        toolkit_for("sm_90", find_toolkits())
    except CompileError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def kernels(*words: str) -> int:
    return run_verb("kernels", words, program="kernels")


def test_every_kernel_of_a_route_is_reported_and_the_second_run_compiles_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--arch", "sm_90", "--only", "t2_i8_small/5120x6144", "--json", "--jobs", "1")
    assert kernels(*words) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first) >= 11
    assert all(row["registers"] > 0 and row["threads"] > 0 and not row["error"] for row in first)

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("generator.gpu.kernel_cache.compile_unit", refuse)
    assert kernels(*words) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_an_architecture_that_does_not_read_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels("--arch", "ampere") == 2
    assert capsys.readouterr().err == (
        "kernels: --arch 'ampere': expected a list such as sm_70,sm_86,sm_89,sm_90,sm_120\n"
    )


def test_an_architecture_that_no_release_knows_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels("--arch", "sm_999") == 2
    assert capsys.readouterr().err.startswith(
        "kernels: --arch 'sm_999': this NVRTC does not compile for it; expected some of sm_"
    )


def usage(registers: int = 32, static: int = 0, dynamic: int = 0, threads: int = 256) -> Usage:
    return Usage(registers=registers, static_shared_bytes=static, dynamic_shared_bytes=dynamic, threads=threads)


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (usage(static=1376, dynamic=100000), ""),
        (usage(static=1377, dynamic=100000), "101377 bytes of shared memory, 101376 a block"),
        (usage(threads=1024, registers=64), ""),
        (usage(threads=1024, registers=65), "73728 registers, 65536 a block"),
        (usage(threads=1025, registers=8), "1025 threads, 1024 a block"),
    ],
)
def test_a_kernel_that_cannot_launch_says_why(taken: Usage, reason: str) -> None:
    assert obstacle(taken, device_facts(86, ())) == reason


def test_an_absent_compiler_is_told_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generator.verbs.kernels.find_toolkits", lambda: ())
    assert kernels("--arch", "sm_86,sm_90") == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "",
        (
            "kernels: no NVRTC for sm_86: found none, expected release 13 or older. Install the package "
            "'nvidia-cuda-nvrtc' and the runtime headers of the same release, or both with "
            "`pip install -e builtin_profiles -e '.[compile]'`.\n"
        ),
    )


def test_every_reference_card_is_compiled_for_unless_told(root: Path) -> None:
    cards = parse_reference_gpus((root / "builtin_profiles/reference_gpus.toml").read_text(), "x")
    assert {f"sm_{card.capability}" for card in cards} <= set(DEFAULT_ARCHS.split(","))
