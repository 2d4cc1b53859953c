"""Yes/no outcomes as the tests think of them: rows with it, and rows of which it is known."""

from __future__ import annotations

import numpy as np

from fedmerdel.inference.confusion import Confusion

YES_NO = ("no", "yes")
"""The cells of a yes/no outcome."""


def yes_no(positive: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the cells of each cluster: rows without the outcome, and rows with it."""
    return np.stack([observed - positive, np.asarray(positive)], axis=-1)


def drawn_confusion(rng: np.random.Generator, K: int) -> Confusion:
    """That of rows of three kinds a cluster, each kind with shares of its own."""
    shares = rng.dirichlet(np.full(K, 0.3), (K, 3)) * 0.4
    shares[np.arange(K), :, np.arange(K)] += 0.6
    products = np.einsum("kng,knh->kgh", shares, shares) / 3
    return Confusion(shares.mean(axis=1).T, products)
