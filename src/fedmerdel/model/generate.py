"""Rows that the model makes up: drawn from its clusters, nobody's."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import OptionError
from fedmerdel.model.state import ModelState
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.predictive import draw


def sample(
    model: ModelState, n_rows: int, random_state: int | None = None
) -> tuple[NDArray[Any], IntArray]:
    """Draw rows from the global clusters.

    Parameters
    ----------
    model : ModelState
        The clusters.
    n_rows : int
        Rows to draw.
    random_state : int or None
        A number gives the same rows every time.

    Returns
    -------
    X : object array (n_rows, P)
        Values of the codebook; None where missing is a level and was drawn.
    clusters : int64 array (n_rows,)
        The cluster of each.

    Raises
    ------
    OptionError
        If `n_rows` is no whole number, or negative.
    """
    if not isinstance(n_rows, Integral) or isinstance(n_rows, bool) or n_rows < 0:
        raise OptionError("n_rows: give a whole number of at least 0")
    rng = np.random.default_rng(random_state)
    levels, clusters = draw(model.sums, model.prior, n_rows, rng)
    X = np.empty(levels.shape, dtype=object)
    for j, variable in enumerate(model.study.codebook.variables):
        X[:, j] = np.array([*variable.values, None], dtype=object)[levels[:, j]]
    return X, clusters
