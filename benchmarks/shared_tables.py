"""The real tables beside the project with rows held out, and a wide sparse one by simulation."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.real_tables import TABLES as BY_SITE

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data"))
HELD_OUT = 0.2
MOST_LEVELS = 31
"""Columns with more distinct values are cut into quarters, or left out where they are texts."""

Split = tuple[Any, Any]


def split(table: Any, seed: int) -> Split:
    """Hold out a fifth of the rows: of columns that vary, and of levels that the others have."""
    out = np.random.default_rng(seed).random(len(table)) < HELD_OUT
    kept, held = table[~out], table[out]
    if isinstance(table, pd.DataFrame):
        kept = kept[[name for name in kept if kept[name].nunique() > 1]]
        held = held[kept.columns]
        known = [held[name].isin(kept[name]) | held[name].isna() for name in kept]
        return kept, held[np.logical_and.reduce(known)]
    varies = kept.min(axis=0) != kept.max(axis=0)
    return kept[:, varies], held[:, varies]


def density(name: str, part: str) -> NDArray[np.uint8]:
    """Return the train, valid or test rows of a density set."""
    packed = np.load(FOLDER / "debd" / f"{name}.npz")
    train, found = (
        np.unpackbits(packed[which], axis=1, count=int(packed["n_cols"]))
        for which in ("train", part)
    )
    return np.asarray(found[:, train.min(axis=0) != train.max(axis=0)])


def wide_sparse(seed: int, n_rows: int = 2500) -> Split:
    """Simulate 1,500 columns, most under 1 %, and a hundred clusters marked by thirty each."""
    rng = np.random.default_rng(seed)
    n_columns, n_clusters = 1500, 100
    base = np.exp(rng.normal(np.log(0.003), 0.8, n_columns)).clip(0.0003, 0.2)
    phi = np.repeat(base[None], n_clusters, axis=0)
    for own in phi:
        own[rng.choice(n_columns, 30, replace=False)] = rng.uniform(0.15, 0.6, 30)
    weights = rng.dirichlet(np.full(n_clusters, 5.0))

    def draw() -> NDArray[np.uint8]:
        labels = rng.choice(n_clusters, n_rows, p=weights)
        return (rng.random((n_rows, n_columns)) < phi[labels]).astype(np.uint8)

    kept, held = draw(), draw()
    varies = kept.min(axis=0) != kept.max(axis=0)
    return kept[:, varies], held[:, varies]


def _csv(path: str, leave: tuple[str, ...] = ()) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        table = pd.read_csv(FOLDER / path, na_values="?")
        columns = {n: _coarse(table[n]) for n in table if str(n).lower() not in leave}
        few = {name: column for name, column in columns.items() if column.nunique() <= MOST_LEVELS}
        return pd.DataFrame(few)

    return load


def _coarse(column: pd.Series[Any]) -> pd.Series[Any]:
    if column.nunique() > MOST_LEVELS and column.dtype.kind in "if":
        return pd.qcut(column, 4, duplicates="drop").astype(str).where(column.notna())
    return column.astype(str).where(column.notna())


def _brfss() -> pd.DataFrame:
    table = pd.read_parquet(FOLDER / "health" / "brfss2015_health_indicators.parquet")
    few = [name for name in table if table[name].nunique() <= MOST_LEVELS]
    return table[few].astype(int)


def _omop() -> NDArray[np.uint8]:
    """People by conditions that at least five of them have."""
    eras = pd.read_csv(FOLDER / "omop" / "CONDITION_ERA.csv.gz").rename(columns=str.lower)
    has = pd.crosstab(eras["person_id"], eras["condition_concept_id"]).to_numpy() > 0
    return np.asarray(has[:, has.sum(axis=0) >= 5].astype(np.uint8))


def _mnist() -> NDArray[np.uint8]:
    packed = np.load(FOLDER / "mnist16_test.npz")
    return np.unpackbits(packed["bits"], axis=1, count=int(packed["n_cols"]))


def _without_sites(name: str) -> Any:
    return BY_SITE[name]()[0]


CLASS = ("class", "target", "type", "animal")
LOAD: dict[str, Callable[[], Any]] = {
    **{name: partial(_without_sites, name) for name in BY_SITE},
    "BRFSS": _brfss,
    "heart": _csv("health/heart_uci_4hospitals.csv.gz"),
    "OMOP": _omop,
    "MNIST, test set": _mnist,
    **{
        f"poLCA {name}": _csv(f"lca/poLCA_{name}.csv.gz")
        for name in ("carcinoma", "cheating", "election", "gss82", "values")
    },
    **{
        name: _csv(f"uci/{name}.csv.gz", CLASS)
        for name in ("dermatology", "mushroom", "soybean", "splice", "vote", "zoo")
    },
}
DENSITY = ("nltcs", "msnbc", "plants", "baudio", "jester", "book")


def held_out(name: str, seed: int) -> Split:
    """Return a table's rows to fit and rows held out; density sets have their own test rows."""
    if name in DENSITY:
        return density(name, "train"), density(name, "test")
    return split(LOAD[name](), seed)
