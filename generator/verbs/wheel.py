"""Build the wheel that embeds the table, check it, and verify it in a clean environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.pipeline import STAGES
from generator.verbs.release import configure, run_stages

if TYPE_CHECKING:
    from argparse import Namespace

    from generator.output import Output

__all__ = ["configure", "run"]


def run(arguments: Namespace, output: Output) -> int:
    """Run a release's stages without the review."""
    return run_stages(arguments, output, [stage for stage in STAGES if stage.name != "review"])
