"""Every number of the specification, once.

The comment behind each names the section that states it (``device-profiles.md`` unless another is named).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The numbers of the candidate rule and of one measurement. Gains and differences are ratios."""

    min_gain: float = 0.03  # "Calibrating by hand": at least 3 % faster
    second_pass_share: float = 0.5  # engine-profiles 4.4: the second pass asks for half the margin
    second_pass_rounds: int = 2  # engine-profiles 4.4: summed over two interleaved rounds
    max_mismatch: float = 0.05  # "Calibrating by hand": output within 5 % of the compiled route
    mismatch_floor: float = 1e-6  # engine-profiles 4.3: least reference magnitude
    warmups: int = 2  # engine-profiles 4.1
    samples: int = 11  # "Calibrating by hand": the median of eleven runs
    least_samples: int = 3  # engine-profiles 7: --repeat below 3 is raised to 3
    flush_floor_bytes: int = 64 * 1024 * 1024  # engine-profiles 4.2
    flush_l2_share: int = 4  # engine-profiles 4.2: four times the L2
    noise_factor: float = 2.0  # architecture 7, guarded: noise is this many times the twins' median difference
    graph_rounds: int = 8  # bench: rounds after which every graph is captured anew (docs/evidence.md, "captures")
    graph_spread_us: float = 0.15  # guarded: standard deviation between captures of one graph, an H200's
    doubt: float = 2.5  # guarded: a best gain within this many standard errors of the margin is timed further
    growth: int = 4  # guarded: times as many samples at every such step
    second_pass_part: int = 8  # guarded: a round of the second pass has this part of a long first pass
    most_samples: int = 440  # guarded: samples of the longest first pass
    extend_below_us: float = 800.0  # guarded: longer kernels are not timed further
    close_share: float = 0.02  # guarded: contenders this close to the best get a second pass too
    max_false_switches: float = 0.01  # field-lessons 6.5: no table from a run that switches more of its twins
    stop_after: int = 3  # bench: samples after which a hopeless candidate stops (docs/evidence.md, "stopped early")
    stop_ratio: float = 1.5  # bench: hopeless is this many times the compiled route's median
    time_limit_s: float = 30.0  # bench: longest answer of a worker beside twice what its samples need; then it hangs
    floor_share: float = 0.95  # bench: impossible below this share of the floor; not 1, since the bandwidth is measured


@dataclass(frozen=True, kw_only=True, slots=True)
class UnifiedLimits:
    """The numbers of the two-round rule for the ``unified/*`` switches. Gains are ratios."""

    min_gain: float = 0.03  # "What is calibrated": at least 3 % over the geometric mean
    max_loss: float = 0.03  # "What is calibrated": no case more than 3 % slower
    tick_us: float = 2.0  # engine-profiles 5.2: a difference below one timer tick is a tie
    rounds: int = 2  # "What is calibrated": two rounds per table
    least_widths: int = 2  # engine-profiles 5.2: a band spans at least two measured widths


LIMITS = Limits()
UNIFIED_LIMITS = UnifiedLimits()
