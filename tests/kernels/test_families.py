"""Every family, whatever it is: schedules, compiled routes, plans and operands hold together on every architecture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from generator.core.catalog import build_catalog
from generator.core.dispatch import dispatcher
from generator.core.fill import host_values, operand_elements
from generator.core.resources import device_facts
from generator.core.route import COMPILED, Buf, Given, Launch, Operation, Poison, Route, RouteFamily, Schedule
from kernels import ROOT, find_families

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CATALOG = build_catalog(find_families())
DEVICES = {capability: device_facts(capability, ()) for capability in (86, 89, 90, 120)}


READY = [route for route in CATALOG.routes.values() if route.operation is not None]


@pytest.fixture(params=CATALOG.routes.values(), ids=lambda route: route.key)
def any_route(request: pytest.FixtureRequest) -> Route:
    found: Route = request.param
    return found


@pytest.fixture(params=READY, ids=lambda route: route.key)
def route(request: pytest.FixtureRequest) -> Route:
    found: Route = request.param
    return found


@pytest.fixture
def operation(route: Route) -> Operation:
    assert route.operation is not None
    return route.operation


@pytest.mark.parametrize("family", find_families(), ids=lambda family: family.name)
def test_every_calibrated_key_has_an_operation(family: RouteFamily) -> None:
    pending = [route.key for route in family.routes if route.calibrated and route.operation is None]
    if pending:
        pytest.skip(f"pending: {', '.join(pending)}")
    assert family.source is not None or not any(route.calibrated for route in family.routes)


def legal(route: Route, width: int) -> Iterator[Schedule]:
    yield COMPILED
    yield from (item.schedule for item in route.candidates if item.legal(width))


def plan(route: Route, operation: Operation, width: int, name: Schedule, capability: int) -> tuple[Launch, ...]:
    return operation.plan(width, dispatcher(CATALOG, {}, force=(route.key, name)), DEVICES[capability])


def test_schedules_are_unique_and_widths_ascend(any_route: Route) -> None:
    names = [item.schedule for item in any_route.candidates]
    assert len(set(names)) == len(names) > 0
    assert list(any_route.widths) == sorted(set(any_route.widths))
    assert set(any_route.stretch) <= set(any_route.widths)


def test_compiled_route_covers_all_widths_and_names_legal_candidates(any_route: Route) -> None:
    for width in range(1, min(any_route.widths[-1], 1024) + 1):
        for capability in (None, *DEVICES):
            name = any_route.compiled.at(width, capability)
            item = any_route.candidate(name)
            assert name.startswith("int:") or (item is not None and item.legal(width)), (width, capability, name)


def test_every_legal_candidate_has_a_plan_over_declared_operands(route: Route, operation: Operation) -> None:
    sizes = {operand.name: operand_elements(operand) for operand in operation.operands}
    assert len(sizes) == len(operation.operands)
    for width in route.widths:
        for capability in DEVICES:
            for name in legal(route, width):
                for launch in plan(route, operation, width, name, capability):
                    assert (ROOT / f"{launch.source}.cu").is_file()
                    assert all(side >= 1 for side in (*launch.grid, *launch.block))
                    for arg in launch.args:
                        assert not isinstance(arg, Buf) or 0 <= arg.offset < sizes[arg.name], (width, name, arg)


def test_plans_are_pure(route: Route, operation: Operation) -> None:
    width = route.widths[-1]
    for name in legal(route, width):
        assert plan(route, operation, width, name, 90) == plan(route, operation, width, name, 90)


def test_a_candidate_that_is_the_compiled_schedule_has_its_plan(route: Route, operation: Operation) -> None:
    for width in route.widths:
        for capability in DEVICES:
            name = route.compiled.at(width, capability)
            if not name.startswith("int:"):
                base = plan(route, operation, width, COMPILED, capability)
                assert plan(route, operation, width, Schedule(name), capability) == base, (width, capability)


def test_no_two_candidates_are_one_launch_where_both_are_legal(route: Route, operation: Operation) -> None:
    width = route.widths[0]
    if route.acts_under is not None:
        pytest.skip("acts under one schedule only")
    plans = {name: plan(route, operation, width, name, 90) for name in legal(route, width) if name}
    distinct = set(plans.values())
    assert len(distinct) >= len(plans) - 1, "at most one pair may coincide, as an engine table has it"


def test_outputs_and_restored_planes_fit_their_operands(route: Route, operation: Operation) -> None:
    sizes = {operand.name: operand_elements(operand) for operand in operation.operands}
    for width in route.widths:
        planes = operation.outputs(width)
        assert planes
        for plane in (*planes, *operation.restored(width)):
            assert 0 < plane.elements <= sizes[plane.name], (width, plane)
        assert operation.floor_bytes(width) > 0


def test_no_input_is_constant_and_every_fill_gives_the_same_values_twice(operation: Operation) -> None:
    for operand in operation.operands:
        if isinstance(operand.fill, Poison):
            continue
        count = min(operand_elements(operand), 4096)
        values = host_values(operand, 0, count)
        assert values.tobytes() == host_values(operand, 0, count).tobytes()
        if not isinstance(operand.fill, Given):  # positions and page tables are what they must be
            assert len(set(values.view("u1").tolist())) > 1, operand.name


def shared_parts(module: str) -> set[str]:
    """Return the modules of kernels that ``module`` imports, directly or not, but for widths and references."""
    text = (ROOT / f"{module}.py").read_text()
    names = set(re.findall(r"^ *from kernels\.(\w+) import", text, re.MULTILINE))
    return names.union(*(shared_parts(name) for name in names)) - {"widths"}


def test_the_page_names_the_files_of_every_family(root: Path) -> None:
    page = (root / "docs/adding-a-route-family.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    named = {
        name: (set(re.findall(r"`(\w+)`", own)), set(re.findall(r"`(\w+)`", parts))) for name, _, own, parts in rows
    }
    found: dict[str, tuple[set[str], set[str]]] = {family.name: (set(), set()) for family in find_families()}
    for family in find_families():
        own, parts = found[family.name]
        parts |= shared_parts(family.name)
        for route in family.routes:
            if route.operation is not None:
                for width in route.widths:
                    for name in legal(route, width):
                        own |= {launch.source for launch in plan(route, route.operation, width, name, 90)}
    assert named == found
