"""What a model tells of guides: outcomes that helped to find its clusters, so no validation."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple

from fedmerdel.model.describe import Cluster
from fedmerdel.model.rates import Rate
from fedmerdel.model.state import ModelState
from fedmerdel.report.charts import intervals
from fedmerdel.study.codebook import HEAVIEST
from fedmerdel.study.conditions import shown_levels
from fedmerdel.study.guide import no_validation

PULLED = (
    "With a weight below 1 rates are pulled to their mean, the more the smaller it is: rows that "
    "are not sure of their cluster are counted in several."
)


class GuideRates(NamedTuple):
    """How often a level of a guide occurs.

    Attributes
    ----------
    clusters : tuple of Rate
        In each cluster. Of all its counts, and not corrected: the smaller its weight, the more
        they are pulled to their mean by rows counted in the wrong cluster.
    overall : float
        In all rows.
    """

    clusters: tuple[Rate, ...]
    overall: float


def guide_rates(model: ModelState, clusters: Sequence[Cluster]) -> dict[str, GuideRates]:
    """Return the rates of a model's guides by the name of each.

    With more than two levels, they are called as those of outcomes are: ``"stage: II"``.
    """
    book = model.study.codebook
    names = [(v, level) for v in book.variables for level in v.levels]
    found = {}
    for at in shown_levels(book):
        variable, level = names[at]
        if variable.guide is not None:
            name = variable.name if len(variable.levels) == 2 else f"{variable.name}: {level}"
            each = tuple(_rate(cluster, variable.name, level) for cluster in clusters)
            found[name] = GuideRates(each, float(model.profile.overall[at]))
    return found


def _rate(cluster: Cluster, variable: str, level: str) -> Rate:
    [found] = [c for c in cluster.levels if (c.variable, c.level) == (variable, level)]
    if isnan(found.prevalence):
        return Rate(found.prevalence, 0.0, 1.0)
    return Rate(found.prevalence, found.low, found.high)


def guides_note(model: ModelState) -> str | None:
    """Return what must stand beside the rates of guides; None if the model has none."""
    guides = model.study.codebook.guides
    if not guides:
        return None
    pulled = f" {PULLED}" if any(each.guide != HEAVIEST for each in guides) else ""
    return no_validation(guides, dict(model.study.labels)) + pulled


def report_guides(model: ModelState, clusters: Sequence[Cluster]) -> dict[str, Any] | None:
    """Return the part of the page about guides: what to know of them, and a chart of each."""
    note, texts = guides_note(model), [model.name(cluster.number) for cluster in clusters]
    if note is None:
        return None
    sizes, charts = [cluster.rows for cluster in clusters], []
    for name, (each, overall) in guide_rates(model, clusters).items():
        chart = intervals(texts, [r.on_axis for r in each], overall, sizes, each[0].tick)
        charts.append({"name": name, "chart": chart, "overall": overall})
    return {"note": note, "charts": charts}
