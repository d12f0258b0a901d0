"""Every fatal error of the generator, each with its exit code.

A message says where, what was found, what was expected and what to do, in that order, values in repr.
"""

from __future__ import annotations


class GeneratorError(Exception):
    """Base of all errors that end a command; ``exit_code`` is the command's."""

    exit_code = 1


class ToolError(GeneratorError):
    """Report what another tool said, in that tool's own lines; every other message is one line."""


class UsageError(GeneratorError):
    """Report arguments that do not fit the command."""

    exit_code = 2


class GateError(GeneratorError):
    """Report that a gate said no: the report itself was made."""

    exit_code = 3


class CatalogError(GeneratorError):
    """Report families that contradict each other: a key declared twice, an unknown key asked for."""


class SourceError(GeneratorError):
    """Report an imported entry, an evidence file or an override that cannot be used."""


class EvidenceError(SourceError):
    """Report an evidence file that is not whole, not ours, or of another catalog."""


class DifferenceError(GeneratorError):
    """Report that a committed file is not what its sources give."""


class InUseError(GeneratorError):
    """Report that another command holds a file that this one would write."""


class DeviceError(GeneratorError):
    """Report a device that is absent, busy, unsupported or another one than asked for."""


class CompileError(ToolError):
    """Report kernel source that the compiler refused, with the compiler's own words."""


class OutputError(GeneratorError):
    """Report that standard output does not take what a verb has to say."""


class EngineError(GeneratorError):
    """Report an engine tool that is missing, failed, or printed something else than it should."""
