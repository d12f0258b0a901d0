"""Every error that this package raises on purpose.

The public functions raise nothing else, whatever they are given.
"""

from __future__ import annotations


class ProfileError(Exception):
    """Say what is wrong with a profile document, where, and what to do.

    ``exit_code`` is what a command ends with when this error ends it.
    """

    exit_code = 1


class DocumentError(ProfileError):
    """Report a text that is not a ``ninfer.device-route-profiles`` document."""


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


class SizesError(ProfileError):
    """Report an argument for which no launch size is defined."""


class EmbeddedError(ProfileError):
    """Report an embedded file (table, catalog, build info) that is absent, damaged or contradicts another."""
