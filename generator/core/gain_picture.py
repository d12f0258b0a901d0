"""Draw one key's decisions as SVG: gain per width, the worst case, both limits, and the bands chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from generator.core.unified import SCHEDULE, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from generator.core.limits import UnifiedLimits
    from generator.core.sources import Device
    from generator.core.unified import Decision, KeySelection

_LEFT, _TOP, _PLOT_HEIGHT, _BOTTOM, _RIGHT = 64, 92, 260, 84, 24
_STEP = 34
_NARROWEST = 640
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MOST_TICKS = 8

_STYLE = """
svg { --ink: #1f2328; --dim: #59636e; --grid: #d1d9e0; --paper: #ffffff; --band: #dafbe1; --yes: #1a7f37;
      --no: #9a6700; --slow: #cf222e; --none: #818b98; }
@media (prefers-color-scheme: dark) { svg { --ink: #f0f6fc; --dim: #9198a1; --grid: #3d444d; --paper: #0d1117;
      --band: #12361f; --yes: #3fb950; --no: #d29922; --slow: #f85149; --none: #656c76; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.dim { fill: var(--dim); } .title { font-size: 15px; font-weight: 600; }
.paper { fill: var(--paper); } .band { fill: var(--band); }
.grid { stroke: var(--grid); } .axis { stroke: var(--dim); }
.limit { stroke: var(--yes); stroke-dasharray: 6 4; } .loss { stroke: var(--slow); stroke-dasharray: 2 3; }
.whisker { stroke: var(--dim); }
.yes { fill: var(--yes); } .no { fill: var(--paper); stroke: var(--no); stroke-width: 2; } .slow { fill: var(--slow); }
.none { stroke: var(--none); }
"""

_CLASS = {Verdict.QUALIFIES: "yes", Verdict.SLOWER: "slow"}


def draw_gains(device: Device, item: KeySelection, limits: UnifiedLimits) -> str:
    """Return an SVG of one key: light and dark by the viewer's setting, no script, no font of its own.

    Widths stand at equal distances. A dot is the geometric mean of the gains, its whisker ends at the worst case; a
    cross is a width that could not be judged.
    """
    count = max(1, len(item.decisions))
    width = max(_NARROWEST, _LEFT + _STEP * count + _RIGHT)
    step = (width - _LEFT - _RIGHT) / count
    height = _TOP + _PLOT_HEIGHT + _BOTTOM
    low, high = _range(item.decisions, limits)

    def x(place: float) -> str:
        return f"{_LEFT + step * (place + 0.5):.1f}"

    def y(gain: float) -> str:
        return f"{_TOP + _PLOT_HEIGHT * (high - gain) / (high - low):.1f}"

    right = width - _RIGHT
    label = f"{item.key} on {device}: gain per width"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(label)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(item.key)}</text>',
        f'<text class="dim" x="16" y="46">{escape(str(device))}</text>',
        f'<text class="dim" x="16" y="64">{escape(_bands_text(item))}</text>',
    ]
    for first, last in _band_places(item):
        start, end = _LEFT + step * first, _LEFT + step * (last + 1)
        lines.append(
            f'<rect class="band" x="{start:.1f}" y="{_TOP}" width="{end - start:.1f}" height="{_PLOT_HEIGHT}">'
            f"<title>band: widths {item.decisions[first].width} to {item.decisions[last].width}</title></rect>"
        )
    for gain in _ticks(low, high):
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y(gain)}" y2="{y(gain)}"/>')
        lines.append(f'<text class="dim" x="{_LEFT - 8}" y="{y(gain)}" dy="4" text-anchor="end">{gain:.2f}</text>')
    least, worst = 1 + limits.min_gain, 1 / (1 + limits.max_loss)
    lines.append(f'<line class="limit" x1="{_LEFT}" x2="{right}" y1="{y(least)}" y2="{y(least)}"/>')
    lines.append(f'<line class="loss" x1="{_LEFT}" x2="{right}" y1="{y(worst)}" y2="{y(worst)}"/>')
    for place, decision in enumerate(item.decisions):
        lines.extend(_mark(decision, x(place), y, low))
        lines.append(
            f'<text class="dim" x="{x(place)}" y="{_TOP + _PLOT_HEIGHT + 18}" text-anchor="middle">'
            f"{decision.width}</text>"
        )
    lines += _legend(limits, height)
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _mark(decision: Decision, x: str, y: Callable[[float], str], low: float) -> list[str]:
    title = f"<title>width {decision.width}: {escape(decision.verdict.value)}: {escape(decision.reason)}</title>"
    if decision.gain is None or decision.worst_loss is None:
        at = float(y(low)) - 12
        return [_cross(float(x), at, title)]
    worst = y(1 / decision.worst_loss)
    kind = _CLASS.get(decision.verdict, "no")
    return [
        f'<line class="whisker" x1="{x}" x2="{x}" y1="{y(decision.gain)}" y2="{worst}"/>',
        f'<line class="whisker" x1="{float(x) - 4:.1f}" x2="{float(x) + 4:.1f}" y1="{worst}" y2="{worst}"/>',
        _shape(kind, float(x), float(y(decision.gain)), title),
    ]


def _shape(kind: str, x: float, y: float, title: str = "") -> str:
    """Return a mark that needs no colour to be told apart: a disc, a ring, or a square."""
    if kind == "slow":
        return f'<rect class="{kind}" x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10">{title}</rect>'
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5">{title}</circle>'


def _cross(x: float, y: float, title: str = "") -> str:
    left, right, top, low = (f"{value:.1f}" for value in (x - 4, x + 4, y - 4, y + 4))
    return (
        f'<g class="none"><line x1="{left}" x2="{right}" y1="{top}" y2="{low}"/>'
        f'<line x1="{left}" x2="{right}" y1="{low}" y2="{top}"/>{title}</g>'
    )


def _range(decisions: Sequence[Decision], limits: UnifiedLimits) -> tuple[float, float]:
    """Return the lowest and highest gain to show: both limits and every mark, with some air."""
    gains = [item.gain for item in decisions if item.gain is not None]
    worst = [1 / item.worst_loss for item in decisions if item.worst_loss is not None]
    low = min([*worst, *gains, 1 / (1 + limits.max_loss)])
    high = max([*gains, *worst, 1 + limits.min_gain])
    air = 0.08 * max(high - low, 0.05)
    return low - air, high + air


def _ticks(low: float, high: float) -> list[float]:
    step = next(size for size in _TICKS if (high - low) / size <= _MOST_TICKS or size == _TICKS[-1])
    first = int(low / step) + 1
    return [place * step for place in range(first, int(high / step) + 1)]


def _band_places(item: KeySelection) -> list[tuple[int, int]]:
    """Return the first and last place on the axis of every unified band."""
    result: list[tuple[int, int]] = []
    start = 1
    for band in item.bands or ():
        inside = [n for n, decision in enumerate(item.decisions) if start <= decision.width <= band.last]
        if band.schedule == SCHEDULE and inside:
            result.append((inside[0], inside[-1]))
        start = band.last + 1
    return result


def _bands_text(item: KeySelection) -> str:
    if item.bands is None:
        return "not decided: " + (item.decisions[0].reason if item.decisions else "nothing measured")
    if not item.bands:
        return "compiled at every width"
    return "bands " + ", ".join(f"to {band.last} {band.schedule or 'compiled'}" for band in item.bands)


def _legend(limits: UnifiedLimits, height: int) -> list[str]:
    top, low = height - 44, height - 20
    return [
        f'<text class="dim" x="16" y="{_TOP - 10}">gain: legacy time / unified time; whisker: the worst case</text>',
        f'{_shape("yes", 22, top - 4)}<text x="34" y="{top}">qualifies</text>',
        f'{_shape("no", 112, top - 4)}<text x="124" y="{top}">gain too small, tie, or alone</text>',
        f'{_shape("slow", 302, top - 4)}<text x="314" y="{top}">a case is slower</text>',
        f'<rect class="band" x="432" y="{top - 11}" width="18" height="14"/>',
        f'<text x="456" y="{top}">unified band</text>',
        f'<line class="limit" x1="16" x2="44" y1="{low - 4}" y2="{low - 4}"/>',
        f'<text x="52" y="{low}">least gain, {1 + limits.min_gain:g}</text>',
        f'<line class="loss" x1="196" x2="224" y1="{low - 4}" y2="{low - 4}"/>',
        f'<text x="232" y="{low}">slowest case allowed, {1 + limits.max_loss:g} times</text>',
        _cross(442, low - 4),
        f'<text x="456" y="{low}">could not be judged</text>',
    ]
