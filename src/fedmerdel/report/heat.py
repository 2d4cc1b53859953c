"""What the heatmap's script reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.study.codebook import Codebook
from fedmerdel.study.conditions import level_texts, shown_levels
from fedmerdel.sums.profile import Profile


def heat_data(
    codebook: Codebook,
    labels: dict[str, str],
    found: Profile,
    clusters: list[dict[str, Any]],
    orders: dict[str, list[int]] | None = None,
) -> dict[str, Any]:
    """Return the data of the heatmap of clusters by levels.

    Parameters
    ----------
    codebook : Codebook
        Variables and levels.
    labels : dict of str to str
        What people call variables.
    found : Profile
        The numbers behind the colours.
    clusters : list of dict
        Of each cluster: number, name, rows.
    orders : dict of str to list of int, optional
        Orders of the clusters to choose from beside size and likeness.
    """
    shown, offsets = shown_levels(codebook), codebook.level_offsets
    variable = np.searchsorted(offsets, shown, side="right") - 1
    texts, told = level_texts(codebook, labels), found.information(offsets)
    columns = [
        {
            "label": texts[at],
            "variable": codebook.names[j],
            "overall": _short(found.overall[at]),
            "information": _short(told[j]),
        }
        for at, j in zip(shown, variable.tolist(), strict=True)
    ]
    measures = {
        "prevalence": found.prevalence,
        "ratio": found.ratio,
        "exclusivity": found.exclusivity,
    }
    return {
        "clusters": clusters,
        "columns": columns,
        "unmeasured": bool((~found.measured[:, shown]).any()),
        "measures": {
            name: [[_short(x) for x in row] for row in table[:, shown]]
            for name, table in measures.items()
        },
        "orders": {
            "size": np.argsort(-found.weights, kind="stable").tolist(),
            "alike": found.alike().tolist(),
            **(orders or {}),
        },
    }


def _short(value: float) -> float | None:
    """Return a number with six digits: more than any cell shows, and half the page.

    None where nothing was measured: JSON has no nan.
    """
    return None if np.isnan(value) else float(f"{value:.6g}")
