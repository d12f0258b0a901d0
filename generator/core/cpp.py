"""Any text as C++ literals: short enough for MSVC, and the same bytes under every compiler and source character set.

Printable ASCII and line ends go into raw literals with a delimiter that the piece does not contain; every other byte
(non-ASCII, carriage returns, other control characters) goes into an ordinary literal of octal escapes, since a
compiler may re-encode or normalise it inside a raw one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LITERAL_LIMIT_BYTES = 8192
"""Most bytes of source text between a literal's quotes (engine-profiles 9: MSVC takes 16,380 in one literal)."""

_RAW = re.compile(rb"[\t\n\x20-\x7e]+")
_DELIMITER = "json"


@dataclass(frozen=True, slots=True)
class Piece:
    """One C++ literal and the number of bytes it stands for."""

    literal: str
    bytes: int


def cpp_pieces(text: str, limit: int = LITERAL_LIMIT_BYTES) -> tuple[Piece, ...]:
    """Return literals that join to the UTF-8 bytes of ``text``, each of at most ``limit`` bytes between its quotes.

    A raw piece ends at a line end where one lies within the limit.
    """
    pieces: list[Piece] = []
    content = text.encode()
    position = 0
    while position < len(content):
        match = _RAW.match(content, position)
        if match is not None:
            end = _cut(content, position, match.end(), limit)
            pieces.append(_raw(content[position:end].decode("ascii")))
        else:
            end = position + 1
            while end < len(content) and end - position < limit // 4 and not _RAW.match(content, end):
                end += 1
            pieces.append(
                Piece("".join(['"', *(f"\\{byte:03o}" for byte in content[position:end]), '"']), end - position)
            )
        position = end
    return tuple(pieces) or (Piece('""', 0),)


def _cut(content: bytes, start: int, end: int, limit: int) -> int:
    # Two characters and the delimiter on both sides belong to the literal's source text as well.
    room = limit - 64
    if end - start <= room:
        return end
    line_end = content.rfind(b"\n", start, start + room) + 1
    return line_end if line_end > start else start + room


def _raw(text: str) -> Piece:
    delimiter = _DELIMITER
    number = 0
    while f'){delimiter}"' in text:
        number += 1
        delimiter = f"{_DELIMITER}{number}"
    return Piece(f'R"{delimiter}({text}){delimiter}"', len(text))
