"""A review as plain JSON values; ``schema/review.schema.json`` describes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ninfer_device_profiles.document import JsonValue

    from generator.core.diff import Change
    from generator.core.review import Review
    from generator.core.routing import Answer, DeviceId

VERSION = 1
"""Version of the report's form; raised when a field changes its meaning or goes."""


def review_text(review: Review) -> str:
    """Return ``review`` as JSON text: indented, keys sorted, in ASCII; changes in the order of the review.

    Changes are written one by one: all of them as values take several times the memory of their text.
    """
    none = '\n  "changes": []'  # stands in no text of a table: a line end is escaped there
    before, _, after = _text(_without_changes(review)).partition(none)
    changes = ["\n    " + _text(_change(item)).replace("\n", "\n    ") for item in review.diff.changes]
    listed = f'\n  "changes": [{",".join(changes)}\n  ]' if changes else none
    return f"{before}{listed}{after}\n"


def _text(value: JsonValue) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True)


def _without_changes(review: Review) -> dict[str, JsonValue]:
    return {
        "report": "ninfer.device-route-diff",
        "report_version": VERSION,
        "old": review.old,
        "new": review.new,
        "route_catalog": review.catalog_digest,
        "compared": {"devices": review.devices, "keys": review.keys, "cells": review.cells},
        "changes": [],
        "devices_added": [_device(item) for item in review.diff.devices_added],
        "devices_dropped": [_device(item) for item in review.diff.devices_dropped],
        "missing_reference_gpus": [
            {"name": c.name, "hardware_class": c.hardware_class, "multiprocessors": c.multiprocessors}
            for c in review.missing
        ],
        "unknown": [
            {**_place(item.device, item.key, item.first, item.last), "schedule": item.schedule}
            for item in review.unknown
        ],
        "findings": [
            {**_place(item.device, item.key, item.first, item.last), "rule": item.rule.value, "text": item.text}
            for item in review.findings
        ],
        "text_only": list(review.text_only),
        "notes": list(review.notes),
        "gate": {
            "refused": bool(review.refused),
            "reasons": [
                {
                    **_device(item.device),
                    "key": item.key,
                    "ranges": [list(span) for span in item.ranges],
                    "rule": item.refusal.value,
                    "text": item.text,
                }
                for item in review.refused
            ],
        },
    }


def _device(device: DeviceId) -> dict[str, JsonValue]:
    return {"hardware_class": device.hardware_class, "multiprocessors": device.multiprocessors}


def _place(device: DeviceId, key: str, first: int, last: int) -> dict[str, JsonValue]:
    return {**_device(device), "key": key, "first": first, "last": last}


def _answer(answer: Answer) -> dict[str, JsonValue]:
    return {
        "acts": answer.acts,
        "written": answer.written,
        "layer": answer.layer.value,
        "state": answer.state.value,
        "rounding": answer.rounding,
    }


def _change(change: Change) -> dict[str, JsonValue]:
    support = change.support
    return {
        **_place(change.device, change.key, change.first, change.last),
        "change": change.kind.value,
        "old": _answer(change.old),
        "new": _answer(change.new),
        "acts_differently": change.acts,
        "rounding_changed": change.rounding_changed,
        "evidence": None
        if support is None
        else {
            "rule": support.rule,
            "reference": support.reference,
            "gain": support.gain,
            "difference": support.difference,
        },
        "cause": change.cause or None,
    }
