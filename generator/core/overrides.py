"""Decisions made by hand: a key of one device, its bands, the reason, who decided, and until when."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninfer_device_profiles.bands import MAX_LAST, Band, Bands

from generator.core.route import HardwareClass, RouteKey
from generator.core.texts import load_toml
from generator.errors import SourceError

if TYPE_CHECKING:
    from generator.core.catalog import Catalog

_FIELDS = ("hardware_class", "multiprocessors", "key", "bands", "reason", "author", "expires")


@dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One decision; ``expires`` is the last day on which it holds."""

    hardware_class: HardwareClass
    multiprocessors: int
    key: RouteKey
    bands: Bands
    reason: str
    author: str
    expires: dt.date


def parse_overrides(text: str, source: str, catalog: Catalog) -> tuple[Override, ...]:
    """Return the decisions of an ``overrides.toml``.

    Raises:
        SourceError: not TOML, a field missing, unknown or of another type, bands that do not ascend, a schedule the
            catalog does not have, or two decisions for one key of one device.
        CatalogError: a key the catalog does not have.
    """
    data = load_toml(text, source, "expected [[override]] tables")
    rows = data.pop("override", [])
    if data or not isinstance(rows, list):
        raise SourceError(f"{source}: found {sorted(data) or rows!r}; expected [[override]] tables alone")
    overrides = tuple(_override(row, f"{source} ['override'][{index}]", catalog) for index, row in enumerate(rows))
    seen: set[tuple[str, int, str]] = set()
    for item in overrides:
        cell = (item.hardware_class, item.multiprocessors, item.key)
        if cell in seen:
            raise SourceError(f"{source}: {item.key!r} of {item.hardware_class!r} is decided twice; keep one decision")
        seen.add(cell)
    return overrides


def check_expiry(overrides: tuple[Override, ...], today: dt.date, source: str) -> None:
    """Raise for the first decision that no longer holds.

    Raises:
        SourceError: ``expires`` of a decision lies before ``today``.
    """
    for item in overrides:
        if item.expires < today:
            raise SourceError(
                f"{source}: the decision on {item.key!r} of {item.hardware_class!r} by {item.author!r} expired on "
                f"{item.expires.isoformat()} (today is {today.isoformat()}); measure the key, or renew the decision"
            )


def _override(row: object, where: str, catalog: Catalog) -> Override:
    if not isinstance(row, dict) or set(row) != set(_FIELDS):
        found = sorted(row) if isinstance(row, dict) else row
        raise SourceError(f"{where}: fields {found!r}; expected exactly {sorted(_FIELDS)!r}")
    for name in ("hardware_class", "key", "reason", "author"):
        if not isinstance(row[name], str) or not row[name].strip():
            raise SourceError(f"{where}[{name!r}]: found {row[name]!r}; expected a string that is not empty")
    count, expires = row["multiprocessors"], row["expires"]
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise SourceError(f"{where}['multiprocessors']: found {count!r}; expected a positive integer")
    if not isinstance(expires, dt.date) or isinstance(expires, dt.datetime):
        raise SourceError(f"{where}['expires']: found {expires!r}; expected a date such as 2027-03-31")
    route = catalog.route(row["key"], f"{where}['key']")
    bands = _bands(row["bands"], f"{where}['bands']")
    for band in bands:
        if band.schedule and route.candidate(band.schedule) is None:
            names = [item.schedule for item in route.candidates]
            raise SourceError(f"{where}['bands']: schedule {band.schedule!r}; expected one of {names!r} or ''")
    return Override(
        hardware_class=HardwareClass(row["hardware_class"]),
        multiprocessors=count,
        key=route.key,
        bands=bands,
        reason=row["reason"],
        author=row["author"],
        expires=expires,
    )


def _bands(value: object, where: str) -> Bands:
    if not isinstance(value, list) or not value:
        raise SourceError(f"{where}: found {value!r}; expected [[last, schedule], ...], at least one band")
    bands: list[Band] = []
    for pair in value:
        match pair:
            case [int() as last, str() as schedule] if not isinstance(last, bool):
                if not (bands[-1].last if bands else 0) < last <= MAX_LAST:
                    raise SourceError(f"{where}: band ends at width {last}; bands ascend from 1 to {MAX_LAST}")
                bands.append(Band(last, schedule))
            case _:
                raise SourceError(f"{where}: found {pair!r}; a band is [last, schedule]")
    return tuple(bands)
