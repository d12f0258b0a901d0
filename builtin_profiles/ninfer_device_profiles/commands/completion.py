"""``completion``: scripts that complete verbs and options in bash, zsh and fish."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from ninfer_device_profiles.commands.surroundings import Surroundings

PROGRAM = "ninfer-profiles"
SHELLS = ("bash", "zsh", "fish")


def configure_completion(parser: ArgumentParser) -> None:
    """Add the arguments of ``completion``."""
    parser.add_argument("shell", choices=SHELLS)


def run_completion(arguments: Namespace, around: Surroundings) -> int:
    """Print a completion script; source it, or put it where the shell looks."""
    words = {verb: _words(parser) for verb, parser in arguments.verbs.items()}
    around.out.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](words))
    return 0


def _words(parser: ArgumentParser) -> tuple[str, ...]:
    """Return a verb's options and fixed words."""
    found: list[str] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public view of its options
        if action.option_strings:
            found += [option for option in action.option_strings if option.startswith("--")]
        elif action.choices is not None and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found += [str(choice) for choice in action.choices]
    return tuple(found)


def _bash(words: Mapping[str, Sequence[str]]) -> str:
    cases = "\n".join(f'    {verb}) words="{" ".join(found)}" ;;' for verb, found in words.items())
    return f"""\
_ninfer_profiles() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words
  case "${{COMP_CWORD}}:${{COMP_WORDS[1]}}" in
    1:*) words="{" ".join(words)} --help" ;;
    *) case "${{COMP_WORDS[1]}}" in
{cases}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "${{words}}" -- "${{current}}"))
}}
complete -o default -F _ninfer_profiles {PROGRAM}
"""


def _zsh(words: Mapping[str, Sequence[str]]) -> str:
    cases = "\n".join(f"    {verb}) compadd -- {' '.join(found)}; _files ;;" for verb, found in words.items())
    return f"""\
#compdef {PROGRAM}
_ninfer_profiles() {{
  if (( CURRENT == 2 )); then
    compadd -- {" ".join(words)} --help
    return
  fi
  case "${{words[2]}}" in
{cases}
  esac
}}
compdef _ninfer_profiles {PROGRAM}
"""


def _fish(words: Mapping[str, Sequence[str]]) -> str:
    lines = [f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a '{' '.join(words)}'"]
    for verb, found in words.items():
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        lines += [
            f"complete -c {PROGRAM} {seen} -l {word[2:]}"
            if word.startswith("--")
            else f"complete -c {PROGRAM} {seen} -a {word}"
            for word in found
        ]
    return "\n".join(lines) + "\n"
