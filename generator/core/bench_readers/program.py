"""What a reader declares of one benchmark program, and the row that it turns into a point."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from generator.core.cases import BLACKWELL, Expected
from generator.core.rounds import Case
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from generator.core.rounds import Table
    from generator.core.route import RouteKey


_WHOLE = re.compile(r"[0-9]{1,9}")


class Point(NamedTuple):
    """What one row timed."""

    key: RouteKey
    case: Case
    width: int
    execution: str
    cache: str = "cold"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is left out on purpose; rows of one reason are counted together."""

    reason: str


@cache
def _whole(text: str) -> int:
    """Return the whole number in ``text``, 0 where there is none; outputs repeat few of them many times."""
    return int(text) if _WHOLE.fullmatch(text) else 0


class Row:
    """One row of an output: its fields by name, what the user adds to them, and where each stands.

    Field names are compared without regard to case. What the row itself does not say is taken from the settings given
    with the file, then from the program's defaults.
    """

    __slots__ = ("_columns", "_defaults", "_fields", "_given", "table", "where")

    def __init__(
        self,
        fields: Mapping[str, str],
        columns: Mapping[str, str],
        *,
        where: str,
        given: Mapping[str, str],
        defaults: Mapping[str, str],
        table: Table,
    ) -> None:
        self._fields = fields
        self._columns = columns
        self._given = given
        self._defaults = defaults
        self.where = where
        self.table = table

    def at(self, name: str) -> str:
        """Return where the field ``name`` stands, for messages."""
        column = self._columns.get(name)
        return self.where if column is None else f"{self.where} {column}"

    def get(self, name: str) -> str:
        """Return the field ``name``; empty where nobody says it.

        Raises:
            SourceError: the row and the settings say two things.
        """
        said = self._fields.get(name, "")
        if not self._given:
            return said or self._defaults.get(name, "")
        given = self._given.get(name, "")
        if said and given and said != given:
            raise SourceError(
                f"{self.at(name)}: {said!r} where {name}={given!r} was given with the file; remove that setting"
            )
        return said or given or self._defaults.get(name, "")

    def text(self, name: str, choices: Sequence[str]) -> str:
        """Return the field ``name``, one of ``choices``.

        Raises:
            SourceError: it is another text, or nobody says it.
        """
        value = self.get(name)
        if not value:
            raise SourceError(
                f"{self.where}: does not say {name!r}; give it with the file, {name}={' or '.join(choices)}"
            )
        if value not in choices:
            raise SourceError(f"{self.at(name)}: {name} {value!r}; expected one of {list(choices)!r}")
        return value

    def whole(self, name: str) -> int:
        """Return the field ``name`` as a whole number above 0.

        Raises:
            SourceError: it is another text, or nobody says it.
        """
        value = self.get(name)
        number = _whole(value)
        if number == 0:
            raise SourceError(f"{self.at(name)}: {name} {value!r}; expected a whole number above 0")
        return number

    def time(self, name: str) -> float | None:
        """Return the field ``name`` in microseconds; None for ``nan``.

        Raises:
            SourceError: it is no time.
        """
        value = self.get(name)
        try:
            time = float(value)
        except ValueError:
            time = -1.0
        if 0 < time < math.inf and "_" not in value:
            return time
        if math.isnan(time):
            return None
        raise SourceError(f"{self.at(name)}: {name} {value!r}; expected microseconds above 0, or nan")


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One run of a program: its options, and the settings that say the same of its output.

    ``policy`` and ``format`` narrow the cases that the run times; empty is all.
    """

    options: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    format: str = ""

    def times(self, case: Case) -> bool:
        """Return whether the run times ``case``."""
        return self.policy in {"", case.policy} and self.format in {"", case.format}


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One benchmark program and its output (engine-profiles 5.4).

    Args:
        name: the program's name.
        feeds: per key the cases that it times.
        point: turns a row into a point.
        columns: of its CSV, lower case; empty where it has none.
        settings: what the output may leave out and a user may give with the file.
        defaults: what holds where neither says it.
        arguments: how to run it, with ``{options}`` of a variant, ``{widths}`` joined by commas and ``{out}`` to fill
            in; empty for what is no program.
        variants: the runs that together time every case.
        has_execution: the program can run eager or graph; without, its cases are judged in its own execution alone.
        refusal: why its output feeds no key; empty for the others.
    """

    name: str
    point: Callable[[Row], Point | LeftOut]
    feeds: Mapping[RouteKey, tuple[Expected, ...]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    arguments: str = ""
    variants: tuple[Variant, ...] = (Variant(),)
    has_execution: bool = False
    refusal: str = ""


def policy_case(shape: str, fmt: str, policy: str) -> Expected:
    """Return a case to judge; low-precision activations (A4, A8) need Blackwell."""
    return Expected(case=Case(shape, fmt, policy), capability=BLACKWELL if policy in {"a4", "a8"} else 0)


def policy_variants(policies: Iterable[str]) -> tuple[Variant, ...]:
    """Return the runs of a program that takes ``--policy``, one a policy."""
    return tuple(
        Variant(options=f"--policy {policy}", settings={"policy": policy}, policy=policy) for policy in policies
    )


EXECUTIONS = ("eager", "graph")
CACHES = ("cold", "warm")

_INPUT_POLICIES = {"nvfp4": ("a16", "a4"), "fp8": ("a16", "a8")}
"""Policies by format of the input projections; a format that is not here has none."""


def _input_point(forms: Mapping[str, tuple[RouteKey, str]]) -> Callable[[Row], Point | LeftOut]:
    """Return the reader of an input projection's rows: ``format`` names the key and the shape of ``forms``."""

    def point(row: Row) -> Point | LeftOut:
        fmt = row.text("format", tuple(forms))
        key, shape = forms[fmt]
        policy = row.text("policy", _INPUT_POLICIES[fmt]) if fmt in _INPUT_POLICIES else ""
        case = Case(shape, fmt, policy)
        return Point(key, case, row.whole("t"), row.text("execution", EXECUTIONS), row.text("cache", CACHES))

    return point


def _input_feeds(forms: Mapping[str, tuple[RouteKey, str]]) -> dict[RouteKey, tuple[Expected, ...]]:
    """Return what an input projection's program feeds: per key the cases of every format and policy."""
    feeds: dict[RouteKey, tuple[Expected, ...]] = {}
    for fmt, (key, shape) in forms.items():
        cases = tuple(policy_case(shape, fmt, policy) for policy in _INPUT_POLICIES.get(fmt, ("",)))
        feeds[key] = (*feeds.get(key, ()), *cases)
    return feeds


def input_program(name: str, forms: Mapping[str, tuple[RouteKey, str]], more_columns: tuple[str, ...] = ()) -> Program:
    """Return the program of an input projection: ``forms`` gives key and shape by format.

    Args:
        name: the program's.
        forms: key and shape by the name of a format.
        more_columns: of its CSV, behind those that both such programs have.
    """
    return Program(
        name=name,
        point=_input_point(forms),
        feeds=_input_feeds(forms),
        columns=(
            "entry",
            "format",
            "policy",
            "cache",
            "t",
            "workspace_bytes",
            "logical_bytes",
            "useful_flops",
            "median_us",
            "min_us",
            "p95_us",
            "execution",
            "graph_nodes",
            *more_columns,
        ),
        settings=("format", "policy", "execution", "cache"),
        defaults={"execution": "eager", "cache": "cold"},
        has_execution=True,
        arguments="{options} --tokens {widths} --csv-out {out}",
        variants=tuple(
            Variant(
                options=f"--format {fmt}" + (f" --{fmt}-policy {policy}" if policy else ""), format=fmt, policy=policy
            )
            for fmt in forms
            for policy in _INPUT_POLICIES.get(fmt, ("",))
        ),
    )


def no_point(row: Row) -> Point | LeftOut:
    """Stand in for the point of a program that feeds no key; such an output is refused before its first row."""
    return LeftOut(f"{row.where}: feeds no key")
