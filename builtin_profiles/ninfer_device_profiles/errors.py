"""Every error that this package raises on purpose.

The public functions raise nothing else, whatever text, file or environment they are given. A message says where, what
was found, what was expected and what to do, in that order, values in repr.
"""

from __future__ import annotations


class ProfileError(Exception):
    """Say what is wrong with a profile document, where, and what to do.

    ``exit_code`` is what a command ends with when this error ends it.
    """

    exit_code = 1


class DocumentError(ProfileError):
    """Report a text that is not a ``ninfer.device-route-profiles`` document, or a document that cannot be written."""


class UnreadableError(DocumentError):
    """Report a path that holds no readable regular file, or one too large to be a profile document."""


class OtherVersionError(DocumentError):
    """Report a document of another schema version.

    Attributes:
        newer: the version is an integer above ours; storing must then refuse. Otherwise the file
            is older or unversioned, and storing replaces it as a whole.
    """

    def __init__(self, message: str, *, newer: bool) -> None:
        super().__init__(message)
        self.newer = newer


class StoreError(ProfileError):
    """Report that an entry was not stored; the file is as it was."""


class LockedError(StoreError):
    """Report that another process writes there; nothing was changed."""


class SizesError(ProfileError):
    """Report an argument for which no launch size is defined."""


class EmbeddedError(ProfileError):
    """Report an embedded file (table, catalog, build info) that is absent, damaged or contradicts another."""


class OverrideError(ProfileError):
    """Report an environment override whose text has no meaning."""


class ModeError(ProfileError):
    """Report a start-up mode that is none of ``auto``, ``calibrate`` and ``off``."""

    exit_code = 2


class AbsentError(ProfileError):
    """Report that there is no entry of the device that was asked for."""


class UsageError(ProfileError):
    """Report arguments of ``ninfer-profiles`` that do not fit together."""

    exit_code = 2


def system_reason(path: str, error: Exception) -> str:
    """Return why the system refused ``path``, in the same words under every Python."""
    if "\0" in path:
        return "embedded null byte"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
