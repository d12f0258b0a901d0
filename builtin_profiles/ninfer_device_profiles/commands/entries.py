"""``path``, ``list``, ``show``, ``restore``: which file, which entries, what they say, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles import embedded
from ninfer_device_profiles.commands.surroundings import (
    DeviceKey,
    add_device,
    add_file,
    exists,
    found_of,
    location_of,
    required_device,
)
from ninfer_device_profiles.errors import AbsentError, ProfileError
from ninfer_device_profiles.explaining import BUILTIN, FILE
from ninfer_device_profiles.matching import matches
from ninfer_device_profiles.model import Document, Profile
from ninfer_device_profiles.reading import read_document
from ninfer_device_profiles.shadowing import near_misses, shadow_report
from ninfer_device_profiles.store import REPLACED_SUFFIX, replaced_entries, restore_profile
from ninfer_device_profiles.writing import profile_to_json, serialise

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from ninfer_device_profiles.bands import Bands
    from ninfer_device_profiles.commands.surroundings import Surroundings


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    layer: str
    entry: Profile
    state: str


def configure_path(parser: ArgumentParser) -> None:
    """Add the arguments of ``path``."""
    add_file(parser)


def run_path(arguments: Namespace, around: Surroundings) -> int:
    """Print which profile file the engine would use, why, and in which state it is."""
    place = location_of(arguments, around)
    state, entries = "absent", 0
    if exists(place.path):
        try:
            entries = len(read_document(place.path).devices)
            state = f"{entries} {'entry' if entries == 1 else 'entries'}"
        except ProfileError as error:
            state = f"not readable: {error}"
    try:
        kept = len(replaced_entries(place.path))
    except ProfileError:
        kept = 0
    if arguments.json:
        around.json(
            {
                "entries": entries,
                "path": place.path,
                "reason": place.reason,
                "replaced": kept,
                "source": place.source,
                "state": state,
            }
        )
    else:
        around.lines(place.path, f"  why       {place.reason}", f"  state     {state}", f"  replaced  {kept} kept")
    return 0


def configure_list(parser: ArgumentParser) -> None:
    """Add the arguments of ``list``."""
    add_file(parser)
    parser.add_argument("--replaced", action="store_true", help="list the replaced entries that are kept instead")


def run_list(arguments: Namespace, around: Surroundings) -> int:
    """Print the entries of the profile file and of the built-in table, and whether each is in force."""
    place = location_of(arguments, around)
    if arguments.replaced:
        rows = [_Row(layer="replaced", entry=entry, state="kept") for entry in replaced_entries(place.path)]
    else:
        builtin = embedded.load_table(around.package).devices
        entries = read_document(place.path).devices if exists(place.path) else ()
        catalog = embedded.load_catalog(around.package)
        reports = shadow_report(entries, builtin, source=place.path, catalog=catalog)
        rows = [_Row(layer=FILE, entry=item.entry, state=item.ignored or "in force") for item in reports]
        rows += [_Row(layer=BUILTIN, entry=entry, state=_under(entry, rows)) for entry in builtin]
    if arguments.json:
        around.json([{"layer": row.layer, "state": row.state, **_summary(row.entry)} for row in rows])
    elif not rows:
        around.lines("no entries")
    else:
        around.table(
            ("layer", "hardware class", "SMs", "keys", "measured", "state"),
            [
                (
                    row.layer,
                    row.entry.hardware_class,
                    str(row.entry.multiprocessors or "any"),
                    str(len(row.entry.routes)),
                    _measured(row.entry),
                    row.state,
                )
                for row in rows
            ],
        )
    return 0


def configure_show(parser: ArgumentParser) -> None:
    """Add the arguments of ``show``."""
    add_file(parser)
    add_device(parser)
    parser.add_argument(
        "--layer",
        choices=("joined", "file", "builtin"),
        default="joined",
        help="one layer alone, or what the engine would install (the default)",
    )
    parser.add_argument("--key", default="", metavar="PREFIX", help="only route keys that start with this")
    parser.add_argument("--document", action="store_true", help="print a profile document, as ninfer-calibrate --print")


def run_show(arguments: Namespace, around: Surroundings) -> int:
    """Print a device's profile: the joined layers, or one of them."""
    device = required_device(arguments)
    place = location_of(arguments, around)
    found = found_of(device, place, around)
    entry = {"joined": found.profile, "file": found.measured or found.ignored, "builtin": found.builtin}[
        arguments.layer
    ]
    if entry is None:
        raise _nothing(device, place.path, embedded.load_table(around.package).devices, arguments.layer)
    routes = {key: bands for key, bands in sorted(entry.routes.items()) if key.startswith(arguments.key)}
    if arguments.json:
        around.json({**profile_to_json(entry), "routes": {key: list(bands) for key, bands in routes.items()}})
    elif arguments.document:
        around.out.write(serialise(Document(devices=(entry,))))
    else:
        around.lines(
            f"{entry.hardware_class}, {entry.multiprocessors or 'any number of'} SMs",
            f"  origin    {entry.origin}",
            f"  measured  {_measured(entry)}",
            *(f"  warning   {note.text}" for note in found.notes),
        )
        around.table(("route key", "bands"), [(key, spoken(bands)) for key, bands in routes.items()])
    return 0


def configure_restore(parser: ArgumentParser) -> None:
    """Add the arguments of ``restore``."""
    add_file(parser)
    add_device(parser)


def run_restore(arguments: Namespace, around: Surroundings) -> int:
    """Bring the device's newest replaced entry back into the profile file; the present one takes its place."""
    device = required_device(arguments)
    place = location_of(arguments, around)
    stored = restore_profile(device.hardware_class, device.multiprocessors, place.path)
    if arguments.json:
        around.json({"path": stored.path, **_summary(stored.profile)})
    else:
        around.lines(
            f"{stored.path}: {device.hardware_class} has its entry of {_measured(stored.profile)} back; "
            f"what it replaces is in {stored.path}{REPLACED_SUFFIX}"
        )
    return 0


def spoken(bands: Bands) -> str:
    """Return bands for people: ``1-8 compiled, 9-32 a``."""
    parts = []
    first = 1
    for last, schedule in bands:
        parts.append(f"{first if first == last else f'{first}-{last}'} {schedule or 'compiled'}")
        first = last + 1
    return ", ".join(parts) or "no band"


def _measured(entry: Profile) -> str:
    block = entry.calibration
    if block is None:
        return "no calibration block"
    return " ".join(filter(None, (block.date or "no date", block.ninfer_build, block.route_catalog)))


def _summary(entry: Profile) -> dict[str, object]:
    block = profile_to_json(entry).get("calibration")
    return {
        "calibration": block,
        "hardware_class": entry.hardware_class,
        "keys": len(entry.routes),
        "multiprocessors": entry.multiprocessors,
        "origin": entry.origin,
    }


def _under(entry: Profile, rows: list[_Row]) -> str:
    for row in rows:
        if row.state == "in force" and matches(row.entry, entry.hardware_class, entry.multiprocessors):
            return "in force, under the profile file's entry"
    return "in force"


def _nothing(device: DeviceKey, path: str, builtin: Sequence[Profile], layer: str) -> AbsentError:
    near = near_misses(builtin, device.hardware_class, device.multiprocessors, layer=BUILTIN)
    if exists(path):
        near += near_misses(read_document(path).devices, device.hardware_class, device.multiprocessors, layer=FILE)
    within = {"joined": "either layer", "file": f"the {FILE}", "builtin": f"the {BUILTIN}"}[layer]
    close = "".join(f" Near: {item.hardware_class} in the {item.layer} ({item.why})." for item in near)
    return AbsentError(
        f"{device.hardware_class} with {device.multiprocessors} SMs: no entry in {within}; "
        f"list what there is with `ninfer-profiles list`.{close}"
    )
