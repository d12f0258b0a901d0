"""The command ``ninfer-profiles``: which profile file the engine would use, what it says, and whether it is sound."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from ninfer_device_profiles.commands import answers, checks, completion, entries, launches
from ninfer_device_profiles.commands.surroundings import Surroundings, printable
from ninfer_device_profiles.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Configure = Callable[[argparse.ArgumentParser], None]
    Run = Callable[[argparse.Namespace, Surroundings], int]

PROGRAM = completion.PROGRAM
_INTERRUPTED = 130

ABOUT = "Say which profile file the engine would use, what it says, and whether it is sound."
EXIT_CODES = """\
exit codes:
  0  done; for validate: the document is sound, for verify: every check holds
  1  an error, a document that is not sound, a check that fails, or (validate --strict) a warning
  2  arguments that do not fit
"""

VERBS: dict[str, tuple[Configure, Run]] = {
    "path": (entries.configure_path, entries.run_path),
    "list": (entries.configure_list, entries.run_list),
    "show": (entries.configure_show, entries.run_show),
    "explain": (answers.configure_explain, answers.run_explain),
    "shadow": (answers.configure_shadow, answers.run_shadow),
    "sizes": (launches.configure_sizes, launches.run_sizes),
    "restore": (entries.configure_restore, entries.run_restore),
    "validate": (checks.configure_validate, checks.run_validate),
    "verify": (checks.configure_verify, checks.run_verify),
    "completion": (completion.configure_completion, completion.run_completion),
}


class _Closed(io.StringIO):
    """Stands for a stream that the caller closed."""

    def write(self, _text: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    out, err = sys.stdout or _Closed(), sys.stderr or _Closed()
    around = Surroundings(out=out, environment=os.environ, platform=sys.platform)
    code = run(sys.argv[1:] if argv is None else argv, around, err)
    for stream in (out, err):
        try:
            stream.flush()
        except OSError:  # what is buffered would fail again when the interpreter ends
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or int(stream is out)
    return code


def run(argv: Sequence[str], around: Surroundings, err: TextIO) -> int:
    """Run one verb in ``around``; errors of ours become one line on ``err`` and an exit code."""
    parser, verbs = make_parser()
    try:
        arguments = _parsed(parser, argv)
        arguments.verbs = verbs
        code = VERBS[arguments.verb][1](arguments, around)
        around.out.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except ProfileError as error:
        _say(err, str(error))
        return error.exit_code
    except BrokenPipeError:
        return 1
    except OSError as error:
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "stdout"
        _say(err, f"{where}: {error.strerror or error}; check that path or stream, its permissions and the free space.")
        return 1
    except KeyboardInterrupt:
        _say(err, "interrupted")
        return _INTERRUPTED
    return code


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(list(argv))
    except OSError:  # argparse of older Pythons passes on what stderr did not take
        raise SystemExit(2) from None


def _say(err: TextIO, text: str) -> None:
    with suppress(OSError):
        err.write(f"{PROGRAM}: {printable(text)}\n")


def make_parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the whole parser, and each verb's."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=ABOUT, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs: dict[str, argparse.ArgumentParser] = {}
    for name, (configure, action) in VERBS.items():
        about = (action.__doc__ or "").strip()
        verbs[name] = commands.add_parser(
            name,
            help=about.split(". ")[0],
            description=about,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        configure(verbs[name])
        if name != "completion":
            verbs[name].add_argument("--json", action="store_true", help="print the result as JSON")
    return parser, verbs
