"""Sessions of the generator: each installs what it needs and runs one verb. ``nox -l`` lists them."""

from __future__ import annotations

import nox

nox.options.sessions = ["release"]
nox.options.error_on_missing_interpreters = False


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need no GPU."""
    session.install("-e", "builtin_profiles", "-e", ".[tests]")
    session.run("pytest", *session.posargs)
