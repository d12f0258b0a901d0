"""What a profile document holds: documents, entries, calibration blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ninfer_device_profiles.bands import Bands

SCHEMA = "ninfer.device-route-profiles"
SCHEMA_VERSION = 2

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a calibrated entry records of the run that measured it.

    ``cuda_driver`` and ``cuda_runtime`` are CUDA's encoded versions (13010 is 13.1, 0 unknown); ``date`` is UTC,
    ``YYYY-MM-DDTHH:MM:SSZ``. ``extra`` holds fields this version does not know.
    """

    route_catalog: str
    ninfer_build: str = ""
    cuda_driver: int = 0
    cuda_runtime: int = 0
    date: str = ""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One device's entry.

    Args:
        hardware_class: device name and compute capability, see `ninfer_device_profiles.matching`.
        multiprocessors: SM count; 0 stands for any when an entry is looked up.
        origin: free text.
        calibration: provenance; None in the built-in table.
        routes: route key -> bands.
        extra: fields this version does not know, kept when the entry is written.
        implied_origin: the origin that reading filled in because the text has none; while ``origin`` is still that,
            writing leaves the field out again instead of spreading a file's path.
    """

    hardware_class: str
    multiprocessors: int = 0
    origin: str = ""
    calibration: Calibration | None = None
    routes: Mapping[str, Bands] = field(default_factory=dict)
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    implied_origin: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole document; the order of ``devices`` counts, since the first match answers."""

    devices: tuple[Profile, ...] = ()
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
