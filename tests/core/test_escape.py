"""Text of a table, made safe to show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.escape import markdown, markdown_code, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("q4_linear_add/5120x6144", "q4_linear_add/5120x6144"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x7f\x85", "\\x7f\\x85"),
        ("\u202eabc\u200b", "\\u202eabc\\u200b"),
        ("\ud800", "\\ud800"),
        ("naïve 汉", "naïve 汉"),
        ("x" * 161, "x" * 160 + "... (161 characters)"),
    ],
)
def test_what_does_not_print_becomes_a_backslash_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(text=st.text())
def test_visible_text_prints_and_can_be_encoded(text: str) -> None:
    assert visible(text).isprintable()
    visible(text).encode()


def test_syntax_becomes_entities_and_an_underscore_in_a_word_stays() -> None:
    assert markdown("q4_linear|<b>`x` _it_") == "q4_linear&#124;&#60;b&#62;&#96;x&#96; &#95;it&#95;"
    assert markdown("a@b WWW.x.org") == "a<!-- -->&#64;<!-- -->b WWW&#46;x.org"


def test_empty_code_stays_empty() -> None:
    assert (markdown_code(""), markdown_code("a*")) == ("", "<code>a&#42;</code>")
