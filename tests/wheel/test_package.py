"""The package as a whole: its names, its import, its metadata."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import ninfer_device_profiles
import pytest

WHEEL = Path(__file__).parent.parent.parent / "builtin_profiles"
PACKAGE = WHEEL / "ninfer_device_profiles"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(WHEEL)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=60
    )


def test_every_public_name_is_there_and_others_are_not() -> None:
    for name in ninfer_device_profiles.__all__:
        assert getattr(ninfer_device_profiles, name) is not None
    assert set(ninfer_device_profiles.__all__) <= set(dir(ninfer_device_profiles))
    with pytest.raises(AttributeError) as caught:
        _ = ninfer_device_profiles.absent
    assert str(caught.value) == "module 'ninfer_device_profiles' has no attribute 'absent'"


def test_importing_the_package_imports_nothing_else() -> None:
    program = "before = set(sys.modules); import ninfer_device_profiles; print(sorted(set(sys.modules) - before))"
    assert python("-I", "-c", f"import sys; sys.path.insert(0, {str(WHEEL)!r}); {program}").stdout == (
        "['__future__', 'ninfer_device_profiles']\n"
    )


def test_readers_do_not_import_the_lock() -> None:
    program = (
        "import sys, ninfer_device_profiles as n\n"
        "n.builtin_table(), n.find_profile, n.store_profile, n.Installation\n"
        "print('filelock' in sys.modules)"
    )
    assert python("-c", program).stdout == "False\n"


def test_the_module_runs_as_the_command() -> None:
    assert python("-m", "ninfer_device_profiles", "verify").stdout.startswith("ok     device_profiles.json, SHA-256: ")


def test_only_the_standard_library_and_filelock_are_imported() -> None:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    assert found - set(sys.stdlib_module_names) == {"ninfer_device_profiles", "filelock"}


def test_modules_parse_as_python_3_11_and_stay_short() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        ast.parse(text, feature_version=(3, 11))
        assert len(text.splitlines()) <= 400, path.name


def test_the_command_is_installed_and_the_package_is_typed() -> None:
    project = tomllib.loads((WHEEL / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"ninfer-profiles": "ninfer_device_profiles.cli:main"}
    assert [item.partition(">")[0] for item in project["dependencies"]] == ["filelock"]
    assert (PACKAGE / "py.typed").is_file()
