"""Numbers that the words of the findings name, from the rows of the experiments."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kruskal

from experiments.figures import Figure, missed, verdict
from experiments.published import MNIST
from experiments.studies.mnist import TEST
from experiments.studies.variants import FIRST
from experiments.tables import by

Results = dict[str, pd.DataFrame]


def values(results: Results, several: list[Figure]) -> dict[str, str]:
    """Return each number by the name that stands for it in ``findings.md``."""
    same = [verdict(f.ours, f) for f in several]
    own = [verdict(f.default, f) for f in several]
    return {
        "figures": str(len(several)),
        "reached": str(same.count("reached")),
        "best": str(same.count("best possible")),
        "missed": str(len(missed(several))),
        "default reached": str(own.count("reached")),
        "default best": str(own.count("best possible")),
        **_clusters(results),
        **_merges(results),
        **_batches(results["batches"]),
        **_digits(results["mnist"]),
        **_selection(results["selection"]),
        **_removed(results["removed-clusters"]),
    }


def _clusters(results: Results) -> dict[str, str]:
    """Say how many clusters fits without moves end with, and how well twins are told apart."""
    rows = results["frequency"]
    none = rows[rows.laps.astype(str) == "10000"]
    ends = none.groupby("simulation").n_clusters.mean()
    twins = results["separable"]
    alike = twins[twins.alike == 1].groupby("method")
    told = {
        "without moves": f"{ends.min():.0f} to {ends.max():.0f}",
        "twins best": f"{alike.ari.median()['best']:.3f}",
    }
    for first in FIRST:
        method = f"local, {first} at first"
        lost, fits = (int(alike[column].sum()[method]) for column in ("twins", "fits"))
        told |= {
            f"twins {first}": f"{alike.ari.median()[method]:.3f}",
            f"twins lost {first}": f"{lost} of {fits}",
        }
    return told


def _merges(results: Results) -> dict[str, str]:
    rows = results["global-merge"]
    spread = rows[(rows.n_rows == 50_000) & (rows.method == "random")]
    deviations = spread.groupby(["n_batches", "dataset"]).ari.std()
    seconds = rows[rows.method == "random"].groupby("n_rows").merge_seconds.mean()
    uneven = results["global-merge-uneven"].groupby("method").ari.median()
    even = rows.groupby("method").ari.median()
    return {
        "spread": f"{deviations.min():.4f} to {deviations.max():.4f}",
        "merge 20,000": f"{seconds[20_000]:.2f}",
        "merge 500,000": f"{seconds[500_000]:.2f}",
        "even best": f"{even['best']:.3f}",
        "uneven best": f"{uneven['best']:.3f}",
        "uneven full": f"{uneven['full']:.3f}",
        "uneven random": f"{uneven['random']:.3f}",
        "uneven exact": f"{uneven['exact']:.3f}",
        "even greedy clusters": _from_to(_medians(rows, "greedy")),
        "uneven greedy clusters": _from_to(_medians(results["global-merge-uneven"], "greedy")),
        "uneven random clusters": _from_to(_medians(results["global-merge-uneven"], "random")),
    }


def _medians(rows: pd.DataFrame, method: str) -> pd.Series:
    """Return the median number of clusters of a method in each scenario."""
    part = rows[rows.method == method]
    return part.groupby(["n_rows", "n_batches"]).n_clusters.median()


def _batches(rows: pd.DataFrame) -> dict[str, str]:
    part = rows[rows.method == "random"]
    groups = {
        n: [g.ari.to_numpy() for _, g in by(each, "batches")] for (n,), each in by(part, "n_rows")
    }
    p = [f"{kruskal(*of).pvalue:.2f}" for of in groups.values()]
    lowest = part.groupby(["n_rows", "batches"]).ari.median().min()
    return {"kruskal": " and ".join(p), "batches lowest": f"{lowest:.3f}"}


def _digits(rows: pd.DataFrame) -> dict[str, str]:
    """Say how many clusters there are, and the mean classification rate."""
    rates = rows[[f"rate_{digit}" for digit in range(10)]].mean(axis=1)
    told = {}
    for name, methods in {
        "digits 20": ("FedMerDel_20g", "FedMerDel_20r"),
        "digits 30": ("FedMerDel_30g", "FedMerDel_30r"),
        "digits default": ("exact_20",),
        "digits rounds": ("rounds_20",),
    }.items():
        chosen = rows.method.isin(methods)
        told[name] = _from_to(rows[chosen].n_clusters.astype(int))
        told[f"{name} rate"] = _from_to(rates[chosen], 2)
    del told["digits rounds"]  # as many as before the rounds
    for name, models in {
        "digits 20 paper": ("FedMerDel_rand", "FedMerDel_greedy"),
        "digits 30 paper": ("FedMerDel_30r", "FedMerDel_30g"),
    }.items():
        means = [
            np.mean(per_cent) / 100 for (model, _), per_cent in MNIST.items() if model in models
        ]
        told[name] = _from_to(pd.Series(means), 2)
    test = rows[rows.method == TEST]
    return {
        **told,
        "digits test": _from_to(test.n_clusters.astype(int)),
        "digits moves": f"{int(test.accepted.sum())} of {int(test.proposed.sum())}",
    }


def _selection(rows: pd.DataFrame) -> dict[str, str]:
    small = rows[rows["rows"] == 20_000].groupby("method").ari.median()
    large = rows[rows["rows"] == 50_000].groupby("method").ari.median()
    names = ("best", "greedy", "weighted", "thirty")
    return {
        **{f"selection {name}": f"{small[name]:.3f}" for name in names},
        "selection 50,000 greedy": f"{large['greedy']:.3f}",
        "selection 50,000 weighted": f"{large['weighted']:.3f}",
    }


def _removed(rows: pd.DataFrame) -> dict[str, str]:
    return {
        "removed typical": f"1e{rows['median'].median():.0f}",
        "removed highest": f"1e{rows.highest.max():.0f}",
    }


def _from_to(numbers: pd.Series, digits: int | None = None) -> str:
    """Return the least and the greatest of some numbers; as they are, or with so many digits."""
    form = "g" if digits is None else f".{digits}f"
    low, high = (f"{value:{form}}" for value in (np.min(numbers), np.max(numbers)))
    return low if low == high else f"{low} to {high}"
