"""Yes/no outcomes as the tests think of them: rows with it, and rows of which it is known."""

from __future__ import annotations

import numpy as np

YES_NO = ("no", "yes")
"""The cells of a yes/no outcome."""


def yes_no(positive: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the cells of each cluster: rows without the outcome, and rows with it."""
    return np.stack([observed - positive, np.asarray(positive)], axis=-1)


def positive(cells: np.ndarray) -> np.ndarray:
    return cells[..., 1]


def observed(cells: np.ndarray) -> np.ndarray:
    return cells.sum(axis=-1)
