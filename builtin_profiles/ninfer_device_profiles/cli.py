"""The command ``ninfer-profiles``: which profile file the engine would use, what it says, and whether it is sound."""

from __future__ import annotations

import argparse
import os
import sys
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    around = Surroundings(out=sys.stdout, environment=os.environ, platform=sys.platform)
    code = run(sys.argv[1:] if argv is None else argv, around, sys.stderr)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def run(argv: Sequence[str], around: Surroundings, err: TextIO) -> int:
    """Run one verb in ``around``; errors of ours become one line on ``err`` and an exit code."""
    parser, verbs = make_parser()
    try:
        arguments = parser.parse_args(list(argv))
        arguments.verbs = verbs
        return VERBS[arguments.verb][1](arguments, around)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except ProfileError as error:
        err.write(f"{PROGRAM}: {printable(str(error))}\n")
        return error.exit_code
    except BrokenPipeError:
        return 1
    except OSError as error:
        err.write(f"{PROGRAM}: {printable(str(error))}\n")
        return 1
    except KeyboardInterrupt:
        err.write(f"{PROGRAM}: interrupted\n")
        return _INTERRUPTED


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
