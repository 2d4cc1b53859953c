"""What a model tells of guides: outcomes that helped to find its clusters, so no validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedmerdel.inference.confusion import make_up
from fedmerdel.inference.corrected import effective_rows
from fedmerdel.inference.guided import GuidedRates, confusions, guided_rates
from fedmerdel.model.describe import Cluster
from fedmerdel.model.intervals import count_errors
from fedmerdel.model.rates import Rate, rate
from fedmerdel.model.state import ModelState
from fedmerdel.report.charts import intervals
from fedmerdel.study.conditions import shown_levels
from fedmerdel.study.guide import no_validation
from fedmerdel.sums.expectations import expectations


class GuideRates(NamedTuple):
    """How often a level of a guide occurs.

    Attributes
    ----------
    clusters : tuple of Rate
        In each cluster, corrected for rows that are counted in the wrong one.
    overall : float
        In all rows.
    """

    clusters: tuple[Rate, ...]
    overall: float


def guide_rates(model: ModelState) -> dict[str, GuideRates]:
    """Return the rates of a model's guides by the name of each.

    With more than two levels, they are called as those of outcomes are: ``"stage: II"``.
    """
    book, sums = model.study.codebook, model.sums
    if not book.guides:
        return {}
    made, theta = make_up(sums, model.prior, 1), expectations(sums, model.row_prior)
    changed = count_errors(sums, model.study.policy, model.n_released)
    variance = np.zeros_like(sums.S) if changed is None else changed.S
    shown, found = shown_levels(book), {}
    for variable, start in zip(book.variables, book.level_offsets[:-1].tolist(), strict=True):
        if variable.guide is None:
            continue
        own = slice(start, start + len(variable.levels))
        rates = guided_rates(confusions(made, theta, own), sums.S[:, own], variance[:, own])
        for at, level in enumerate(variable.levels):
            if start + at in shown:
                name = variable.name if len(variable.levels) == 2 else f"{variable.name}: {level}"
                overall = float(model.profile.overall[start + at])
                found[name] = GuideRates(_rates(rates, at), overall)
    return found


def _rates(found: GuidedRates, at: int) -> tuple[Rate, ...]:
    share = found.share[:, at]
    sure = effective_rows(share, found.variance[:, at], found.rows)
    return tuple(rate(*each) for each in zip(share.tolist(), sure.tolist(), strict=True))


def guides_note(model: ModelState) -> str | None:
    """Return what must stand beside the rates of guides; None if the model has none."""
    guides = model.study.codebook.guides
    return no_validation(guides, dict(model.study.labels)) if guides else None


def report_guides(model: ModelState, clusters: Sequence[Cluster]) -> dict[str, Any] | None:
    """Return the part of the page about guides: what to know of them, and a chart of each."""
    note, texts = guides_note(model), [model.name(cluster.number) for cluster in clusters]
    if note is None:
        return None
    sizes, charts = [cluster.rows for cluster in clusters], []
    for name, (each, overall) in guide_rates(model).items():
        places, first = [rate.on_axis for rate in each], each[0]
        chart = intervals(texts, places, overall, sizes, first.tick, first.said)
        charts.append({"name": name, "chart": chart, "overall": overall, "rates": each})
    return {"note": note, "charts": charts}
