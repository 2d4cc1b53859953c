"""What the report shows of clusters: cards, outcomes, sites, images."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.model.describe import Cluster
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.outcomes import rates_at_sites, rates_of_all
from fedmerdel.model.pixels import cluster_images
from fedmerdel.report.charts import intervals
from fedmerdel.report.picture import picture
from fedmerdel.study.conditions import level_texts, shown_levels
from fedmerdel.sums.profile import weight_intervals

N_MARKS = 8
"""Levels that a card names at most."""

FREQUENT = 0.05
"""A level is named on a card if so great a share of the cluster has it."""

N_DRAWN = 5
"""Images that each cluster makes up."""


def cards(model: GlobalModel, clusters: tuple[Cluster, ...]) -> list[dict[str, Any]]:
    """Return the card of each cluster: size, what it has more of, outcomes, sites."""
    shares = weight_intervals(model.statistics, model.prior)
    texts = _shown_texts(model)
    at_sites, overall = rates_at_sites(model), rates_of_all(model)
    found = []
    for cluster in clusters:
        k = cluster.number
        marks = [
            {"text": texts[c.variable, c.level], "prevalence": c.prevalence, "ratio": c.ratio}
            for c in cluster.conditions
            if (c.variable, c.level) in texts and c.prevalence > FREQUENT and c.ratio > 1
        ]
        found.append(
            {
                "number": k,
                "name": model.name(k),
                "rows": cluster.rows,
                "share": cluster.share,
                "low": shares[k, 0],
                "high": shares[k, 1],
                "mean_conditions": cluster.mean_conditions,
                "marks": marks[:N_MARKS],
                "outcomes": [
                    {"name": name, "rate": rate, "overall": overall[name]}
                    for name, rate in cluster.outcomes.items()
                ],
                "sites": [
                    {
                        "site": site,
                        "share": cluster.sites[site],
                        "rows": model.site_rows[b, k],
                        "rates": [at_sites[name][b][k] for name in model.study.outcomes],
                    }
                    for b, site in enumerate(model.sites)
                ],
            }
        )
    return found


def _shown_texts(model: GlobalModel) -> dict[tuple[str, str], str]:
    """Return what a picture calls the levels that it shows, by variable and level."""
    codebook = model.study.codebook
    names = [(v.name, level) for v in codebook.variables for level in v.levels]
    texts = level_texts(codebook, dict(model.study.labels))
    return {names[at]: texts[at] for at in shown_levels(codebook)}


def outcomes(model: GlobalModel, clusters: tuple[Cluster, ...]) -> list[dict[str, Any]]:
    """Return a chart of each outcome: its rate in every cluster."""
    texts = [model.name(cluster.number) for cluster in clusters]
    found = []
    for name, overall in rates_of_all(model).items():
        each = [cluster.outcomes[name] for cluster in clusters]
        chart = intervals(texts, [(r.share, r.low, r.high) for r in each], overall.share)
        found.append({"name": name, "chart": chart, "overall": overall})
    return found


def sites(model: GlobalModel) -> dict[str, Any]:
    """Return the share of each site's rows in each cluster, and where it stands out."""
    rows = model.site_rows
    shares = rows / rows.sum(axis=1, keepdims=True)
    elsewhere = rows.sum(axis=0) - rows
    others = elsewhere / np.maximum(elsewhere.sum(axis=1, keepdims=True), 1.0)
    stands_out = (shares >= 2 * others) & (shares > 0.01) & (len(rows) > 1)
    return {
        "names": [model.name(k) for k in range(model.n_clusters)],
        "lines": [
            {
                "site": site,
                "rows": float(rows[b].sum()),
                "cells": list(zip(shares[b].tolist(), stands_out[b].tolist(), strict=True)),
            }
            for b, site in enumerate(model.sites)
        ],
        "overall": (rows.sum(axis=0) / rows.sum()).tolist(),
        "most": float(shares.max()),
        "present": [int((rows[:, k] > 0).sum()) for k in range(model.n_clusters)],
    }


def images(model: GlobalModel, shape: tuple[int, int] | None) -> list[dict[str, Any]]:
    """Return the mean image of each cluster and some drawn from it."""
    if shape is None:
        return []
    pages = []
    for k, (mean, *drawn) in enumerate(cluster_images(model, shape, N_DRAWN)):
        shown = [picture(image) for image in drawn]
        pages.append({"number": k, "name": model.name(k), "mean": picture(mean), "drawn": shown})
    return pages
