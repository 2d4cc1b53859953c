"""Colours that colour-blind people can tell apart, and that print."""

from __future__ import annotations

SHARE_STOPS = ("#ffffff", "#d6e6f4", "#abcfe6", "#6aaed6", "#3787c0", "#105ba4", "#08306b")
"""From none to all: one hue, from light to dark."""

RATIO_STOPS = ("#7f3b08", "#e08214", "#fee0b6", "#ffffff", "#d8daeb", "#8073ac", "#2d004b")
"""From rarer to more frequent than expected: orange and purple, which no common colour
blindness confuses; white in the middle."""

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
"""For lines and groups (Okabe and Ito)."""

DARK = 0.179
"""Colours of less relative luminance (WCAG) get white text, others black: at least 4.58 to 1."""


def between(stops: tuple[str, ...], at: float) -> str:
    """Return the colour at a place from 0 to 1 along some stops."""
    place = min(max(at, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    part = place - first
    mixed = [
        round(a + (b - a) * part)
        for a, b in zip(_channels(stops[first]), _channels(stops[first + 1]), strict=True)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def share_colour(share: float, most: float = 1.0) -> str:
    """Return the colour of a share of at most so much."""
    return between(SHARE_STOPS, share / most if most > 0 else 0.0)


def on(colour: str) -> str:
    """Return the colour of text on this one."""
    red, green, blue = (_linear(channel / 255) for channel in _channels(colour))
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < DARK else "#000000"


def _linear(channel: float) -> float:
    return float(channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
