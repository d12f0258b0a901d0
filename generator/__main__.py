"""The command ``python -m generator VERB``; the only place that prints or exits."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from typing import TYPE_CHECKING

try:
    from ninfer_device_profiles.commands.surroundings import printable
    from ninfer_device_profiles.errors import ProfileError

    from generator.errors import GeneratorError, ToolError
    from generator.output import ConsoleOutput, consoles
    from generator.verbs import load_verb, verb_names
except ModuleNotFoundError as absent:
    sys.exit(
        f"python -m generator: {sys.executable} has no module {absent.name!r}, expected this project's packages. "
        "In the checkout, run `.venv/bin/pip install -e builtin_profiles -e .` and use .venv/bin/python"
    )

if TYPE_CHECKING:
    from collections.abc import Sequence

    from generator.output import Output

COLLECT_AFTER = (100_000, 50, 100)
"""Of the garbage collector: a verb keeps what it reads, and looking through it often was a third of its time."""

_INTERRUPTED = 130
_ABOUT = "Measure, decide, review and emit the device route profiles of the NInfer inference engine."
_EXIT_CODES = "exit codes: 0 done, 1 failed, 2 usage, 3 a gate said no"
_LONGEST, _HEAD, _TAIL = 4000, 3000, 600


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    names = verb_names()
    verb = words[0] if words and words[0] in names else None
    if verb is None:
        return _no_verb(words, names)
    return run_verb(verb, words[1:], program=f"python -m generator {verb}")


def calibrate_main() -> int:
    """Run ``calibrate`` as the script ``ninfer-calibrate``."""
    return run_verb("calibrate", sys.argv[1:], program="ninfer-calibrate")


def run_verb(name: str, words: Sequence[str], *, program: str) -> int:
    """Parse ``words`` for the verb ``name``, run it, and turn errors of ours into one line and an exit code."""
    gc.set_threshold(*COLLECT_AFTER)
    output = ConsoleOutput(*consoles(os.environ))
    try:
        code = _run(name, words, program, output)
        output.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    except (GeneratorError, ProfileError) as error:
        text = str(error) if isinstance(error, ToolError) else _one_line(str(error))
        output.error(f"{program}: {text}")
        return error.exit_code
    except KeyboardInterrupt:
        output.error(f"{program}: interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        return 1
    except OSError as error:
        output.error(f"{program}: {_one_line(_told(error))}")
        return 1
    return code


def _run(name: str, words: Sequence[str], program: str, output: Output) -> int:
    module = load_verb(name)
    parser = argparse.ArgumentParser(prog=program, description=module.__doc__, epilog=_EXIT_CODES)
    module.configure(parser)
    return module.run(parser.parse_args(list(words)), output)


def _one_line(text: str) -> str:
    """Return ``text`` as one line that a screen holds: control characters visible, the middle left out."""
    if len(text) > _LONGEST:
        text = f"{text[:_HEAD]} ({len(text) - _HEAD - _TAIL} characters left out) {text[-_TAIL:]}"
    return printable(text)


def _told(error: OSError) -> str:
    """Return what the system refused; the last resort for what no reader or writer has put into its own words."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{error.strerror or error}; check that path, its permissions and the free space"


def _verb_line(name: str) -> str:
    return f"  {name:14} {(load_verb(name).__doc__ or '').splitlines()[0]}"


def _no_verb(words: Sequence[str], names: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m generator",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(("verbs:", *map(_verb_line, names), "", _EXIT_CODES)),
    )
    parser.add_argument("verb", choices=names, metavar="VERB", help="what to do; VERB --help explains each")
    try:
        parser.parse_args(list(words))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    return 2


if __name__ == "__main__":
    sys.exit(main())
