"""Which keys each reference GPU has, lacks or has from another catalog, and about how long measuring them takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from generator.core.limits import LIMITS
from generator.core.route import Group
from generator.core.sources import Device, Kind
from generator.core.workload import TIMED_ON, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from generator.core.catalog import Catalog
    from generator.core.derive import Derivation
    from generator.core.reference import ReferenceGpu
    from generator.core.route import RouteKey
    from generator.core.sources import Measured, Sources


class State(StrEnum):
    """Where a calibrated key of a card stands.

    An absent key may have been measured and found compiled at every width: the shipped table leaves those out, and
    an imported entry cannot say so. A stale key has evidence, but not whole or of another candidate list.
    """

    MEASURED = "measured"
    IMPORTED = "imported"
    STALE = "stale"
    ABSENT = "absent"


@dataclass(frozen=True, kw_only=True, slots=True)
class CardPlan:
    """One reference GPU.

    Args:
        keys: state of every key that a calibration of this card measures.
        pending: keys among them whose kernels this build does not have.
        rounds: number of benchmark rounds (0, 1, 2) of every ``unified/*`` key that only benchmarks decide.
        seconds: about how long measuring the keys that are not measured takes, kernels compiled.
        timed_on: names of the cards whose runs ``seconds`` is taken from, this one's own first.
        command: the one command that measures them.
    """

    card: ReferenceGpu
    keys: dict[RouteKey, State]
    pending: tuple[RouteKey, ...]
    rounds: dict[RouteKey, int]
    seconds: float
    timed_on: tuple[str, ...]
    command: str

    def count(self, state: State) -> int:
        """Return the number of keys in ``state``."""
        return sum(1 for item in self.keys.values() if item is state)

    @property
    def missing(self) -> bool:
        """Return whether the card has no key at all: then the table has no entry for it."""
        return bool(self.keys) and all(state is State.ABSENT for state in self.keys.values())


def make_plan(
    sources: Sources,
    derivation: Derivation,
    catalog: Catalog,
    *,
    rounds: Mapping[Device, Mapping[RouteKey, int]],
) -> tuple[CardPlan, ...]:
    """Return the plan of every reference GPU and extra, in the order of ``reference_gpus.toml``.

    Args:
        sources: holds the cards.
        derivation: says which source answers for each key; derived with extras.
        catalog: the keys.
        rounds: benchmark rounds present per device and key.
    """
    plans: list[CardPlan] = []
    names = {Device(card.hardware_class, card.multiprocessors): card.name for card in sources.reference}
    stale = {(item.device, key) for item in sources.measured for key in item.incomplete}
    for card in sources.reference:
        device = Device(card.hardware_class, card.multiprocessors)
        answers = derivation.answers.get(device, {})
        routes = [route for route in catalog.calibrated if catalog.families[route.key].group in card.families]
        keys: dict[RouteKey, State] = {}
        for route in routes:
            answer = answers.get(route.key)
            if answer is not None and answer.kind in {Kind.KERNELS, Kind.ENGINE}:
                keys[route.key] = State.MEASURED
            elif (device, route.key) in stale:
                keys[route.key] = State.STALE
            else:
                keys[route.key] = State.ABSENT if answer is None else State.IMPORTED
        benchmarked = (route.key for route in catalog.routes.values() if not route.calibrated)
        present = rounds.get(device, {})
        lacking = tuple(route for route in routes if keys[route.key] is not State.MEASURED)
        seen = _seconds_seen(sources.measured, device)
        known = {key: seconds for key, (seconds, _) in seen.items()}
        timed_on = {seen[route.key][1] if route.key in seen else None: None for route in lacking}
        full_stack = Group.GROUPWISE in card.families
        plans.append(
            CardPlan(
                card=card,
                keys=keys,
                pending=tuple(route.key for route in routes if route.operation is None),
                rounds={key: present.get(key, 0) for key in benchmarked} if full_stack else {},
                seconds=Workload(routes=lacking, pending=()).seconds(LIMITS, known),
                timed_on=tuple(
                    dict.fromkeys(
                        TIMED_ON if item is None else names.get(item, item.hardware_class)
                        for item in sorted(timed_on, key=lambda item: item != device)
                    )
                ),
                command=f"nox -s calibrate-{card.slug}",
            )
        )
    return tuple(plans)


def _seconds_seen(measured: Iterable[Measured], device: Device) -> dict[RouteKey, tuple[float, Device]]:
    """Return how long each key took, and where: the newest run on this class before the newest on any other."""
    seen: dict[RouteKey, tuple[float, Device]] = {}
    own = device.hardware_class
    for item in sorted(measured, key=lambda item: (item.device.hardware_class == own, item.date), reverse=True):
        for key, seconds in item.seconds.items():
            seen.setdefault(key, (seconds, item.device))
    return seen
