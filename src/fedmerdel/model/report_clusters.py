"""What the report shows of clusters: cards, outcomes, covariates, images."""

from __future__ import annotations

from typing import Any

from fedmerdel.model.describe import Cluster
from fedmerdel.model.membership import Effect, Term
from fedmerdel.model.pixels import cluster_images
from fedmerdel.model.rates import UNEXPLAINED
from fedmerdel.model.state import ModelState
from fedmerdel.report.charts import intervals
from fedmerdel.report.picture import picture
from fedmerdel.study.conditions import level_texts, shown_levels

N_MARKS = 8
"""Levels that a card names at most."""

FREQUENT = 0.05
"""A level is named on a card if so great a share of the cluster has it."""

N_NOT_MEASURED = 12
"""Variables that a card names at most which were not measured."""

N_DRAWN = 5
"""Images that each cluster makes up."""


def cards(model: ModelState, clusters: tuple[Cluster, ...]) -> list[dict[str, Any]]:
    """Return the card of each cluster: size, what it has more of, outcomes.

    Of sites it has nothing yet: the centre's report adds them.
    """
    texts = _shown_texts(model)
    found = []
    for cluster in clusters:
        k = cluster.number
        marks = [
            {
                "text": texts[c.variable, c.level],
                "prevalence": c.prevalence,
                "low": c.low,
                "high": c.high,
                "ratio": c.ratio,
            }
            for c in cluster.levels
            if (c.variable, c.level) in texts
            and c.prevalence > FREQUENT
            and c.ratio > 1
            and not c.guide
        ]
        found.append(
            {
                "number": k,
                "name": model.name(k),
                "rows": cluster.rows,
                "share": cluster.share,
                "low": cluster.low,
                "high": cluster.high,
                "mean_conditions": cluster.mean_conditions,
                "marks": marks[:N_MARKS],
                "not_measured": _listed([model.study.label(v) for v in cluster.not_measured]),
                "outcomes": [
                    {"name": name, "rate": rate, "overall": model.outcomes[name].overall}
                    for name, rate in cluster.outcomes.items()
                ],
                "sites": [],
            }
        )
    return found


def _listed(texts: list[str]) -> str:
    rest = len(texts) - N_NOT_MEASURED
    return ", ".join(texts[:N_NOT_MEASURED]) + (f" and {rest} more" if rest > 0 else "")


def _shown_texts(model: ModelState) -> dict[tuple[str, str], str]:
    """Return what a picture calls the levels that it shows, by variable and level."""
    codebook = model.study.codebook
    names = [(v.name, level) for v in codebook.variables for level in v.levels]
    texts = level_texts(codebook, dict(model.study.labels))
    return {names[at]: texts[at] for at in shown_levels(codebook)}


def outcomes(model: ModelState, clusters: tuple[Cluster, ...]) -> list[dict[str, Any]]:
    """Return a chart of each outcome: its rate in every cluster."""
    texts = [model.name(cluster.number) for cluster in clusters]
    found = []
    for name, rates in model.outcomes.items():
        each, overall = rates.clusters, rates.overall
        sizes = [cluster.rows for cluster in clusters]
        places = [rate.on_axis for rate in each]
        ends = overall.tick, overall.said
        chart = intervals(texts, places, overall.on_axis[0], sizes, *ends)
        strata = [variable.name for variable in model.study.measures[name].strata]
        found.append({"name": name, "chart": chart, "overall": overall, "strata": strata})
        found[-1]["unexplained"] = UNEXPLAINED if name in model.unexplained else ""
    return found


def covariates(model: ModelState) -> dict[str, Any] | None:
    """Return the odds ratios of each covariate's levels, cluster by cluster, and its test."""
    found = model.membership
    if found is None:
        return None
    by_term: dict[Term, list[Effect]] = {term: [] for term in found.terms}
    for effect in found.effects():
        by_term[Term(effect.covariate, effect.level, effect.against)].append(effect)
    return {
        "reference": {"number": 0, "name": model.name(0)},
        "clusters": [{"number": k, "name": model.name(k)} for k in range(1, model.n_clusters)],
        "lines": [{"term": term, "effects": effects} for term, effects in by_term.items()],
        "tests": found.tests(),
    }


def images(model: ModelState, shape: tuple[int, int] | None) -> list[dict[str, Any]]:
    """Return the mean image of each cluster and some drawn from it."""
    if shape is None:
        return []
    pages = []
    for k, (mean, *drawn) in enumerate(cluster_images(model, shape, N_DRAWN)):
        shown = [picture(image) for image in drawn]
        pages.append({"number": k, "name": model.name(k), "mean": picture(mean), "drawn": shown})
    return pages
