"""``validate`` and ``verify``: a document against the format, the package against itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ninfer_device_profiles import embedded
from ninfer_device_profiles.checking import check_package
from ninfer_device_profiles.errors import ProfileError
from ninfer_device_profiles.jsontext import load_json
from ninfer_device_profiles.linting import Severity, lint_document
from ninfer_device_profiles.reading import parse_document, read_bytes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ninfer_device_profiles.commands.surroundings import Surroundings


def configure_validate(parser: ArgumentParser) -> None:
    """Add the arguments of ``validate``."""
    parser.add_argument("path", metavar="FILE", help="profile document")
    parser.add_argument("--strict", action="store_true", help="exit 1 on warnings too")
    parser.add_argument("--builtin", action="store_true", help="a built-in table: entries need no calibration block")


def run_validate(arguments: Namespace, around: Surroundings) -> int:
    """Check a document: what the format forbids is an error, what its author hardly meant a warning."""
    catalog = embedded.load_catalog(around.package)
    try:
        data = read_bytes(arguments.path)
        document = parse_document(data, arguments.path)
    except ProfileError as error:
        if not arguments.json:
            raise
        around.json({"error": str(error), "file": arguments.path, "findings": [], "valid": False})
        return error.exit_code
    raw = load_json(data, arguments.path)
    findings = lint_document(document, catalog, raw=raw, builtin=arguments.builtin)
    warnings = [item for item in findings if item.severity is Severity.WARNING]
    if arguments.json:
        around.json(
            {
                "error": None,
                "file": arguments.path,
                "findings": [asdict(item) for item in findings],
                "valid": True,
            }
        )
    else:
        around.lines(
            *(f"{item.severity}: {item.where}: {item.text}" for item in findings),
            f"{arguments.path}: valid, {len(document.devices)} "
            f"{'entry' if len(document.devices) == 1 else 'entries'}, "
            f"{len(warnings)} {'warning' if len(warnings) == 1 else 'warnings'}",
        )
    return 1 if warnings and arguments.strict else 0


def configure_verify(_parser: ArgumentParser) -> None:
    """Add the arguments of ``verify``: none."""


def run_verify(arguments: Namespace, around: Surroundings) -> int:
    """Re-check the installed package: digests, layout, and that every schedule it names exists."""
    checks = check_package(around.package)
    whole = all(check.holds for check in checks)
    if arguments.json:
        around.json({"checks": [asdict(check) for check in checks], "holds": whole})
    else:
        around.lines(*(f"{'ok    ' if check.holds else 'FAILED'} {check.name}: {check.found}" for check in checks))
    return 0 if whole else 1
