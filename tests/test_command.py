"""The command's edges: streams that refuse, odd columns, hostile text in messages, numbers that are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from rich.table import Table

from generator import __main__ as command
from generator.errors import CompileError, GeneratorError
from generator.output import LEAST_COLUMNS, ConsoleOutput, consoles
from tests.catalog_now import KEYS

ROOT = Path(__file__).parent.parent
NINES = "9" * 37 + "..."
CHECK = "check that path or stream, its permissions and the free space."
REMEDY = "expected a stream that takes the result. Free space, or send the output elsewhere"


def run(words: str, **environment: str | None) -> tuple[int, str]:
    """Run a shell line in which ``GENERATOR`` and ``PROFILES`` stand for commands; return exit code and stderr."""
    inherited = {name: value for name, value in os.environ.items() if environment.get(name, "") is not None}
    given = {name: value for name, value in environment.items() if value is not None}
    path = os.pathsep.join((str(ROOT), str(ROOT / "builtin_profiles")))
    line = words.replace("GENERATOR", f"{sys.executable} -m generator")
    line = line.replace("PROFILES", f"{sys.executable} -m ninfer_device_profiles")
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        env={**inherited, "PYTHONPATH": path, **given},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            "GENERATOR catalog >/dev/full",
            1,
            f"python -m generator catalog: stdout: No space left on device; {REMEDY}\n",
        ),
        (
            "GENERATOR catalog --json >&-",
            1,
            f"python -m generator catalog: stdout: Bad file descriptor; {REMEDY}\n",
        ),
        ("GENERATOR catalog --json | true", 1, ""),
        ("PROFILES list >/dev/full", 1, f"ninfer-profiles: stdout: No space left on device; {CHECK}\n"),
        ("PROFILES path >&-", 1, f"ninfer-profiles: stdout: Bad file descriptor; {CHECK}\n"),
        ("PROFILES list --json | true", 1, ""),
        ("PROFILES show --nonsense 2>/dev/full >&-", 2, ""),
        ("GENERATOR catalog --digest 2>&- >&-", 1, ""),
    ],
)
def test_a_stream_that_refuses_ends_the_verb_with_one_line(words: str, code: int, message: str) -> None:
    assert run(words) == (code, message)


def test_a_terminal_without_unicode_or_width_still_shows_a_table() -> None:
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "HOME": None}
    assert run("GENERATOR catalog", COLUMNS="1", **plain) == (0, "")


@pytest.mark.parametrize("columns", ["", "0", "1", "-5", "x", "٣", "9" * 5000])
def test_odd_columns_leave_room_for_text(columns: str) -> None:
    assert min(console.width for console in consoles({"COLUMNS": columns})) >= LEAST_COLUMNS


def test_no_text_of_a_file_steers_the_terminal_or_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output = ConsoleOutput(*consoles({"COLUMNS": "200"}))
    hostile = "[/red] :smile: \x1b[2J\x9b \u202e \udcff"
    output.text(f"{hostile}\n")
    output.note(hostile)
    output.json(hostile)
    table = Table(hostile, title=hostile)
    table.add_row(hostile)
    output.show(table)
    printed = capsys.readouterr()
    shown = "[/red] :smile: \\u001b[2J\\u009b \\u202e \\udcff"
    assert printed.out.splitlines()[0] == shown
    assert json.loads(printed.out.splitlines()[1]) == hostile
    assert printed.out.count(shown) == 5
    assert printed.err == f"{shown}\n"


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    class Verb:
        """Fail."""

        @staticmethod
        def configure(parser: object) -> None:
            del parser

        @staticmethod
        def run(arguments: object, output: object) -> NoReturn:
            del arguments, output
            raise error

    monkeypatch.setattr(command, "load_verb", lambda _name: Verb)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (GeneratorError("a\nb\x1b[2J\udcff: no"), 1, "p: a\\nb\\x1b[2J\\udcff: no\n"),
        (GeneratorError("[/red] :smile: x" * 2), 1, "p: [/red] :smile: x[/red] :smile: x\n"),
        (CompileError("two\nlines"), 1, "p: two\nlines\n"),
        (
            PermissionError(13, "Permission denied", "/a\nb"),
            1,
            "p: /a\\nb: Permission denied; check that path, its permissions and the free space\n",
        ),
        (KeyboardInterrupt(), 130, "p: interrupted\n"),
        (BrokenPipeError(), 1, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    message: str,
) -> None:
    failing(monkeypatch, error)
    assert command.run_verb("x", [], program="p") == code
    assert capsys.readouterr().err == message


def test_a_long_message_loses_its_middle(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, GeneratorError("x" * 100_000 + "; do this"))
    assert command.run_verb("x", [], program="p") == 1
    printed = capsys.readouterr().err
    assert "xxx (96409 characters left out) xxx" in printed
    assert printed.endswith("; do this\n")


def test_a_mistake_of_ours_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, AssertionError("ours"))
    with pytest.raises(AssertionError):
        command.run_verb("x", [], program="p")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("calibrate", "--margin", "nan"), "argument --margin: 'nan'; expected a share from 0, below 1, such as 0.03"),
        (("calibrate", "--margin", "1"), "argument --margin: '1'; expected a share from 0, below 1, such as 0.03"),
        (("calibrate", "--device", "-1"), "argument --device: '-1'; expected a CUDA device index (0, 1, …) or all"),
        (("verify", "--device", "٣"), "argument --device: '٣'; expected a CUDA device index (0, 1, …)"),
        (
            ("verify", "--device", "9" * 50),
            f"argument --device: '{'9' * 37}...'; expected a CUDA device index (0, 1, …)",
        ),
        (("kernels", "--jobs", "0"), "argument --jobs: '0'; expected a whole number from 1"),
        (("flips", "a", "b", "--most", "x"), "argument --most: 'x'; expected a share from 0, below 1, such as 0.03"),
    ],
)
def test_a_number_that_is_none_is_a_usage_error(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {message}")


@pytest.mark.parametrize("words", [("kernels",), ("verify", "--replay", "absent.json")])
def test_a_prefix_of_no_key_is_a_usage_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*words, "--only", "zzz"]) == 2
    assert capsys.readouterr().err == (
        f"python -m generator {words[0]}: --only 'zzz': selects none of the {KEYS} calibrated route keys; "
        "list them with `python -m generator catalog`\n"
    )


@pytest.mark.parametrize("value", ["-1", "text", "1e9", " 5 ", "٣", "253402300800", "9" * 5000])
def test_an_odd_source_date_epoch_is_a_usage_error(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    assert command.main(["plan"]) == 2
    shown = value if len(value) <= 40 else f"{value[:40]}..."
    assert capsys.readouterr().err == (
        f"python -m generator plan: SOURCE_DATE_EPOCH: {shown!r}; expected seconds since 1970 in digits, up to "
        "253402300799. Correct or unset the variable\n"
    )
