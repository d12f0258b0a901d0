"""C++ literals: any text compiles to its own bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.core.cpp import LITERAL_LIMIT_BYTES, cpp_pieces
from generator.core.emit import emit_cpp_text

if TYPE_CHECKING:
    from pathlib import Path

    from generator.core.emit import Emitted

_MAIN = """#include "ninfer_device_profiles.hpp"
#include <cstdio>
int main() {
  const std::string& text = ninfer::builtin_device_profiles::json();
  if (text.size() != ninfer::builtin_device_profiles::kBytes) return 1;
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
"""

HOSTILE = [
    ')json" )json0" )json1" )" R"json(',
    '\\ " ?? ??/ ??= %d %s \0 \x01 \x7f',
    "line\r\nline\rline\n\n",
    "Grüße 你好 \U0001f600 e\u0301",
    '<script>alert("x")</script> | ` $(x) {{ x }} {% raw %}',
    "x" * 20000,
    "é" * 20000,
    ("y" * 9000 + "\n") * 3,
    "",
]


def _compile(emitted: Emitted, folder: Path) -> bytes:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is absent")
    for name, text in emitted.files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    (folder / "main.cpp").write_text(_MAIN)
    program = folder / "program"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O0"]
    subprocess.run([compiler, *flags, "main.cpp", "ninfer_device_profiles.cpp", "-o", program], cwd=folder, check=True)
    return subprocess.run([program], capture_output=True, check=True).stdout


def _templates(root: Path, name: str) -> str:
    return (root / "templates" / name).read_text()


def test_hostile_texts_compile_to_the_same_bytes(root: Path, tmp_path: Path) -> None:
    text = "\n".join(HOSTILE)
    assert _compile(emit_cpp_text(text, 0, "0" * 16, lambda name: _templates(root, name)), tmp_path) == text.encode()


def test_built_in_table_compiles_to_the_same_bytes(root: Path, tmp_path: Path) -> None:
    text = (root / "builtin_profiles/ninfer_device_profiles/device_profiles.json").read_text()
    assert _compile(emit_cpp_text(text, 6, "0" * 16, lambda name: _templates(root, name)), tmp_path) == text.encode()


_OCTAL = re.compile(r"\\([0-7]{3})")


def _value(literal: str) -> bytes:
    """What a C++17 compiler makes of one of our literals, read independently of how we wrote it."""
    raw = re.fullmatch(r'R"([^()\\ ]{0,16})\((.*)\)\1"', literal, re.DOTALL)
    if raw is not None:
        assert f'){raw[1]}"' not in raw[2]
        return raw[2].encode("ascii")
    assert re.fullmatch(r'"(\\[0-7]{3})*"', literal)
    return bytes(int(digits, 8) for digits in _OCTAL.findall(literal))


@given(st.text(max_size=400) | st.text(alphabet=')json"01(R\\\n\r', max_size=200), st.integers(100, 300))
def test_pieces_join_to_the_text_and_keep_the_limit(text: str, limit: int) -> None:
    pieces = cpp_pieces(text, limit)
    assert b"".join(_value(piece.literal) for piece in pieces) == text.encode()
    assert all(len(_value(piece.literal)) == piece.bytes for piece in pieces)
    assert all(len(piece.literal.encode()) <= limit + 3 for piece in pieces)


def test_pieces_of_the_table_end_at_line_ends(root: Path) -> None:
    text = (root / "builtin_profiles/ninfer_device_profiles/device_profiles.json").read_text()
    pieces = cpp_pieces(text)
    assert all(_value(piece.literal).endswith(b"\n") for piece in pieces)
    assert all(len(piece.literal) <= LITERAL_LIMIT_BYTES for piece in pieces)
