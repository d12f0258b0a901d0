"""What the tree promises: who imports whom, where numbers and packages stay, that modules stay small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from generator.core.limits import LIMITS, UNIFIED_LIMITS
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHEEL = "ninfer_device_profiles"
MOST_LINES = 400

ARROWS = {
    WHEEL: (WHEEL,),
    "generator.errors": (),
    "generator.core": (WHEEL, "generator.core", "generator.errors"),
    "kernels": (WHEEL, "kernels", "generator.core.route"),
    "generator.gpu": (WHEEL, "generator.gpu", "generator.core", "generator.errors"),
    "generator.replay": (WHEEL, "generator.core", "generator.errors"),
    "generator.verbs": (WHEEL, "kernels", "generator"),
    "generator.__main__": (WHEEL, "generator.errors", "generator.output", "generator.verbs"),
    "generator": (WHEEL, "kernels", "generator"),
}
"""What a part may import of the project; the longest name that fits a module counts."""

OUTSIDE = {
    "cupy": ("generator.gpu",),
    "cupy_backends": ("generator.gpu",),
    "pynvml": ("generator.gpu.device",),
    "deepdiff": ("generator.core.diff",),
    "jinja2": ("generator.core.emit", "generator.core.report"),
    "filelock": (f"{WHEEL}.atomic",),
    "ml_dtypes": ("generator.core.fill",),
    "numpy": ("generator.core.fill", "generator.core.route", "generator.gpu", "kernels"),
    "rich": ("generator.__main__", "generator.output", "generator.progress", "generator.verbs"),
}
"""Where a package that is not ours may be imported."""

TOP_ONLY = ("generator.__main__", "generator.verbs", "generator.pipeline")
"""What only a command imports."""


class Module(NamedTuple):
    """One Python file of the project."""

    name: str
    path: Path
    tree: ast.Module


def _files() -> Iterator[tuple[str, Path]]:
    for base, package in ((ROOT, "generator"), (ROOT, "kernels"), (ROOT / "builtin_profiles", WHEEL)):
        for path in sorted((base / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def modules() -> tuple[Module, ...]:
    return tuple(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))) for name, path in _files())


def imported(module: Module) -> set[str]:
    """Return every module that ``module`` imports anywhere, names taken from a package as its submodules."""
    known = {item.name for item in modules()}
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}: imports are absolute"
            assert node.module is not None
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= inside or {node.module}
    return found


def within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def part_of(name: str) -> str:
    return max((part for part in ARROWS if within(name, (part,))), key=len)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_imports_follow_the_arrows(module: Module) -> None:
    allowed = ARROWS[part_of(module.name)]
    ours = {name for name in imported(module) if within(name, (WHEEL, "generator", "kernels"))}
    assert {name for name in ours if not within(name, allowed)} == set()
    if not within(module.name, TOP_ONLY):
        assert {name for name in ours if within(name, TOP_ONLY)} == set()


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_packages_of_others_stay_where_they_belong(module: Module) -> None:
    roots = {name.partition(".")[0] for name in imported(module)} - {"generator", "kernels", WHEEL}
    foreign = roots - set(sys.stdlib_module_names)
    assert {name for name in foreign if not within(module.name, OUTSIDE.get(name, ()))} == set()


def test_every_package_that_is_imported_is_declared_and_the_reverse() -> None:
    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=! ]", item)[0].replace("-", "_") for item in requirements}

    def foreign(*packages: str) -> set[str]:
        found = {name.partition(".")[0] for item in modules() if within(item.name, packages) for name in imported(item)}
        return found - set(sys.stdlib_module_names) - {"generator", "kernels"}

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    edge = {"cupy", "cupy_backends", "pynvml"}  # chosen with the CUDA release, in an extra
    assert names(project["dependencies"]) == foreign("generator", "kernels") - edge
    wheel = tomllib.loads((ROOT / "builtin_profiles/pyproject.toml").read_text())["project"]
    assert names(wheel["dependencies"]) == foreign(WHEEL) - {WHEEL}


def test_everything_outside_the_gpu_edge_imports_without_cupy_and_pynvml() -> None:
    names = [item.name for item in modules() if not within(item.name, ("generator.gpu",))]
    code = (
        "import importlib, sys\n"
        "for name in ('cupy', 'cupy_backends', 'pynvml'):\n"
        "    sys.modules[name] = None\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
    )
    path = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'builtin_profiles')]!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "module", [item for item in modules() if not within(item.name, ("kernels",))], ids=lambda module: module.name
)
def test_a_module_has_at_most_400_lines(module: Module) -> None:
    assert len(module.path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_only_the_commands_print_or_exit() -> None:
    speaking = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    found = {
        item.name
        for item in modules()
        for node in ast.walk(item.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in speaking
    }
    assert found == {"generator.__main__", f"{WHEEL}.__main__"}


def test_core_asks_for_no_clock_environment_or_process() -> None:
    asking = ("time", "os", "subprocess", "random", "secrets", "socket", "tempfile", "threading")
    core = [item for item in modules() if within(item.name, ("generator.core",))]
    assert {(item.name, name) for item in core for name in imported(item) if within(name, asking)} == set()
    clocks = {"today", "now", "utcnow"}
    calls = {
        (item.name, node.func.attr)
        for item in core
        for node in ast.walk(item.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert {call for call in calls if call[1] in clocks} == set()


def _numbers(tree: ast.Module) -> set[float]:
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    }


def test_numbers_of_the_rules_stand_in_limits_alone() -> None:
    numbers = {getattr(limits, name) for limits in (LIMITS, UNIFIED_LIMITS) for name in limits.__dataclass_fields__}
    # Small whole numbers, halves and doubles have other meanings everywhere; the rules' own values do not.
    telling = {value for value in numbers if value not in {0.5, 1.5, 2, 3, 4, 8}}
    drawing = {"generator.core.gain_picture"}  # its axis has ticks at 0.01, 0.02, 0.05
    checked = [
        item
        for item in modules()
        if within(item.name, ("generator.core", "generator.verbs"))
        and item.name not in {"generator.core.limits", *drawing}
    ]
    assert {(item.name, value) for item in checked for value in _numbers(item.tree) & telling} == set()


def test_workflows_call_sessions_that_exist() -> None:
    sessions = set(re.findall(r"@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text()))
    script = (ROOT / ".ci/run").read_text()
    called = set(re.findall(r"for session in ([\w ]+);", script)[0].split())
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        called |= set(re.findall(r"nox (?:-s|--session) (\w+)", workflow.read_text()))
    assert called <= sessions
    assert {"tests", "lint", "check", "wheel", "kernels"} <= called
