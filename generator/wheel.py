"""Build the wheel that embeds the table and prove it: names, bytes, metadata, a run in a clean environment.

The wheel is built through the sdist, so a file that the sdist drops is missing from the wheel and found here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from generator.errors import DifferenceError, GeneratorError, ToolError
from generator.files import write_files
from generator.repository import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from generator.repository import Repository

EARLIEST_EPOCH = 315532800
"""1980-01-01: zip files cannot hold an earlier time stamp."""

REQUIRED = (
    "ninfer_device_profiles/build_info.json",
    "ninfer_device_profiles/catalog.json",
    "ninfer_device_profiles/device_profiles.json",
    "ninfer_device_profiles/py.typed",
    "ninfer_device_profiles/schema/device-route-profiles.schema.json",
)
"""Files without which the wheel cannot prove itself; named here so that dropping one from the tree is noticed."""

_PACKAGES = ("build", "hatchling", "twine")

_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "sources", "cpp", "dist", "*.egg-info", ".*")


class WheelError(ToolError):
    """Report a step of building or proving the wheel that went wrong."""


class PackagesError(GeneratorError):
    """Report that the packages which build a wheel are not installed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The two files of a release and the digest of the wheel."""

    wheel: Path
    sdist: Path
    sha256: str


def require_packages() -> None:
    """Raise if a package that builds the wheel is not installed: a release asks before it writes anything.

    Raises:
        PackagesError: names the environment, what it lacks, and how to get one that does not.
    """
    # A folder named build/ in the working directory is found too, as a package without a file.
    specs = {name: find_spec(name) for name in _PACKAGES}
    missing = [name for name, spec in specs.items() if spec is None or spec.origin is None]
    if missing:
        raise PackagesError(
            f"{sys.prefix}: no {' and '.join(missing)} there, expected the packages of the extra wheel; nothing was "
            "written. Use `nox -s release`, or `pip install -e builtin_profiles -e '.[wheel]'`"
        )


def build_wheel(
    repository: Repository, replaced: Mapping[Path, bytes], output: Path, epoch: int, say: Callable[[str], None]
) -> Built:
    """Build sdist and wheel twice, compare the bytes, check the names and the metadata, and move them to ``output``.

    Args:
        repository: the checkout.
        replaced: files of the wheel project whose content differs in this build (a table with extras).
        output: folder of the results.
        epoch: SOURCE_DATE_EPOCH of the build, seconds.
        say: takes one line a step.

    Raises:
        WheelError: a tool failed; its output is in the message.
        DifferenceError: two builds differ, or the names in the wheel are not those of the source tree.
    """
    with tempfile.TemporaryDirectory(prefix="ninfer-wheel-") as folder:
        project = Path(folder) / "builtin_profiles"
        shutil.copytree(repository.project, project, ignore=_IGNORED)
        for path, content in replaced.items():
            (project / path.relative_to(repository.project)).write_bytes(content)
        builds = [_build(project, Path(folder) / name, epoch) for name in ("first", "second")]
        say("built twice through the sdist")
        _same(builds[0], builds[1])
        say(f"both builds have the same bytes: {builds[0].sha256}")
        names = check_names(builds[0].wheel, project)
        say(f"the wheel holds exactly the {names} expected files")
        _tool("twine", "check", "--strict", str(builds[0].wheel), str(builds[0].sdist))
        say("twine check --strict passes")
        found = builds[0]
        write_files({output / path.name: path.read_bytes() for path in (found.wheel, found.sdist)})
    return Built(wheel=output / found.wheel.name, sdist=output / found.sdist.name, sha256=found.sha256)


def _build(project: Path, output: Path, epoch: int) -> Built:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(max(epoch, EARLIEST_EPOCH))}
    _tool("build", "--no-isolation", "--outdir", str(output), str(project), environment=environment)
    wheels, sdists = sorted(output.glob("*.whl")), sorted(output.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        raise WheelError(f"build: found {[path.name for path in output.iterdir()]!r}; expected one wheel and one sdist")
    return Built(wheel=wheels[0], sdist=sdists[0], sha256=sha256_of(wheels[0].read_bytes()))


def _same(first: Built, second: Built) -> None:
    for one, two in ((first.wheel, second.wheel), (first.sdist, second.sdist)):
        if one.read_bytes() != two.read_bytes():
            raise DifferenceError(
                f"{one.name}: two builds of one tree differ; expected the same bytes under SOURCE_DATE_EPOCH. "
                "Look for a time stamp or an unsorted listing in the build"
            )


def check_names(wheel: Path, project: Path) -> int:
    """Compare the wheel's whole list of names with the source tree's; return their number.

    Raises:
        DifferenceError: names the files that are missing and those that should not be there.
    """
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if not name.endswith("/")}
    info = next(name.split("/")[0] for name in sorted(found) if ".dist-info/" in name)
    metadata = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    package = project / "ninfer_device_profiles"
    expected = {path.relative_to(project).as_posix() for path in package.rglob("*") if path.is_file()}
    expected |= {*REQUIRED, *(f"{info}/{name}" for name in metadata)}
    if found != expected:
        raise DifferenceError(
            f"{wheel.name}: missing {sorted(expected - found)!r}, unexpected {sorted(found - expected)!r}; "
            "correct the build configuration of builtin_profiles/pyproject.toml"
        )
    return len(found)


def verify_installed(wheel: Path, say: Callable[[str], None]) -> str:
    """Install the wheel into an empty environment and let it verify itself; return what it printed.

    Raises:
        WheelError: the installation or the verification failed.
    """
    with tempfile.TemporaryDirectory(prefix="ninfer-verify-") as folder:
        venv.create(folder, with_pip=True)
        scripts = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_TARGET"))}
        _run([str(scripts / "python"), "-m", "pip", "install", "--quiet", str(wheel)], clean, Path(folder))
        say("installed into an empty environment")
        return _run([str(scripts / "ninfer-profiles"), "verify"], clean, Path(folder))


def _tool(module: str, *words: str, environment: Mapping[str, str] | None = None) -> str:
    return _run([sys.executable, "-m", module, *words], dict(os.environ if environment is None else environment), None)


def _run(command: list[str], environment: dict[str, str], folder: Path | None) -> str:
    result = subprocess.run(  # noqa: S603 - our own tools, no shell
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        name = " ".join(Path(word).name if index == 0 else word for index, word in enumerate(command[:4]))
        raise WheelError(f"{name}: exit code {result.returncode}\n{(result.stdout + result.stderr).strip()[-3000:]}")
    return result.stdout
