"""A review as terminal text, Markdown, HTML or JSON. Templates hold loops and values; every decision is made here.

jinja2 stays inside this file and ``emit``. All text of a table passes through ``escape`` before it is shown, and HTML
is escaped again by the template engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from ninfer_device_profiles.bands import MAX_LAST

from generator.core.diff import Kind
from generator.core.escape import markdown, markdown_code, visible, whole
from generator.core.review_json import review_text
from generator.core.routing import Layer, State
from generator.core.strips import Picture, picture, width_words, widths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jinja2 import Template

    from generator.core.diff import Change
    from generator.core.lint import Finding
    from generator.core.reference import ReferenceGpu
    from generator.core.review import Refused, Review, Strip
    from generator.core.routing import Answer, DeviceId

TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates"

COMMENT_LIMIT: Final = 65_536
"""Most characters of a GitHub comment."""

MAX_PICTURES: Final = 400
"""Most pictures that one HTML report draws."""


class Format(StrEnum):
    """What a report may be written as."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


class Row(NamedTuple):
    """One changed cell, every field ready to show; ``tone`` is ``bad``, ``good`` or empty."""

    device: str
    key: str
    widths: str
    old: str
    new: str
    kind: str
    layers: str
    rounding: str
    evidence: str
    tone: str


class Count(NamedTuple):
    """How many cells, keys and devices one class of change touches."""

    kind: str
    cells: int
    keys: int
    devices: int
    tone: str


class Group(NamedTuple):
    """The cells of one device in which another schedule runs."""

    device: str
    cells: int
    kinds: str
    rows: tuple[Row, ...]
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A review as the templates see it: texts and numbers alone. ``hidden`` counts the rows that did not fit."""

    old: str
    new: str
    catalog: str
    headline: str
    compared: str
    gate: tuple[str, ...]
    refusals: int
    counts: tuple[Count, ...]
    numerics: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    provenance: tuple[Row, ...]
    findings: tuple[tuple[str, str, str], ...]
    text_only: tuple[str, ...]
    notes: tuple[str, ...]
    hidden: int


def render(review: Review, form: Format) -> str:
    """Return the whole report, ending in a newline."""
    if form is Format.TEXT:
        return _template("diff.txt.jinja", autoescape=False).render(
            view=_view(review, _gathered(review), visible, visible), aligned=aligned
        )
    if form is Format.MARKDOWN:
        return _fitting(review)
    if form is Format.HTML:
        view = _view(review, _gathered(review), visible, visible, with_pictures=True)
        return _template("diff.html.jinja", autoescape=True).render(view=view)
    return review_text(review)


def _template(name: str, *, autoescape: bool) -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=autoescape,  # noqa: S701 on for HTML; text and Markdown escape their values themselves
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["whole"] = whole
    return environment.get_template(name)


def _fitting(review: Review) -> str:
    """Return the Markdown report with as many rows as a comment holds."""
    template = _template("diff.md.jinja", autoescape=False)

    gathered = _gathered(review)

    def attempt(limit: int) -> str:
        return template.render(view=_view(review, gathered, markdown, markdown_code, limit=limit))

    most = max(len(review.diff.changes), len(review.findings), len(review.unknown), len(review.text_only), 1)
    low, high = 0, min(most, COMMENT_LIMIT // 64)
    text = attempt(high)
    if len(text) <= COMMENT_LIMIT and high == most:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(attempt(middle)) <= COMMENT_LIMIT else (low, middle - 1)
    return attempt(low)


_T = TypeVar("_T")
_Escape = Callable[[str], str]


class _Shown:
    """Takes at most ``limit`` items of each list and remembers how many it left out."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.hidden = 0

    def take(self, items: Iterable[_T], spent: int = 0) -> tuple[_T, ...]:
        """Return the first items that fit after ``spent`` others."""
        listed = tuple(items)
        kept = listed if self._limit is None else listed[: max(0, self._limit - spent)]
        self.hidden += len(listed) - len(kept)
        return kept


class _Gathered(NamedTuple):
    """What every view of a review says alike, worked out once: a long one is viewed many times until it fits."""

    headline: str
    compared: str
    counts: tuple[Count, ...]
    numerics: tuple[Change, ...]
    acting: Mapping[DeviceId, Sequence[Change]]
    provenance: tuple[Change, ...]


def _gathered(review: Review) -> _Gathered:
    acting: dict[DeviceId, list[Change]] = {}
    for change in review.diff.acting:
        acting.setdefault(change.device, []).append(change)
    return _Gathered(
        headline=headline(review),
        compared=_compared(review),
        counts=tuple(_counts(review.diff.changes)),
        numerics=review.numerics,
        acting=acting,
        provenance=review.diff.provenance,
    )


def _view(
    review: Review,
    gathered: _Gathered,
    text: Callable[[str], str],
    code: Callable[[str], str],
    *,
    limit: int | None = None,
    with_pictures: bool = False,
) -> View:
    shown = _Shown(limit)
    return View(
        old=code(review.old),
        new=code(review.new),
        catalog=review.catalog_digest,
        headline=gathered.headline,
        compared=gathered.compared,
        gate=tuple(_refusal(item, code, text) for item in shown.take(review.refused)),
        refusals=len(review.refused),
        counts=gathered.counts,
        numerics=tuple(_row(item, code, text) for item in shown.take(gathered.numerics)),
        missing=tuple((text(card.name), _entry(card, code)) for card in review.missing),
        groups=tuple(_groups(gathered.acting, review.strips if with_pictures else (), code, text, shown)),
        provenance=tuple(_row(item, code, text) for item in shown.take(gathered.provenance)),
        findings=tuple(_finding(item, code, text) for item in shown.take(review.findings)),
        text_only=tuple(text(item) for item in shown.take(review.text_only)),
        notes=tuple(text(item) for item in shown.take(review.notes)),
        hidden=shown.hidden,
    )


def headline(review: Review) -> str:
    """Return in one sentence or two how much runs differently."""
    changes = review.diff.acting
    if not changes:
        extra = " The texts differ, the routing does not." if review.text_only or review.diff.changes else ""
        return f"No routing change: at every device, key and width the same schedule runs.{extra}"
    keys = {(change.device, change.key) for change in changes}
    devices = {change.device for change in changes}
    crossing = len(review.numerics)
    numerics = f" {_count(crossing, 'change')} of rounding class." if crossing else ""
    return (
        f"Another schedule runs in {_count(len(changes), 'cell')}, "
        f"{_count(len(keys), 'key')} on {_count(len(devices), 'device')}.{numerics}"
    )


def _compared(review: Review) -> str:
    return (
        f"{_count(review.devices, 'device')}, {_count(review.keys, 'key')} and every width from 1 to {MAX_LAST}, "
        f"against route catalog {review.catalog_digest}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _counts(changes: Sequence[Change]) -> Iterator[Count]:
    by_kind: dict[Kind, list[Change]] = {}
    for change in changes:
        by_kind.setdefault(change.kind, []).append(change)
    for kind in Kind:
        found = by_kind.get(kind)
        if found:
            keys = len({(change.device, change.key) for change in found})
            yield Count(str(kind), len(found), keys, len({change.device for change in found}), _TONES.get(kind, ""))


_TONES = {
    Kind.DEVICE_DROPPED: "bad",
    Kind.KEY_DROPPED: "bad",
    Kind.COVERAGE_LOST: "bad",
    Kind.DEVICE_ADDED: "good",
    Kind.KEY_ADDED: "good",
    Kind.COVERAGE_ADDED: "good",
}


_LAYERS = {Layer.FILE: "file", Layer.BUILT_IN: "built-in", Layer.COMPILED: "compiled"}


def _groups(
    acting: Mapping[DeviceId, Sequence[Change]], strips: Iterable[Strip], code: _Escape, text: _Escape, shown: _Shown
) -> Iterator[Group]:
    by_device: dict[DeviceId, list[Strip]] = {}
    for strip in strips:
        by_device.setdefault(strip.device, []).append(strip)
    pictures = spent = 0
    for device, changes in acting.items():
        kept = shown.take(changes, spent)
        spent += len(kept)
        drawn = {change.key for change in changes} if pictures < MAX_PICTURES else set()
        chosen = [strip for strip in by_device.get(device, ()) if strip.key in drawn][: MAX_PICTURES - pictures]
        pictures += len(chosen)
        if kept:
            yield Group(
                device=_device(device, code),
                cells=len(changes),
                kinds=_kinds(changes),
                rows=tuple(_row(change, code, text) for change in kept),
                pictures=tuple(picture(strip) for strip in chosen),
            )


def _kinds(changes: Sequence[Change]) -> str:
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{kind} in {_count(counts[kind], 'cell')}" for kind in Kind if kind in counts)


def _row(change: Change, code: _Escape, text: _Escape) -> Row:
    old, new = (_LAYERS[item.layer] for item in (change.old, change.new))
    rounding = ""
    if change.rounding_changed:
        was, now = (text(item.rounding) or "as compiled" for item in (change.old, change.new))
        rounding = f"{was} -> {now}"
    return Row(
        device=_device(change.device, code),
        key=code(change.key),
        widths=widths(change.first, change.last),
        old=_schedule(change.old, code),
        new=_schedule(change.new, code),
        kind=str(change.kind),
        layers=old if old == new else f"{old} -> {new}",
        rounding=rounding,
        evidence=_evidence(change, text),
        tone="bad" if change.new.unknown else _TONES.get(change.kind, ""),
    )


def _device(device: DeviceId, code: _Escape) -> str:
    count = f"{device.multiprocessors} SMs" if device.multiprocessors else "any SM count"
    return f"{code(device.hardware_class)}, {count}"


def _schedule(answer: Answer, code: _Escape) -> str:
    if answer.state is State.CHOSEN:
        return code(answer.acts)
    if answer.state is State.KEPT:
        return "compiled"
    if answer.state is State.UNCOVERED:
        return "compiled, no layer answers"
    why = "not legal here" if answer.state is State.ILLEGAL_WIDTH else "not in the catalog"
    return f"compiled, {code(answer.written) or 'empty'} is {why}"


def _evidence(change: Change, text: _Escape) -> str:
    parts: list[str] = []
    support = change.support
    if support is not None:
        gain = "" if support.gain is None else f", gain {support.gain:.3f}"
        parts.append(f"{text(support.rule)}{gain}{_bits(support.difference)}, {text(support.reference)}")
    if change.cause:
        parts.append(text(change.cause))
    return "; ".join(parts)


def _bits(difference: float | None) -> str:
    if difference is None:
        return ""
    return f", output differs by up to {difference:.2g}" if difference else ", bits equal"


def _refusal(item: Refused, code: _Escape, text: _Escape) -> str:
    place = _device(item.device, code)
    if item.key:
        place = f"{place}: {code(item.key)} at {width_words(item.ranges)}"
    return f"{item.refusal}: {place}: {text(item.text)}"


def _entry(card: ReferenceGpu, code: _Escape) -> str:
    return f"{code(card.hardware_class)}, {card.multiprocessors} SMs"


def _finding(item: Finding, code: _Escape, text: _Escape) -> tuple[str, str, str]:
    place = _device(item.device, code)
    if item.key:
        place = f"{place}: {code(item.key)} at {widths(item.first, item.last)}"
    return str(item.rule), place, text(item.text)


def aligned(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one line a row with its columns aligned, headings first; a column that is empty throughout is left out."""
    table = [("key", "widths", "old", "new", "change", "layer", "evidence")]
    table += [(row.key, row.widths, row.old, row.new, row.kind, row.layers, row.evidence) for row in rows]
    columns = [column for column in zip(*table, strict=True) if any(column[1:])]
    lengths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(length) for cell in column] for column, length in zip(columns, lengths, strict=True)]
    for line in zip(*padded, strict=True):
        yield "  ".join(line).rstrip()
