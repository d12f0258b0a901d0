"""Lines of an output as they stream in: decoded, with their numbers, whatever their line ends."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Lines:
    """Iterate ``(number, text)`` over the lines of an output, without their ends; LF, CRLF and CR may be mixed.

    After the last line ``sha256`` is the digest of all bytes and ``ends`` the set of line ends met.
    """

    def __init__(self, chunks: Iterable[bytes], name: str) -> None:
        self._chunks = chunks
        self._name = name
        self._hash = hashlib.sha256()
        self.ends: set[str] = set()

    @property
    def sha256(self) -> str:
        """Return the digest of the bytes read so far, in hexadecimal."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the lines.

        Raises:
            SourceError: a line is not UTF-8, or the last line has no end: the file was cut off.
        """
        for number, raw in enumerate(self._raw(), start=1):
            body = raw.rstrip(b"\r\n")
            if len(body) == len(raw):
                raise SourceError(
                    f"{self._name} line {number} column {len(body) + 1}: the file ends inside a line, so it was cut "
                    "off; copy it again, or run the benchmark again"
                )
            self.ends.add({b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}.get(raw[len(body) :], "mixed"))
            try:
                text = body.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise SourceError(
                    f"{self._name} line {number} column {error.start + 1}: byte {body[error.start]:#04x} is not UTF-8; "
                    "save the output as UTF-8"
                ) from error
            yield number, text

    def _raw(self) -> Iterator[bytes]:
        """Yield the lines with their ends; a chunk may hold any part of any number of lines."""
        rest = b""
        for chunk in self._chunks:
            self._hash.update(chunk)
            pieces = (rest + chunk).splitlines(keepends=True)
            rest = pieces.pop() if pieces and not pieces[-1].endswith(b"\n") else b""
            yield from pieces
        if rest:
            yield rest
