"""Sessions: each installs what it needs and runs one verb. ``nox -l`` lists them, words after ``--`` go to the verb.

On a lab machine that already has the packages, ``nox --no-venv -s SESSION`` installs nothing.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["release"]
nox.options.error_on_external_run = False
nox.options.reuse_venv = "yes"

_REFERENCE = tomllib.loads((Path(__file__).parent / "builtin_profiles" / "reference_gpus.toml").read_text())
_CARDS = [*_REFERENCE["gpu"], *_REFERENCE.get("extra", [])]


def _install(session: nox.Session, *extras: str) -> None:
    if session.venv_backend == "none":
        return
    names = f"[{','.join(extras)}]" if extras else ""
    session.install("--quiet", "-e", "builtin_profiles", "-e", f".{names}")


def _verb(session: nox.Session, *words: str) -> None:
    session.run("python", "-m", "generator", *words, *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Derive, review against the last release, emit, build and verify the wheel; results in dist/."""
    _install(session, "wheel")
    _verb(session, "release")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need no GPU."""
    _install(session, "tests", "wheel", "compile")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and types."""
    _install(session, "lint", "tests")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def check(session: nox.Session) -> None:
    """Check that the committed table and emitted files are what their sources give."""
    _install(session)
    session.run("python", "-m", "generator", "derive", "--check")
    session.run("python", "-m", "generator", "emit", "--check")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel twice, compare, check its names and verify it in a clean environment."""
    _install(session, "wheel")
    _verb(session, "wheel")


@nox.session
def kernels(session: nox.Session) -> None:
    """Compile every candidate of every family for each architecture; needs no GPU."""
    _install(session, "compile")
    _verb(session, "kernels")


@nox.session
def gpu_tests(session: nox.Session) -> None:
    """Run the tests that need a CUDA device."""
    _install(session, "tests", "cuda13")
    session.run("pytest", "--gpu", "-m", "gpu", *session.posargs)


@nox.session
def calibrate(session: nox.Session) -> None:
    """Measure every route on this machine's GPU; store the profile and its evidence."""
    _install(session, "cuda13")
    _verb(session, "calibrate")


def _calibrate_card(card: dict[str, str]) -> None:
    slug = "-".join("".join(c if c.isalnum() else " " for c in card["name"].lower()).split())

    def session(session: nox.Session) -> None:
        _install(session, f"cuda{card['cuda']}")
        _verb(session, "calibrate", "--card", slug)

    session.__doc__ = f"Measure every route on the {card['name']}; refuses any other card."
    nox.session(name=f"calibrate-{slug}")(session)


for _card in _CARDS:
    _calibrate_card(_card)


@nox.session
def bench_unified(session: nox.Session) -> None:
    """Take over one round of the unified/* benchmarks (words after -- go to bench-unified)."""
    _install(session)
    _verb(session, "bench-unified")


@nox.session
def select(session: nox.Session) -> None:
    """Apply the two-round rule to the benchmark rounds that are there."""
    _install(session)
    _verb(session, "select")


@nox.session
def diff(session: nox.Session) -> None:
    """Compare the effective routing of two tables (default: HEAD against the working tree)."""
    _install(session)
    _verb(session, "diff")


@nox.session
def emit(session: nox.Session) -> None:
    """Write the files that others consume: JSON, C++ source and header, build info."""
    _install(session)
    _verb(session, "emit", "--write")


@nox.session
def golden(session: nox.Session) -> None:
    """Rewrite the golden files of the tests; review the result as a diff."""
    _install(session, "tests")
    session.run("pytest", "--golden", "-m", "golden", *session.posargs)
