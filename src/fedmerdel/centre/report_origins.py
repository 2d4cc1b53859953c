"""What the report shows of where the clusters come from, and how sure they are."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from fedmerdel.centre.origins import Join, elbo_course, joins, leave_out, rows_from
from fedmerdel.model.certainty import SURE, Certainty
from fedmerdel.model.describe import Cluster
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.report.charts import Node, histogram, line, ribbons


def origins(model: GlobalModel, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
    """Return where the local clusters went: a diagram, and each merge with its gain."""
    lineage = model.lineage
    texts = [f"{a.site}: {a.local_cluster}" for a in lineage]
    by_site, flow = rows_from(model)
    blocks = zip(model.sites if by_site else texts, flow.sum(axis=1), strict=True)
    left = [Node(text, float(rows)) for text, rows in blocks]
    right = [Node(model.name(c.number), c.rows, c.number) for c in clusters]
    found = joins(model)
    trace = None
    if found:
        numbers, bounds = elbo_course(model, found)
        trace = line(bounds, numbers, ("merges", "ELBO in nats"))
    return {
        "diagram": ribbons(
            left,
            right,
            flow,
            f"{'Sites' if by_site else 'Local clusters'} on the left, common clusters on the right",
        ),
        "by_site": by_site,
        "local": len(lineage),
        "trace": trace,
        "joins": [_join(model, join, texts) for join in found],
        "weakest": _weakest(model, found),
    }


def _join(model: GlobalModel, join: Join, texts: list[str]) -> dict[str, Any]:
    return {
        "number": join.cluster,
        "name": model.name(join.cluster),
        "first": _listed([texts[i] for i in join.first]),
        "second": _listed([texts[i] for i in join.second]),
        "gain": join.gain,
    }


def _listed(texts: list[str], most: int = 4) -> str:
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _weakest(model: GlobalModel, found: list[Join]) -> list[dict[str, Any]]:
    """Return, for each cluster, how many local clusters it has and its weakest merge."""
    lines = []
    for k, group in enumerate(model.groups):
        gains = [join.gain for join in found if join.cluster == k]
        lines.append(
            {
                "number": k,
                "name": model.name(k),
                "local": len(group),
                "total": sum(gains),
                "weakest": min(gains) if gains else float("nan"),
            }
        )
    return lines


def course(model: GlobalModel) -> dict[str, Any] | None:
    """Return what the exchanges have brought, if there were any."""
    if not model.record:
        return None
    numbers, bounds = elbo_course(model, [])
    chart = line(bounds, numbers, ("exchange", "ELBO in nats")) if len(bounds) > 1 else None
    return {"chart": chart, "steps": model.record, "stale": ", ".join(model.record[-1].stale)}


def certainty(model: GlobalModel, sure: Certainty, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
    """Return how sure rows are expected to be, and what each cluster is taken for."""
    lines = []
    for cluster in clusters:
        k = cluster.number
        others = sure.given[k].copy()
        others[k] = -1.0
        to = int(others.argmax())
        lines.append(
            {
                "number": k,
                "name": model.name(k),
                "sure": float(sure.sure_of[k]),
                "kept": float(sure.given[k, k]),
                "to": model.name(to) if others[to] > 0 else "",
                "to_number": to,
                "share": max(float(others[to]), 0.0),
            }
        )
    chart = histogram(sure.histogram.tolist(), "probability of the row's cluster")
    return {"sure": sure.sure, "level": SURE, "lines": lines, "chart": chart}


def left_out(model: GlobalModel) -> dict[str, Any] | None:
    """Return how alike the clusters are without each site, where that can be told."""
    found = leave_out(model)
    if not found:
        return None
    lines = []
    for k in range(model.n_clusters):
        alike = {each.site: float(each.likeness[k]) for each in found}
        alone = [site for site, value in alike.items() if value != value]
        known = {site: value for site, value in alike.items() if value == value}
        worst = min(known, key=lambda site: known[site])
        lines.append(
            {
                "number": k,
                "name": model.name(k),
                # Without its only site it is gone: how alike it stays elsewhere says little.
                "mean": nan if alone else float(np.mean(list(known.values()))),
                "least": nan if alone else known[worst],
                "site": f"only at {alone[0]}" if alone else worst if known[worst] < 1 else "–",
            }
        )
    without = [{"site": each.site, "n_clusters": each.n_clusters} for each in found]
    return {"sites": without, "clusters": lines}
