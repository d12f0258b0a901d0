"""Untrusted texts made from sound ones: hostile values, missing fields, repeated keys, changed bytes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn, SearchStrategy

VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    10**400,
    -(10**400),
    0.0,
    -0.5,
    1e-320,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x",
    "../../x",
    "/etc/x",
    "a\nb",
    "a\0b",
    "\ud800",
    "\u202e\x1b[2J",
    '<script>|`")',
    "[/red]",
    "{0!r}%s",
    "٣",
    "on",
    "9" * 5000,
    [],
    [[]],
    {},
    {"a": {"b": []}},
)
"""What no field expects, and what some do in another place."""

PIECES = (
    b"",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b",",
    b'"',
    b"[" * 5000,
    b"a=[" * 2000,
    b"9" * 5000,
    b"nan",
    b"inf",
    b"-",
    b"1e999",
    b"=",
    b"[[x]]\n",
    b"\xe2\x80\xa8",
)
"""What is put into a text, or in the place of a part of it."""


@st.composite
def changed_json(draw: DrawFn, text: str) -> str:
    """Return the JSON ``text`` with one to three places changed, or a key repeated."""
    data = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        holders = [item for item in _containers(data) if item]
        if not holders:
            break
        holder = draw(st.sampled_from(holders))
        remove, value = draw(st.booleans()) and draw(st.booleans()), deepcopy(draw(st.sampled_from(VALUES)))
        if isinstance(holder, dict):
            name = draw(st.sampled_from(sorted(holder)))
            if remove:
                del holder[name]
            else:
                holder[name] = value
        else:
            place = draw(st.integers(0, len(holder) - 1))
            if remove:
                holder.append(deepcopy(holder[place]))
            else:
                holder[place] = value
    changed = json.dumps(data)
    return changed.replace("{", '{"key": 1, "key": 2, ', 1) if draw(st.booleans()) and draw(st.booleans()) else changed


@st.composite
def changed_bytes(draw: DrawFn, text: str) -> bytes:
    """Return ``text`` as bytes, cut off, or with a part replaced."""
    data = text.encode()
    first = draw(st.integers(0, len(data)))
    length = draw(st.integers(0, 12))
    return data[:first] + draw(st.sampled_from(PIECES)) + (data[first + length :] if draw(st.booleans()) else b"")


def changed(text: str) -> SearchStrategy[bytes]:
    """Return what becomes of the JSON ``text`` in every way above."""
    return changed_json(text).map(lambda item: item.encode("utf-8", "surrogatepass")) | changed_bytes(text)


def _containers(value: object) -> Iterator[dict[str, object] | list[object]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            yield item
            stack.extend(item)
