"""How light colours are, also for people who see other colours than most."""

from __future__ import annotations

import numpy as np

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB; and no colour at all.
SEEN = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
    "achromatopsia": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    x = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def luminance(colour: str, way: str = "all colours") -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ (SEEN[way] @ linear(colour)).clip(0, 1))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
