"""Numbers that the words of the findings name, from the rows of the experiments."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kruskal

from experiments.figures import Figure, missed, verdict
from experiments.studies.mnist import TEST
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
    median = twins[twins.alike == 1].groupby("method").ari.median()
    return {
        "without moves": f"{ends.min():.0f} to {ends.max():.0f}",
        "twins": f"{median['random']:.3f}",
        "twins best": f"{median['best']:.3f}",
    }


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
    }


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
        "digits test": (TEST,),
    }.items():
        chosen = rows.method.isin(methods)
        clusters = rows[chosen].n_clusters.astype(int)
        told[name] = _from_to(clusters)
        told[f"{name} rate"] = _from_to(rates[chosen], 2)
    test = rows[rows.method == TEST]
    accepted = int(test.accepted.sum()), int(test.proposed.sum())
    return {**told, "digits moves": "{} of {}".format(*accepted)}


def _selection(rows: pd.DataFrame) -> dict[str, str]:
    small = rows[rows["rows"] == 20_000].groupby("method").ari.median()
    large = rows[rows["rows"] == 50_000].groupby("method").ari.median()
    names = ("best", "full", "greedy", "weighted", "thirty", "exact")
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


def _from_to(numbers: pd.Series, digits: int = 0) -> str:
    low, high = (f"{value:.{digits}f}" for value in (np.min(numbers), np.max(numbers)))
    return low if low == high else f"{low} to {high}"
