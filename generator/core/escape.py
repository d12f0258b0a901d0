"""Make any text of a table safe to show: control characters visible, length bounded, Markdown syntax disarmed."""

from __future__ import annotations

import html
import re
import unicodedata

SHOWN = 160
"""Longest piece of a table's text that a report repeats, in characters."""

_MARKDOWN = frozenset('\\`*{}[]()<>#!|~&"@:$^')
_INSIDE_WORD = re.compile(r"(?<=[A-Za-z0-9])_(?=[A-Za-z0-9])")
_HYPHENATED = re.compile(r"(?<!\S)[^\s/-]*+[-/]\S*")
_WHOLE = 36
"""Longest word that is kept on one line, in characters: a route key in quotes; a class or a path may be longer."""

_WWW = re.compile(r"(www)\.", re.IGNORECASE)


def visible(text: str, limit: int = SHOWN) -> str:
    """Return ``text`` with every character that does not print as a backslash escape, cut after ``limit`` of them.

    Newlines, escape sequences, bidirectional marks, zero-width characters and lone surrogates so lose their effect.
    """
    if len(text) <= limit and text.isprintable():
        return text
    shown = text[:limit]
    safe = "".join(char if _prints(char) else _escaped(char) for char in shown)
    return safe if len(text) <= limit else f"{safe}... ({len(text)} characters)"


def markdown(text: str) -> str:
    """Return ``text`` for Markdown prose or a table cell: nothing in it reads as syntax, HTML, link or mention.

    An underscore inside a word is no syntax and stays; an empty comment keeps ``@`` from making an address.
    """
    shown = visible(text)
    inside = {match.start() for match in _INSIDE_WORD.finditer(shown)}
    parts = [
        f"&#{ord(char)};" if char in _MARKDOWN or (char == "_" and place not in inside) else char
        for place, char in enumerate(shown)
    ]
    return _WWW.sub(r"\1&#46;", "".join(parts)).replace("&#64;", "<!-- -->&#64;<!-- -->")


def markdown_code(text: str) -> str:
    """Return ``text`` as inline code that holds in a table cell; empty text stays empty."""
    return f"<code>{markdown(text)}</code>" if text else ""


def whole(text: str) -> str:
    """Return ``text`` as HTML in which no line ends inside a word such as ``33-48`` or ``2.4e-05``.

    A browser may end a line at a hyphen or slash. Longer words than a key still give way on a narrow page.
    """
    return _HYPHENATED.sub(_kept_whole, html.escape(text))


def _kept_whole(word: re.Match[str]) -> str:
    return word[0] if len(html.unescape(word[0])) > _WHOLE else f'<span class="w">{word[0]}</span>'


def _prints(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] not in "CZ"


def _escaped(char: str) -> str:
    return (
        char.encode("unicode_escape", "surrogatepass").decode("ascii")
        if ord(char) > 126 or ord(char) < 32
        else (f"\\x{ord(char):02x}")
    )
