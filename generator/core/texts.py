"""JSON and TOML as untrusted text: whatever it holds, a value comes out or one of our errors."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, NoReturn

from generator.core.escape import visible
from generator.errors import GeneratorError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping


def load_json(text: str | bytes, source: str, remedy: str, *, error: type[GeneratorError] = SourceError) -> object:
    """Return the JSON value in ``text``.

    Numbers may still be too large for a float; what takes a number checks it.

    Raises:
        error: the text is not JSON, nests too deeply, has a key twice in one object, or half of a surrogate pair.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value: object = json.loads(decoded, parse_constant=_no_constant, object_pairs_hook=_object)
        if "\\ud" in decoded or "\\uD" in decoded:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as found:
        raise error(f"{source}: byte {found.start} is not UTF-8; {remedy}") from None
    except UnicodeEncodeError:
        raise error(f"{source}: not JSON: a text holds half of a surrogate pair; {remedy}") from None
    except RecursionError:
        raise error(f"{source}: not JSON of ours: nested too deeply; {remedy}") from None
    except ValueError as found:
        raise error(f"{source}: not JSON: {visible(str(found))}; {remedy}") from None
    return value


def load_toml(text: str, source: str, expected: str) -> dict[str, object]:
    """Return the tables in ``text``.

    Raises:
        SourceError: the text is not TOML, or nests too deeply; ``expected`` ends the message.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SourceError(f"{source}: not TOML: nested too deeply; {expected}") from None
    except ValueError as error:
        raise SourceError(f"{source}: not TOML: {visible(str(error))}; {expected}") from None


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        again = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"key {again!r} appears twice in one object")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
