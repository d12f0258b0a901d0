"""The progress lines of the engine's ``ninfer-calibrate --detail``: every median, refusal and decision of a run.

The lines are those of engine-profiles 4.4 and 7: a decision, a refusal, a candidate's time, the summary, the closing
``stored``. The tool prints nothing else to stderr. What a driver or a shell says before the first of these lines or
after the last is counted and left alone; any other line between them is an error, since a time may be lost with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generator.core.route import COMPILED, CatalogDigest, HardwareClass, Point, RouteKey, Schedule
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLACE = r"(?P<key>\S+) w=(?P<width>[1-9][0-9]{0,9})"
_DECISION = re.compile(rf"{_PLACE} compiled (?P<compiled>\S+) us -> (?P<schedule>\S+) (?P<us>\S+) us")
_REFUSAL = re.compile(rf"{_PLACE} (?P<schedule>\S+) rejected: (?P<reason>output differs by \S+)")
_DETAIL = re.compile(rf"{_PLACE} (?P<schedule>\S+) (?P<us>\S+) us \(compiled (?P<compiled>\S+) us\)")
_SUMMARY = re.compile(
    r"calibration: (?P<keys>[0-9]{1,9}) keys measured, (?P<routed>[0-9]{1,9}) routed off the compiled route "
    r"in (?P<seconds>[0-9]{1,9}(\.[0-9]{1,9})?) s"
)
_STORED = re.compile(
    r"stored (?P<keys>[0-9]{1,9}) measured keys for (?P<name>\S+) \((?P<sms>[0-9]{1,9}) SMs, "
    r"route catalog (?P<catalog>[0-9a-f]{16})\) in (?P<path>.+)"
)
_LOOKS_LIKE_A_POINT = re.compile(r"\S+ w=[0-9]+ .*")
_FAILURE = re.compile(r"ninfer-calibrate: .*")
_OWN_PREFIX = "engine: "
_OWN = re.compile(
    r"(calibrating|replaying) [0-9]+ route keys? \([0-9]+ points?\) .*"
    r"|hidden twins: [0-9]+ of [0-9]+ would have been switched"
    r"|stored entry: choices known: [0-9]+; .*"
)
"""Lines that only this project's ``calibrate`` prints."""
_COMPILED_WORD = "compiled"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedPoint:
    """One key at one width.

    Args:
        line: number of the line that states the decision.
        compiled_us, chosen_us: medians in microseconds; infinity where a timed launch failed.
        schedule: what the engine chose, empty for the compiled route.
        timed: medians of candidates, where the log has details.
        refused: reasons of candidates whose output was refused.
    """

    key: RouteKey
    width: int
    line: int
    compiled_us: float
    schedule: Schedule
    chosen_us: float
    timed: dict[Schedule, float] = field(default_factory=dict)
    refused: dict[Schedule, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLog:
    """A whole run.

    Args:
        points: in the order measured.
        detailed: every candidate that was timed has a line.
        seconds: how long the run took, as the log states it.
        hardware_class, multiprocessors, catalog: of the stored entry, from the closing line.
        remarks: number of lines of other forms before the first line of the run and after its last.
    """

    points: tuple[LoggedPoint, ...]
    detailed: bool
    seconds: float
    hardware_class: HardwareClass
    multiprocessors: int
    catalog: CatalogDigest
    remarks: int = 0


def parse_log(lines: Iterable[str], source: str) -> EngineLog:
    """Return the run that ``lines`` report.

    Raises:
        SourceError: a line within the run has an unknown form, a point has two decisions or two lines of one
            candidate, the run did not finish, two runs follow each other, or this project's ``calibrate`` wrote the
            log; the message names ``source`` and the line.
    """
    reader = _LogReader(source)
    for number, line in enumerate(lines, start=1):
        reader.line(number, line.strip())
    return reader.log()


class _LogReader:
    """Collects a run line by line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._points: dict[Point, LoggedPoint] = {}
        self._open: dict[Point, tuple[dict[Schedule, float], dict[Schedule, str]]] = {}
        self._summary: re.Match[str] | None = None
        self._stored: re.Match[str] | None = None
        self._detailed = False
        self._remarks = 0
        self._last = 0
        self._begun = False
        self._stray: tuple[int, str] | None = None

    def line(self, number: int, text: str) -> None:
        """Take one line."""
        self._last = number
        if _OWN.fullmatch(text) or text.startswith(_OWN_PREFIX):
            raise SourceError(
                f"{self._source} line {number}: {text!r} is of this project's own `calibrate`; expected the stderr of "
                "the engine's ninfer-calibrate. What `calibrate` measured is in its evidence file already: bring that "
                "with `calibrate --replay`, or copy it below sources/measured"
            )
        if not self._run_line(number, text):
            self._other_line(number, text)

    def _run_line(self, number: int, text: str) -> bool:
        """Take a line that the tool prints; return whether it is one."""
        for form, take in (
            (_DECISION, self._decide),
            (_REFUSAL, self._refuse),
            (_DETAIL, self._time),
            (_SUMMARY, self._summarise),
            (_STORED, self._close),
        ):
            if found := form.fullmatch(text):
                self._refuse_stray()
                if self._stored is not None or (self._summary is not None and form is not _STORED):
                    raise SourceError(
                        f"{self._source} line {number}: {text!r} after the end of the run; bring one run at a time"
                    )
                self._begun = True
                take(found, number)
                return True
        return False

    def _other_line(self, number: int, text: str) -> None:
        """Take a line that the tool does not print, except where a time may be lost with it."""
        if _LOOKS_LIKE_A_POINT.fullmatch(text):
            raise SourceError(
                f"{self._source} line {number}: {text!r}; expected a decision, a refusal or a candidate's time. "
                "The log is of another version of the tool, or was changed"
            )
        if _FAILURE.fullmatch(text):
            raise SourceError(
                f"{self._source} line {number}: {text!r}; expected a run that succeeded. Mend that and calibrate again"
            )
        if not text:
            return
        if self._begun and self._stored is None:
            self._stray = self._stray or (number, text)
        else:
            self._remarks += 1

    def _refuse_stray(self) -> None:
        """Raise if a line of no known form stands between two lines of the run."""
        if self._stray is not None:
            number, text = self._stray
            raise SourceError(
                f"{self._source} line {number}: {text!r} within the run; expected a decision, a refusal, a candidate's "
                "time or the summary. The log is of another version of the tool, or was changed: bring the whole "
                "stderr of one run, and nothing else in it"
            )

    def log(self) -> EngineLog:
        """Return the run after its last line."""
        summary, stored = self._summary, self._stored
        if summary is None or stored is None:
            lacking = "calibration: … keys measured" if summary is None else "stored … measured keys"
            raise SourceError(
                f"{self._source} line {self._last}: the log ends without the line {lacking!r}; the run did not finish, "
                "ran with --quiet, or its log was cut off. Calibrate again and keep the whole log"
            )
        if self._open:
            (key, width) = next(iter(self._open))
            raise SourceError(
                f"{self._source} line {self._last}: {key} w={width} has candidates and no decision; the log was cut. "
                "Calibrate again and keep the whole log"
            )
        keys = {point.key for point in self._points.values()}
        routed = {point.key for point in self._points.values() if point.schedule}
        if (len(keys), len(routed)) != (int(summary["keys"]), int(summary["routed"])):
            raise SourceError(
                f"{self._source}: decisions on {len(keys)} keys, {len(routed)} routed off the compiled route; the "
                f"summary says {summary['keys']} and {summary['routed']}. Lines are missing: calibrate again"
            )
        return EngineLog(
            points=tuple(self._points.values()),
            detailed=self._detailed,
            seconds=float(summary["seconds"]),
            hardware_class=HardwareClass(stored["name"]),
            multiprocessors=int(stored["sms"]),
            catalog=CatalogDigest(stored["catalog"]),
            remarks=self._remarks,
        )

    def _trials(self, found: re.Match[str]) -> tuple[dict[Schedule, float], dict[Schedule, str]]:
        return self._open.setdefault((RouteKey(found["key"]), int(found["width"])), ({}, {}))

    def _refuse(self, found: re.Match[str], number: int) -> None:
        self._new_candidate(found, number)
        self._trials(found)[1][Schedule(found["schedule"])] = found["reason"]

    def _time(self, found: re.Match[str], number: int) -> None:
        self._new_candidate(found, number)
        self._detailed = True
        self._trials(found)[0][Schedule(found["schedule"])] = self._us(found, "us", number)

    def _new_candidate(self, found: re.Match[str], number: int) -> None:
        """Raise if a candidate has a line already, or its point a decision."""
        key, width = RouteKey(found["key"]), int(found["width"])
        point = self._points.get((key, width))
        if point is not None:
            raise SourceError(
                f"{self._source} line {number}: {found.group()!r} after the decision of this width in line "
                f"{point.line}; bring one run at a time"
            )
        if any(found["schedule"] in lines for lines in self._trials(found)):
            raise SourceError(
                f"{self._source} line {number}: {found.group()!r} is the second line of this candidate; bring one run "
                "at a time"
            )

    def _summarise(self, found: re.Match[str], _number: int) -> None:
        self._summary = found

    def _close(self, found: re.Match[str], _number: int) -> None:
        self._stored = found

    def _decide(self, found: re.Match[str], number: int) -> None:
        key, width = RouteKey(found["key"]), int(found["width"])
        if (key, width) in self._points:
            raise SourceError(
                f"{self._source} line {number}: {key} w={width} is decided again, first in line "
                f"{self._points[key, width].line}; bring one run at a time"
            )
        timed, refused = self._open.pop((key, width), ({}, {}))
        word = found["schedule"]
        self._points[key, width] = LoggedPoint(
            key=key,
            width=width,
            line=number,
            compiled_us=self._us(found, "compiled", number),
            schedule=COMPILED if word == _COMPILED_WORD else Schedule(word),
            chosen_us=self._us(found, "us", number),
            timed=timed,
            refused=refused,
        )

    def _us(self, found: re.Match[str], name: str, number: int) -> float:
        text = found[name]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not value > 0:
            raise SourceError(
                f"{self._source} line {number} column {found.start(name) + 1}: {text!r}; expected microseconds above 0 "
                "or inf"
            )
        return value
