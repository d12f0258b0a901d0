"""The reference GPUs: which cards the built-in table is made for, and which extras ship on request."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ninfer_device_profiles.matching import hardware_class

from generator.core.route import Group, HardwareClass
from generator.core.texts import load_toml
from generator.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceGpu:
    """One card.

    ``capability`` is major * 10 + minor, ``power_limit_w`` the board's default in watts, ``cuda`` the CUDA major of
    the environment that can compile for it. An extra is not shipped unless asked for.
    """

    name: str
    device_name: str
    capability: int
    hardware_class: HardwareClass
    multiprocessors: int
    power_limit_w: int
    families: tuple[Group, ...]
    cuda: int
    extra: bool

    @property
    def slug(self) -> str:
        """Return the name as a session or file name spells it (``rtx-3090``)."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())


_NUMBER = re.compile(r"[0-9]{1,3}")
_FIELDS = frozenset(item.name for item in fields(ReferenceGpu)) - {"extra"}


def parse_reference_gpus(text: str, source: str) -> tuple[ReferenceGpu, ...]:
    """Return the cards that a ``reference_gpus.toml`` lists, shipped ones first.

    Raises:
        SourceError: the text is not TOML, a field is missing, unknown or of another type, or a card stands twice.
    """
    data = load_toml(text, source, "expected [[gpu]] and [[extra]] tables")
    cards: list[ReferenceGpu] = []
    for table, extra in (("gpu", False), ("extra", True)):
        rows = data.pop(table, [])
        if not isinstance(rows, list):
            raise SourceError(f"{source} [{table!r}]: found {rows!r}; expected an array of tables ([[{table}]])")
        cards.extend(_card(row, f"{source} [{table!r}][{index}]", extra=extra) for index, row in enumerate(rows))
    if data:
        raise SourceError(f"{source}: tables {sorted(data)!r}; only [[gpu]] and [[extra]] are known")
    seen: set[tuple[str, int]] = set()
    for card in cards:
        identity = (card.hardware_class, card.multiprocessors)
        if identity in seen:
            raise SourceError(
                f"{source}: {card.hardware_class!r} with {card.multiprocessors} SMs stands twice; keep one"
            )
        seen.add(identity)
    return tuple(cards)


def _card(row: object, where: str, *, extra: bool) -> ReferenceGpu:
    if not isinstance(row, dict) or set(row) != _FIELDS:
        found = sorted(row) if isinstance(row, dict) else row
        raise SourceError(f"{where}: fields {found!r}; expected exactly {sorted(_FIELDS)!r}")
    card = ReferenceGpu(
        name=_text(row, "name", where),
        device_name=_text(row, "device_name", where),
        capability=_capability(_text(row, "capability", where), where),
        hardware_class=HardwareClass(_text(row, "hardware_class", where)),
        multiprocessors=_count(row, "multiprocessors", where),
        power_limit_w=_count(row, "power_limit_w", where),
        families=_families(row["families"], where),
        cuda=_count(row, "cuda", where),
        extra=extra,
    )
    follows = hardware_class(card.device_name, divmod(card.capability, 10))
    if card.hardware_class != follows:
        raise SourceError(
            f"{where}['hardware_class']: found {card.hardware_class!r}; expected {follows!r}, which follows from "
            "device_name and capability"
        )
    return card


def _text(row: Mapping[str, object], name: str, where: str) -> str:
    value = row[name]
    if not isinstance(value, str) or not value:
        raise SourceError(f"{where}[{name!r}]: found {value!r}; expected a string that is not empty")
    return value


def _count(row: Mapping[str, object], name: str, where: str) -> int:
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise SourceError(f"{where}[{name!r}]: found {value!r}; expected a positive integer")
    return value


def _capability(text: str, where: str) -> int:
    major, _, minor = text.partition(".")
    if not (_NUMBER.fullmatch(major) and _NUMBER.fullmatch(minor)):
        raise SourceError(f"{where}['capability']: found {text!r}; expected MAJOR.MINOR such as '8.6'")
    return int(major) * 10 + int(minor)


def _families(value: object, where: str) -> tuple[Group, ...]:
    known = [group.value for group in Group if group is not Group.BENCHMARKED]
    if not isinstance(value, list) or not value or any(item not in known for item in value):
        raise SourceError(f"{where}['families']: found {value!r}; expected some of {known!r}")
    return tuple(Group(item) for item in value)
