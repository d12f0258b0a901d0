"""Run every stage of a release; the results go to dist/."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from generator.arguments import add_root
from generator.pipeline import STAGES, Release
from generator.repository import current_day, find_repository, source_date_epoch
from generator.wheel import require_packages

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from generator.output import Output
    from generator.pipeline import Stage


def configure(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="folder of the results (dist)")
    parser.add_argument("--with-extras", action="store_true", help="ship the extras of reference_gpus.toml too")
    add_root(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Run the stages in order; the first that does not hold ends the release."""
    return run_stages(arguments, output, STAGES)


def run_stages(arguments: Namespace, output: Output, stages: Sequence[Stage]) -> int:
    """Run ``stages``, each under a line that numbers and names it."""
    require_packages()
    release = Release(
        repository=find_repository(arguments.root),
        output=arguments.output,
        today=current_day(),
        epoch=source_date_epoch(os.environ),
        with_extras=arguments.with_extras,
        say=lambda line: output.text(f"    {line}\n"),
    )
    for number, stage in enumerate(stages, start=1):
        purpose = (stage.run.__doc__ or "").splitlines()[0]
        output.text(f"[{number}/{len(stages)}] {stage.name}: {purpose}\n")
        stage.run(release)
    output.text(f"{release.built.wheel}\n{release.built.sdist}\nwheel SHA-256 {release.built.sha256}\n")
    return 0
