"""How many samples a point gets: more while its best gain does not stand clear of the margin.

What the samples of one run say of a gain is uncertain for two reasons: they scatter, and a captured graph is a little
faster or slower than another capture of the same launches (architecture 7, guarded; figures in docs/measured.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from generator.core.bench import BASE, TWIN
from generator.core.stats import center, gain, median, standard_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from generator.core.bench import Samples, Subject
    from generator.core.limits import Limits


def gain_doubt(rival: Samples, base: Samples, limits: Limits) -> float:
    """Return half the width of the interval in which the gain of ``rival`` over ``base`` lies, as a ratio."""
    captures = max(1.0, min(len(rival), len(base)) / limits.graph_rounds)
    graphs = limits.graph_spread_us / median(base) * math.sqrt(2.0 / captures)
    return limits.doubt * math.hypot(standard_error(rival), standard_error(base), graphs)


def close_to_best(times: Mapping[Subject, float], share: float) -> list[Subject]:
    """Return the subjects whose time is within ``share`` of the fastest."""
    best = min(times.values(), default=0.0)
    return [subject for subject, us in times.items() if us <= best * (1 + share)]


def extend(taken: Mapping[Subject, Samples], seen: int, limits: Limits) -> tuple[list[Subject], int]:
    """Return what to time further beside the compiled route, and how many samples it then has; nothing if none.

    A step is taken while the best gain is in doubt; the first one also where several rivals close to the best win: the
    rule has to choose among them. Later only those go on that may be the best. A twin that has just won is timed
    further as a candidate would be, so that it counts as a false switch only if it stays one.

    Args:
        taken: samples of every timed subject, the compiled route's and its twin's included.
        seen: how many of them the question is about: what a replay knows beyond them must not change the answer.
        limits: the numbers of the rule.
    """
    total = min(seen * limits.growth, limits.most_samples)
    known = {subject: samples[:seen] for subject, samples in taken.items()}
    times = {subject: center(samples, limits.samples) for subject, samples in known.items()}
    base_us = times.pop(BASE)
    twin_us = times.pop(TWIN, base_us)
    if base_us > limits.extend_below_us or total <= seen:
        return [], seen
    twins = [TWIN] if gain(twin_us, base_us) > limits.min_gain and len(known[TWIN]) == seen else []
    found = [*_rivals(known, times, base_us, limits, first=seen == limits.samples), *twins]
    return found, total if found else seen


def _rivals(
    known: Mapping[Subject, Samples], times: Mapping[Subject, float], base_us: float, limits: Limits, *, first: bool
) -> list[Subject]:
    close = close_to_best(times, limits.close_share)
    if not close:
        return []
    best = min(close, key=times.__getitem__)
    found = gain(times[best], base_us)
    if first and len(close) > 1 and found > limits.min_gain:
        return close
    doubt = gain_doubt(known[best], known[BASE], limits)
    if abs(found - limits.min_gain) > doubt:
        return []
    return close_to_best({subject: times[subject] for subject in close}, doubt)


def second_pass_samples(taken: Samples, limits: Limits) -> int:
    """Return the samples of each round of the second pass: the usual number, more after a long first pass."""
    return max(limits.samples, len(taken) // limits.second_pass_part)
