"""``explain`` and ``shadow``: which layer answers, and what a profile file does to the built-in table."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from ninfer_device_profiles import embedded
from ninfer_device_profiles.commands.surroundings import (
    add_device,
    add_file,
    device_of,
    exists,
    found_of,
    location_of,
    required_device,
)
from ninfer_device_profiles.errors import AbsentError
from ninfer_device_profiles.explaining import explain
from ninfer_device_profiles.matching import matches
from ninfer_device_profiles.overrides import Overrides
from ninfer_device_profiles.reading import read_document
from ninfer_device_profiles.shadowing import Shadow, near_misses, shadow_report

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ninfer_device_profiles.commands.surroundings import Surroundings
    from ninfer_device_profiles.explaining import LayerAnswer
    from ninfer_device_profiles.shadowing import EntryShadow, KeyShadow, Span


def configure_explain(parser: ArgumentParser) -> None:
    """Add the arguments of ``explain``."""
    parser.add_argument("key", help="route key")
    parser.add_argument("width", type=_width, help="tokens, columns or window, as the key has it")
    add_file(parser)
    add_device(parser)
    parser.add_argument(
        "--fast-prefill-kernel", action="store_true", help="assume that the engine runs with this option"
    )


def run_explain(arguments: Namespace, around: Surroundings) -> int:
    """Print which layer answers for a key at a width, what the others would say, and the overrides."""
    device = required_device(arguments)
    place = location_of(arguments, around)
    found = found_of(device, place, around)
    result = explain(
        arguments.key,
        arguments.width,
        found,
        catalog=embedded.load_catalog(around.package),
        overrides=Overrides.from_environment(around.environment),
        fast_prefill_option=arguments.fast_prefill_kernel,
    )
    table = embedded.load_table(around.package)
    near = (
        () if found.profile is not None else near_misses(table.devices, device.hardware_class, device.multiprocessors)
    )
    if arguments.json:
        near_json = [asdict(item) for item in near]
        around.json({**asdict(result), "device": asdict(device), "file": place.path, "near": near_json})
    else:
        around.lines(
            f"{result.key} at {result.width} on {device.hardware_class} ({device.multiprocessors} SMs): "
            f"{result.schedule or 'compiled route'}",
            f"  answered by     {result.answered_by}; {result.reason}",
            *(f"  {item.layer:15} {_said(item)}" for item in result.layers),
            *(f"  override        {item.operation}: {item.outcome}, by {item.by}" for item in result.rulings),
            *(f"  remark          {remark}" for remark in result.remarks),
            *(f"  near            {item.hardware_class} in the {item.layer}: {item.why}" for item in near),
            f"  file            {place.path} ({place.reason})",
        )
    return 0


def configure_shadow(parser: ArgumentParser) -> None:
    """Add the arguments of ``shadow``."""
    add_file(parser)
    add_device(parser)


def run_shadow(arguments: Namespace, around: Surroundings) -> int:
    """Print what the profile file's entries hide of the built-in table, repeat of it, and add to it."""
    place = location_of(arguments, around)
    device = device_of(arguments)
    if not exists(place.path):
        raise AbsentError(f"{place.path}: absent, so it hides nothing ({place.reason}). Name another with --file.")
    reports = [
        report
        for report in shadow_report(
            read_document(place.path).devices,
            embedded.load_table(around.package).devices,
            source=place.path,
            catalog=embedded.load_catalog(around.package),
        )
        if device is None or matches(report.entry, device.hardware_class, device.multiprocessors)
    ]
    if arguments.json:
        around.json({"entries": [_shadow_json(report) for report in reports], "file": place.path})
    else:
        around.lines(f"{place.path}: {len(reports)} {'entry' if len(reports) == 1 else 'entries'}")
        for report in reports:
            around.lines(*_shadow_lines(report))
    return 0


def _width(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 2147483647:
        raise argparse.ArgumentTypeError(f"{text!r}: widths are whole numbers from 1 to 2147483647")
    return int(text)


def _said(answer: LayerAnswer) -> str:
    if answer.schedule is None:
        return f"says nothing: {answer.reason}"
    said = answer.schedule or "compiled route"
    if answer.last is None:
        return f"{answer.reason}"
    return f"{said} for {answer.first} to {answer.last} ({answer.reason})"


def _shadow_lines(report: EntryShadow) -> list[str]:
    entry = report.entry
    lines = ["", f"{entry.hardware_class}, {entry.multiprocessors or 'any number of'} SMs"]
    lines.append(f"  {report.ignored}" if report.ignored else "  in force")
    if report.base is None:
        lines.append("  the built-in table has no entry of this device")
    else:
        lines.append(f"  over {report.base.origin}")
    lines += [f"  near: {item.hardware_class} in the {item.layer}: {item.why}" for item in report.near]
    for shadow, title in (
        (Shadow.HIDES, "hiding a built-in choice, which may be the better one (neither is timed here)"),
        (Shadow.REPEATS, "saying what the built-in table says, so not needed"),
        (Shadow.ADDS, "that the built-in table does not name"),
    ):
        keys = [item for item in report.keys if item.shadow is shadow]
        if keys:
            lines.append(f"  {len(keys)} {'key' if len(keys) == 1 else 'keys'} {title}")
            lines += [f"    {line}" for item in keys for line in _key_lines(item)]
    return lines


def _key_lines(item: KeyShadow) -> list[str]:
    if item.shadow is Shadow.ADDS:
        return [f"{item.key}: {_routed(item)}"]
    lines = [
        f"{item.key} {_widths(span)}: {span.file or 'compiled'} instead of {span.builtin or 'compiled'}"
        for span in item.spans
    ] or [item.key]
    if item.seam is not None:
        lines.append(f"{item.key}: past width {item.seam} the built-in bands answer again")
    return lines


def _routed(item: KeyShadow) -> str:
    return ", ".join(f"{_widths(span)} {span.file}" for span in item.spans) or "compiled throughout"


def _widths(span: Span) -> str:
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"


def _shadow_json(report: EntryShadow) -> dict[str, object]:
    return {
        "builtin_origin": None if report.base is None else report.base.origin,
        "hardware_class": report.entry.hardware_class,
        "ignored": report.ignored,
        "keys": {
            item.key: {"seam": item.seam, "shadow": item.shadow, "spans": [asdict(span) for span in item.spans]}
            for item in report.keys
        },
        "multiprocessors": report.entry.multiprocessors,
        "near": [asdict(item) for item in report.near],
    }
