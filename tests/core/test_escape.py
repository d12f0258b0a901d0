"""Text of a table, made safe to show."""

from __future__ import annotations

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.escape import markdown, markdown_code, visible, whole


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


def test_a_word_with_a_hyphen_or_slash_stays_on_one_line() -> None:
    assert whole("widths 9-16, 33 and up") == 'widths <span class="w">9-16,</span> 33 and up'
    assert whole("q6_head/1x2 differs by 2.4e-05") == (
        '<span class="w">q6_head/1x2</span> differs by <span class="w">2.4e-05</span>'
    )
    assert whole("compiled, no layer answers") == "compiled, no layer answers"
    assert whole("-") == '<span class="w">-</span>'


def test_a_word_longer_than_any_key_may_still_break() -> None:
    name = "nvidia-rtx-pro-6000-blackwell-server-edition-sm120"
    assert whole(name) == name
    assert whole("a-" * 18) == f'<span class="w">{"a-" * 18}</span>'
    assert whole("&-" * 18) == f'<span class="w">{"&amp;-" * 18}</span>'


@given(text=st.text(max_size=60))
def test_whatever_is_kept_whole_is_escaped_and_reads_the_same(text: str) -> None:
    shown = whole(text).replace('<span class="w">', "").replace("</span>", "")
    assert html.unescape(shown) == html.unescape(html.escape(text))
    assert not set(shown) & set("<>\"'")


def test_a_long_word_takes_no_longer_than_it_is() -> None:
    began = time.perf_counter()
    whole("x" * 200_000)
    assert time.perf_counter() - began < 2
