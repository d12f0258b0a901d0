"""Keys that a measured source holds and that do not count: what is missing, what answers instead, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from generator.core.sources import Device

if TYPE_CHECKING:
    from generator.core.derive import Derivation
    from generator.core.route import RouteKey
    from generator.core.sources import Kind, Measured, Sources


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedKey:
    """One key of one evidence file that the table cannot use.

    Args:
        file: name of the evidence file below ``sources/measured``.
        reason: what is missing, or that the key's candidates are others today.
        instead: what answers for the key in the derived table, empty where that does not ship the device.
        remedy: what brings the key back.
    """

    device: Device
    file: str
    key: RouteKey
    reason: str
    instead: str
    remedy: str

    def __str__(self) -> str:
        """Return the whole story in one line."""
        answer = f"; {self.instead}" if self.instead else ""
        return f"sources/measured/{self.file}: {self.key!r} does not count: {self.reason}{answer}. {self.remedy}"


def dropped_keys(sources: Sources, derivation: Derivation) -> tuple[DroppedKey, ...]:
    """Return the keys of all measured sources that do not count, by file and in byte order of the keys.

    A key that a later run on the device measured whole is not among them: that run answers anyway.

    Args:
        sources: what was read, extras included.
        derivation: says what answers instead.
    """
    slugs = {Device(card.hardware_class, card.multiprocessors): card.slug for card in sources.reference}
    found: list[DroppedKey] = []
    for item in sorted(sources.measured, key=lambda source: source.file):
        slug = slugs.get(item.device)
        session = "calibrate" if slug is None else f"calibrate-{slug}"
        for key in sorted(item.incomplete, key=lambda name: name.encode()):
            later = [other for other in sources.measured if other.device == item.device and _rank(other) > _rank(item)]
            if any(key in other.routes for other in later):
                continue
            found.append(
                DroppedKey(
                    device=item.device,
                    file=item.file,
                    key=key,
                    reason=item.incomplete[key],
                    instead=_instead(derivation, item.device, key),
                    remedy=f"Restore the file, or measure the key again: nox -s {session} -- --only {key}",
                )
            )
    return tuple(found)


def _rank(item: Measured) -> tuple[Kind, str, str]:
    """Return what orders the measured sources of one device, as `derive` does."""
    return item.kind, item.date, item.file


def _instead(derivation: Derivation, device: Device, key: RouteKey) -> str:
    answers = derivation.answers.get(device)
    if answers is None:
        return ""
    if key not in answers:
        return "no other source answers"
    answer = answers[key]
    return f"the source {answer.file} answers ({answer.kind.label})"
