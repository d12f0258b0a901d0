"""Strict JSON: what the engine's parser refuses is refused here too, with a position.

Python's ``json`` alone takes NaN, infinities, numbers that overflow and lone surrogates, and lets the last of two
equal keys win without a word.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Literal

from ninfer_device_profiles.errors import DocumentError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ninfer_device_profiles.model import JsonValue

MAX_BYTES = 16 * 1024 * 1024
"""Largest document that is read: the table of 2,000 fully calibrated devices. Checked before parsing."""

MAX_DEPTH = 64
"""Deepest nesting of an unknown field; the format itself nests six levels."""

Duplicates = Literal["refuse", "last"]

Step = str | int
_CORRECT = "Correct it there, or remove the file and recalibrate."
_SHOWN = 60


class _RepeatedKeys(dict[str, "JsonValue"]):
    """An object whose text has a key twice; ``repeated`` is the first such key."""

    repeated: str


def load_json(text: str | bytes, source: str, *, duplicates: Duplicates = "refuse") -> JsonValue:
    """Return the JSON value in ``text``.

    Args:
        text: bytes are UTF-8; a byte-order mark is skipped.
        source: leads every message.
        duplicates: what a key that an object has twice means: an error, or, as in the engine, the last value.

    Raises:
        UnreadableError: the text is larger than `MAX_BYTES`.
        DocumentError: the text is not JSON, or holds what the engine's parser refuses.
    """
    if len(text) > MAX_BYTES:
        raise too_large(source, len(text))
    decoded = _decoded(text, source).removeprefix("\ufeff")
    repeats: list[str] = []

    def make_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        again = _RepeatedKeys(value)
        again.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        repeats.append(again.repeated)
        return again

    try:
        value: JsonValue = json.loads(
            decoded, object_pairs_hook=make_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"{source}: line {error.lineno} column {error.colno}: invalid JSON ({error.msg}); "
            f"a profile file is one JSON object. {_CORRECT}"
        ) from error
    except RecursionError as error:
        raise _too_deep(source) from error
    except ValueError as error:
        raise DocumentError(f"{source}: invalid JSON ({error}); numbers are finite and decimal. {_CORRECT}") from error
    if repeats and duplicates == "refuse":
        raise _repeated(value, source, repeats[0])
    if "\\ud" in decoded or "\\uD" in decoded:
        refuse_surrogates(value, source)
    return value


def refuse_surrogates(value: JsonValue, source: str) -> None:
    """Raise `DocumentError` where a string of ``value`` cannot be written as UTF-8."""
    for path, item in _walk(value):
        for text in (item, *(item if isinstance(item, dict) else ())):
            if isinstance(text, str) and not _encodable(text):
                raise DocumentError(
                    f"{at(source, path)}: text {shown(text)} holds half of a surrogate pair; "
                    f"text is valid Unicode, written as UTF-8. {_CORRECT}"
                )


def refuse_depth(value: JsonValue, source: str) -> None:
    """Raise `DocumentError` where ``value`` nests deeper than `MAX_DEPTH`."""
    if isinstance(value, dict | list):
        for path, _ in _walk(value):
            if len(path) >= MAX_DEPTH:
                raise _too_deep(source)


def too_large(source: str, size: int | None) -> UnreadableError:
    """Return the error for a text of ``size`` bytes (None: more than was read)."""
    found = f"{size:,} bytes" if size is not None else f"more than {MAX_BYTES:,} bytes"
    return UnreadableError(
        f"{source}: {found}; a profile document has at most {MAX_BYTES:,}. "
        "Check the path, or remove the file and recalibrate."
    )


def at(source: str, path: Sequence[Step]) -> str:
    """Return ``source`` with a position behind it: ``file.json ['devices'][0]``."""
    steps = "".join(f"[{shown(step)}]" for step in path)
    return f"{source} {steps}" if steps else source


def shown(value: object) -> str:
    """Return a short form of ``value`` for a message; objects and arrays by their size alone."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value) if isinstance(value, str) and not _encodable(value) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _walk(value: JsonValue) -> Iterator[tuple[tuple[Step, ...], JsonValue]]:
    """Yield every value with its path, without recursion; paths stop growing at `MAX_DEPTH`."""
    stack: list[tuple[tuple[Step, ...], JsonValue]] = [((), value)]
    while stack:
        path, item = stack.pop()
        yield path, item
        children: list[tuple[Step, JsonValue]] = []
        if isinstance(item, dict):
            children = list(item.items())
        elif isinstance(item, list):
            children = list(enumerate(item))
        stack.extend((path if len(path) >= MAX_DEPTH else (*path, step), child) for step, child in reversed(children))


def _decoded(text: str | bytes, source: str) -> str:
    try:
        if isinstance(text, bytes):
            return text.decode("utf-8")
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{source}: byte {error.start}: invalid UTF-8 ({error.reason}); a profile file is UTF-8 text. {_CORRECT}"
        ) from error
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"{source}: character {error.start}: {shown(error.object[error.start])} is half of a surrogate pair; "
            f"text is valid Unicode, written as UTF-8. {_CORRECT}"
        ) from error
    return text


def _repeated(value: JsonValue, source: str, key: str) -> DocumentError:
    for path, item in _walk(value):
        if isinstance(item, _RepeatedKeys):
            source, key = at(source, path), item.repeated
            break
    return DocumentError(
        f"{source}: key {shown(key)} appears twice; an object has each key once "
        f"(the engine silently takes the last). {_CORRECT}"
    )


def _too_deep(source: str) -> DocumentError:
    return DocumentError(f"{source}: nested too deeply; values nest at most {MAX_DEPTH} levels. {_CORRECT}")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {shown(text)} overflows")
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
