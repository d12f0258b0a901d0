"""What a verb works with: streams, environment, and the device and file that its arguments name."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles import embedded
from ninfer_device_profiles.errors import UsageError
from ninfer_device_profiles.finding import find_profile
from ninfer_device_profiles.location import profile_location
from ninfer_device_profiles.matching import hardware_class

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence
    from importlib.resources.abc import Traversable
    from typing import TextIO

    from ninfer_device_profiles.finding import Found
    from ninfer_device_profiles.location import Location

_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Where a verb reads and writes.

    Args:
        out: results.
        environment: variables by name.
        platform: as ``sys.platform``.
        package: folder of the embedded files; None for the installed package.
    """

    out: TextIO
    environment: Mapping[str, str]
    platform: str
    package: Traversable | None = None

    def lines(self, *lines: str) -> None:
        """Write lines, with characters that would steer a terminal made visible."""
        for line in lines:
            self.out.write(printable(line) + "\n")

    def json(self, value: object) -> None:
        """Write canonical JSON: sorted keys, indent 2, one final newline."""
        self.out.write(json.dumps(value, indent=2, sort_keys=True) + "\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows in columns under ``head``."""
        cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
        for row in cells:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.out.write(line.rstrip() + "\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceKey:
    """Hardware class and SM count."""

    hardware_class: str
    multiprocessors: int


def printable(text: str) -> str:
    """Return ``text`` with line breaks, control characters and unpaired surrogates as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def add_file(parser: ArgumentParser) -> None:
    """Add ``--file``."""
    parser.add_argument(
        "--file", default="", metavar="PATH", help="profile file; by default the one that the engine would use"
    )


def add_device(parser: ArgumentParser) -> None:
    """Add the arguments that name a device."""
    group = parser.add_argument_group("device", "either --class and --sms, or --name, --capability and --sms")
    group.add_argument("--class", dest="hardware_class", metavar="CLASS", help="hardware class")
    group.add_argument("--name", help="device name as the driver reports it")
    group.add_argument("--capability", metavar="X.Y", help="compute capability")
    group.add_argument("--sms", type=int, metavar="N", help="SM count")


def device_of(arguments: Namespace) -> DeviceKey | None:
    """Return the device that the arguments name, or None where they name none.

    Raises:
        UsageError: they name half of one.
    """
    if all(value is None for value in (arguments.hardware_class, arguments.name, arguments.capability, arguments.sms)):
        return None
    by_class = arguments.hardware_class is not None
    by_name = arguments.name is not None and arguments.capability is not None
    if arguments.sms is None or by_class == by_name or (by_class and (arguments.name or arguments.capability)):
        raise UsageError(
            "a device is named by --class and --sms, or by --name, --capability and --sms. Give one whole set."
        )
    if by_class:
        return DeviceKey(hardware_class=arguments.hardware_class, multiprocessors=arguments.sms)
    capability = _CAPABILITY.fullmatch(arguments.capability)
    if capability is None:
        raise UsageError(f"--capability: {arguments.capability!r}; it is major.minor, as 8.6. Correct it.")
    name = hardware_class(arguments.name, (int(capability[1]), int(capability[2])))
    return DeviceKey(hardware_class=name, multiprocessors=arguments.sms)


def required_device(arguments: Namespace) -> DeviceKey:
    """Return the device that the arguments name.

    Raises:
        UsageError: they name none, or half of one.
    """
    device = device_of(arguments)
    if device is None:
        raise UsageError("no device is named. Give --class and --sms, or --name, --capability and --sms.")
    return device


def location_of(arguments: Namespace, around: Surroundings) -> Location:
    """Return the profile file that the arguments or the environment name."""
    return profile_location(around.environment, platform=around.platform, explicit=arguments.file)


def found_of(device: DeviceKey, place: Location, around: Surroundings) -> Found:
    """Return what the profile file at ``place`` and the built-in table say of ``device``.

    Raises:
        EmbeddedError: an embedded file is absent or damaged.
    """
    return find_profile(
        device.hardware_class,
        device.multiprocessors,
        path=place.path,
        builtin=embedded.load_table(around.package).devices,
        catalog_digest=embedded.load_catalog(around.package).digest,
    )


def exists(path: str) -> bool:
    """Return whether something is at ``path``, broken links not counted."""
    try:
        return os.path.exists(path)  # noqa: PTH110 - paths stay text
    except ValueError:
        return False
