"""The verbs of ``ninfer-profiles``, one module a subject."""
