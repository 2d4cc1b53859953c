"""A small study and tables of its sites, with columns that no study names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedmerdel import Study
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import policy_named
from fedmerdel.study.promise import Promise

NAMES = ("a", "b", "c", "d")
LEVELS = (("0", "1"), ("false", "true"), ("low", "mid", "high"), ("0", "1"))
KINDS: tuple[Any, ...] = ("integer", "boolean", "text", "integer")
CODEBOOK = Codebook(tuple(Variable(*v) for v in zip(NAMES, LEVELS, KINDS, strict=True)))
N_LEVELS = np.array([2, 2, 3, 2])
EXACT = policy_named("none")
TRUSTING = Promise(trusts_centre=True)


def study(**options: Any) -> Study:
    fields = {"max_clusters": 5, "policy": EXACT, "rounds": 50, "promise": TRUSTING, **options}
    return Study("s", CODEBOOK, **fields)


def level_numbers(n_rows: int, seed: int, rare: float = 0.2, missing: float = 0.1) -> np.ndarray:
    """Two kinds of rows, with entries off their kind, and missing ones (-1)."""
    rng = np.random.default_rng(seed)
    kind = rng.random(n_rows) < 0.4
    X = np.where(kind[:, None], N_LEVELS - 1, 0)
    off = np.column_stack([rng.integers(0, n, n_rows) for n in N_LEVELS])
    X = np.where(rng.random(X.shape) < rare, off, X)
    X[rng.random(X.shape) < missing] = -1
    return X


def frame_of(X: np.ndarray, seed: int = 0) -> pd.DataFrame:
    """The rows as a hospital has them, with what no study names, and an outcome."""
    rng = np.random.default_rng(seed)
    dtypes = ("Int64", "boolean", "str", "Int64")
    columns: dict[str, Any] = {}
    for j, (variable, dtype) in enumerate(zip(CODEBOOK.variables, dtypes, strict=True)):
        known = [*variable.values, None]
        columns[variable.name] = pd.array([known[at] for at in X[:, j]], dtype=dtype)
    died = [[0, 1, None][at] for at in rng.choice(3, len(X), p=[0.8, 0.1, 0.1])]
    columns["died"] = pd.array(died, dtype="Int64")
    columns["born"] = pd.Timestamp("1960-01-01") + pd.to_timedelta(np.arange(len(X)), "D")
    columns["bmi"] = rng.normal(27, 4, len(X))
    columns["note"] = [f"SECRET {n}" for n in range(len(X))]
    return pd.DataFrame(columns)
