"""Programmatic dependent launches: the kernel before must allow them, and the dependent one must wait."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from generator.core.catalog import build_catalog
from generator.core.dispatch import dispatcher
from generator.core.resources import device_facts
from generator.core.route import COMPILED
from kernels import ROOT, find_families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from generator.core.route import Launch

CATALOG = build_catalog(find_families())


@cache
def text(name: str) -> str:
    """Return a source and the headers it takes from ``include``, but for the one that defines the two instructions."""
    path = ROOT / name if name.endswith(".cu") else ROOT / "include" / name
    own = path.read_text()
    headers = re.findall(r'#include "(\w+\.cuh)"', own)
    return own + "".join(text(header) for header in headers if header != "dependent.cuh")


def plans() -> Iterator[tuple[Launch, ...]]:
    """Return the plans of every route on an H200, at its widths under the compiled route and every legal candidate."""
    device = device_facts(90, ())
    for route in CATALOG.routes.values():
        if route.operation is None:
            continue
        for width in route.widths:
            legal = (item.schedule for item in route.candidates if item.legal(width))
            for schedule in (COMPILED, *legal):
                yield route.operation.plan(width, dispatcher(CATALOG, {}, force=(route.key, schedule)), device)


def test_a_dependent_launch_waits_for_one_of_its_own_plan_that_allows_it() -> None:
    sources = set()
    for plan in plans():
        for place, launch in enumerate(plan):
            if launch.dependent:
                assert place > 0
                assert "allow_dependents();" in text(f"{plan[place - 1].source}.cu")
                assert "wait_for_kernel_before();" in text(f"{launch.source}.cu")
                sources.add(launch.source)
    assert sources >= {"q4_q5_gdn_input", "t2_i8_small"}
