"""Pictures of the page as SVG: text stays text, and every mark says its number when asked."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from fedmerdel.report.axis import axis_end
from fedmerdel.report.colours import CYCLE

FloatArray = NDArray[np.float64]
INK, FAINT, BLUE, MARK = "#1a1a1a", "#c9d1d9", CYCLE[0], "#d55e00"


class Node(NamedTuple):
    """A block of `ribbons`: its text, its size, and the cluster that it belongs to, if any."""

    text: str
    size: float
    cluster: int | None = None


def ribbons(
    left: list[Node], right: list[Node], flow: FloatArray, label: str, wide: int = 900
) -> Markup:
    """Return a Sankey diagram: what of each block on the left is in each on the right.

    Parameters
    ----------
    left, right : list of Node
        Blocks from top to bottom.
    flow : float array (left, right)
        Rows.
    label : str
        What it shows.
    wide : int
        Width in pixels.
    """
    total = max(*(sum(node.size for node in nodes) for nodes in (left, right)), 1e-12)
    gap = 2.0
    n_blocks = max(len(left), len(right))
    high = min(max(360.0, 16.0 * n_blocks), 400.0 + 6.0 * n_blocks)
    scale = (high - gap * (n_blocks - 1)) / total
    edge, block = 230.0, 12.0
    tops = [_tops(nodes, scale, gap, high) for nodes in (left, right)]
    parts = []
    used_left, used_right = np.array(tops[0]), np.array(tops[1])
    # Ribbons leave and arrive in the order of the blocks on the other side.
    for r, target in enumerate(right):
        for s, source in enumerate(left):
            rows = float(flow[s, r])
            if rows <= 0:
                continue
            thick = rows * scale
            y0, y1 = used_left[s], used_right[r]
            used_left[s] += thick
            used_right[r] += thick
            x0, x1 = edge + block, wide - edge - block
            middle = (x0 + x1) / 2
            path = (
                f"M{x0:.1f} {y0:.2f}C{middle:.1f} {y0:.2f} {middle:.1f} {y1:.2f} {x1:.1f} {y1:.2f}"
                f"v{thick:.2f}C{middle:.1f} {y1 + thick:.2f} {middle:.1f} {y0 + thick:.2f} "
                f"{x0:.1f} {y0 + thick:.2f}z"
            )
            told = escape(f"{source.text} → {target.text}: {rows:,.0f} rows")
            parts.append(
                f'<path class="ribbon" data-cluster="{target.cluster}" d="{path}">'
                f"<title>{told}</title></path>"
            )
    for nodes, top, x, anchor, shift in (
        (left, tops[0], edge, "end", -6),
        (right, tops[1], wide - edge - block, "start", block + 6),
    ):
        shown = 0.0
        for node, y in zip(nodes, top, strict=True):
            tall = max(node.size * scale, 1.0)
            told = escape(f"{node.text}: {node.size:,.0f} rows")
            own = "" if node.cluster is None else f' data-cluster="{node.cluster}" tabindex="0"'
            name = f' data-name="{node.cluster}"' if node.cluster is not None else ""
            parts.append(
                f'<g class="block"{own}><title>{told}</title>'
                f'<rect x="{x:.1f}" y="{y:.2f}" width="{block}" height="{tall:.2f}"/>'
            )
            middle = y + tall / 2 + 4
            if middle - shown >= 11:  # texts don't overlap
                parts.append(
                    f'<text x="{x + shift:.1f}" y="{middle:.2f}" text-anchor="{anchor}"{name}>'
                    f"{escape(_short(node.text))}</text>"
                )
                shown = middle
            parts.append("</g>")
    # Its blocks can be chosen, so it is no image, whose parts are hidden from screen readers.
    return _svg(wide, high + 8, parts, "ribbons", label, role="group")


def line(
    y: Sequence[float], x: Sequence[float], names: tuple[str, str], marks: Sequence[str] = ()
) -> Markup:
    """Return a line with points: y against x, with what each point says when asked."""
    wide, high, left, bottom = 640.0, 240.0, 110.0, 40.0
    fx, fy = _scaling(x, left, wide - 15), _scaling(y, high - bottom, 15)
    points = [(fx(a), fy(b)) for a, b in zip(x, y, strict=True)]
    joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = [*_axes(wide, high, left, bottom, x, y, names)]
    parts.append(f'<polyline points="{joined}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>')
    if len(points) <= 200:
        for (a, b), value, at in zip(points, y, range(len(points)), strict=False):
            told = marks[at] if marks else f"{value:,.1f}"
            parts.append(
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{BLUE}">'
                f"<title>{escape(told)}</title></circle>"
            )
    return _svg(wide, high, parts, "line", f"{names[1]} against {names[0]}")


def bars(values: Sequence[float], texts: Sequence[str], most: float = 1.0) -> Markup:
    """Return horizontal bars, a line each: text, bar, value in per cent."""
    high, left, wide = 18.0, 230.0, 640.0
    parts = []
    for at, (value, text) in enumerate(zip(values, texts, strict=True)):
        y = at * high
        long = (wide - left - 70) * value / most
        parts.append(
            f'<text x="{left - 8}" y="{y + 13:.0f}" text-anchor="end">{escape(_short(text))}</text>'
            f'<rect x="{left}" y="{y + 3:.0f}" width="{long:.1f}" height="12" fill="{BLUE}">'
            f"<title>{escape(text)}: {100 * value:.1f} %</title></rect>"
            f'<text x="{left + long + 6:.1f}" y="{y + 13:.0f}">{100 * value:.1f} %</text>'
        )
    return _svg(wide, high * len(values) + 4, parts, "bars", "bars")


def histogram(shares: Sequence[float], name: str) -> Markup:
    """Return the share of rows by probability, from 0 to 1 in equal steps."""
    wide, high, left, bottom = 640.0, 200.0, 60.0, 40.0
    most = max(*shares, 1e-12)
    step = (wide - left - 15) / len(shares)
    parts = [*_axes(wide, high, left, bottom, (0.0, 1.0), (0.0, 100 * most), (name, "% of rows"))]
    for at, share in enumerate(shares):
        tall = (high - bottom - 15) * share / most
        parts.append(
            f'<rect x="{left + at * step + 1:.1f}" y="{high - bottom - tall:.1f}" '
            f'width="{step - 2:.1f}" height="{tall:.1f}" fill="{BLUE}"><title>'
            f"{at / len(shares):.2f} to {(at + 1) / len(shares):.2f}: {100 * share:.1f} %"
            "</title></rect>"
        )
    return _svg(wide, high, parts, "histogram", f"rows by {name}")


def compared(
    real: Sequence[float], expected: Sequence[float], ticks: Sequence[str], name: str
) -> Markup:
    """Return bars of shares of real rows, and lines across where the model expects them."""
    wide, high, left, bottom = 640.0, 200.0, 60.0, 40.0
    most, base = max(*real, *expected, 1e-12), high - bottom
    step = (wide - left - 15) / len(real)
    parts = [
        f'<path d="M{left} 15V{base}H{wide - 15}" fill="none" stroke="{FAINT}"/>',
        f'<text class="tick" x="{left - 6}" y="22" text-anchor="end">{100 * most:.3g} %</text>',
        f'<text class="tick" x="{left - 6}" y="{base}" text-anchor="end">0 %</text>',
        f'<text x="{(left + wide - 15) / 2:.0f}" y="{high - 4}" text-anchor="middle">'
        f"{escape(name)}</text>",
    ]
    every = -(-len(real) // 20)
    for at, (share, mean, tick) in enumerate(zip(real, expected, ticks, strict=True)):
        x, tall, line = left + at * step, *((base - 15) * each / most for each in (share, mean))
        told = f"{tick}: {100 * share:.1f} % of rows, {100 * mean:.1f} % expected"
        parts.append(
            f"<g><title>{escape(told)}</title>"
            f'<rect x="{x + 1:.1f}" y="{base - tall:.1f}" width="{step - 2:.1f}" '
            f'height="{tall:.1f}" fill="{BLUE}"/>'
            f'<path d="M{x:.1f} {base - line:.1f}h{step:.1f}" stroke="{MARK}" stroke-width="3"/>'
            "</g>"
        )
        if at % every == 0:
            parts.append(
                f'<text class="tick" x="{x + step / 2:.1f}" y="{base + 14}" text-anchor="middle">'
                f"{escape(tick)}</text>"
            )
    return _svg(wide, high, parts, "compared", f"rows by {name}, and as the model expects them")


def intervals(
    texts: Sequence[str],
    rates: Sequence[tuple[float, float, float]],
    overall: float,
    sizes: Sequence[float],
    tick: Callable[[float], str],
    said: Callable[[float], str],
) -> Markup:
    """Return a point and its interval for each line; a dashed line where all rows together are.

    What is longer than the axis (`axis_end`) is cut there, with an arrow. What people read at
    a place of the axis is what ``tick`` says; where they point at a line, what ``said`` says.
    """
    high, left, wide, foot = 20.0, 230.0, 640.0, 24.0
    most = axis_end(rates, sizes, overall)
    x = _Scaling(0.0, most, left, wide - 70)
    end = high * len(rates)
    parts = [
        f'<path d="M{left} 0V{end}H{wide - 60}" fill="none" stroke="{FAINT}"/>',
        f'<text class="tick" x="{left}" y="{end + 16}">{tick(0.0)}</text>',
        f'<text class="tick" x="{wide - 70}" y="{end + 16}" text-anchor="end">{tick(most)}</text>',
    ]
    if overall == overall:
        parts.append(
            f'<path d="M{x(overall):.1f} 0V{end}" stroke="{INK}" stroke-dasharray="3 3">'
            f"<title>all rows: {said(overall)}</title></path>"
        )
    for at, (text, (share, low, upper)) in enumerate(zip(texts, rates, strict=True)):
        y = at * high + high / 2
        known = said(share) if share == share else "not known"
        told = f"{text}: {known} ({said(low)} to {said(upper)})"
        parts.append(
            f'<g data-cluster="{at}"><title>{escape(told)}</title>'
            f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end" data-name="{at}">'
            f"{escape(_short(text))}</text>"
            f'<path d="M{x(min(low, most)):.1f} {y}H{x(min(upper, most)):.1f}" stroke="{BLUE}" '
            'stroke-width="2"/>'
        )
        if upper > most:
            parts.append(f'<path class="cut" d="M{x(most):.1f} {y - 4}v8l7 -4z" fill="{BLUE}"/>')
        if share <= most:  # not so if it is not known
            parts.append(f'<circle cx="{x(share):.1f}" cy="{y}" r="4" fill="{BLUE}"/>')
        parts.append("</g>")
    return _svg(wide, end + foot, parts, "intervals", "rates with 95 % intervals")


def _tops(nodes: list[Node], scale: float, gap: float, high: float) -> list[float]:
    """Return where each block begins; the shorter side stands in the middle."""
    sizes = [node.size * scale for node in nodes]
    at = (high - sum(sizes) - gap * (len(nodes) - 1)) / 2
    tops = []
    for size in sizes:
        tops.append(at)
        at += size + gap
    return tops


class _Scaling(NamedTuple):
    low: float
    span: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / self.span * (self.end - self.start)


def _scaling(values: Sequence[float], start: float, end: float) -> _Scaling:
    low, high = min(values), max(values)
    return _Scaling(low, (high - low) or 1.0, start, end)


def _axes(
    wide: float, high: float, left: float, bottom: float,
    x: Sequence[float], y: Sequence[float], names: tuple[str, str],
) -> list[str]:  # fmt: skip
    base = high - bottom
    parts = [
        f'<path d="M{left} 10V{base}H{wide - 10}" fill="none" stroke="{FAINT}"/>',
        f'<text x="{(left + wide) / 2:.0f}" y="{high - 6}" text-anchor="middle">'
        f"{escape(names[0])}</text>",
        f'<text x="{left + 6}" y="14">{escape(names[1])}</text>',
    ]
    for value, place, anchor in ((min(x), left, "start"), (max(x), wide - 15, "end")):
        parts.append(
            f'<text class="tick" x="{place}" y="{base + 15}" text-anchor="{anchor}">'
            f"{_tick(value)}</text>"
        )
    for value, place in ((min(y), base), (max(y), 24)):
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{place}" text-anchor="end">{_tick(value)}</text>'
        )
    return parts


def _svg(
    wide: float, high: float, parts: list[str], kind: str, label: str, role: str = "img"
) -> Markup:
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" role="{role}" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _short(text: str, room: float = 214.0) -> str:
    """Return as much of a text as has room beside a picture, by about how wide letters are."""
    used = 0.0
    for at, letter in enumerate(text):
        used += _width(letter)
        if used > room:
            return text[:at].rstrip() + "…"
    return text


def _width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 13.0
    if letter in "mwMW@%—":
        return 13.5
    if letter in "ijltfI.,:;'|()[] ":
        return 4.5
    return 9.0 if letter.isupper() else 7.5
