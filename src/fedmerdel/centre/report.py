"""The centre's report: the model's page, with what each site has to do with it."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.centre.merge import leave_out
from fedmerdel.centre.missing import missing_at_sites
from fedmerdel.centre.origins import Join, elbo_over_merges, elbo_over_rounds, rows_from
from fedmerdel.centre.outcomes import rates_at_sites
from fedmerdel.centre.standing import Doubt, LeftOut
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import sites_used_up
from fedmerdel.files import write_text
from fedmerdel.model.describe import Cluster, describe
from fedmerdel.model.report import model_content, page
from fedmerdel.model.state import ModelState
from fedmerdel.report.charts import Node, line, ribbons
from fedmerdel.report.page import check_page_place
from fedmerdel.sums.components import used_up

MOST_VARIABLES = 100
"""Lines of the table of missing entries, the most missing first: wide studies have thousands."""


def write_report(
    federation: FederationState,
    model: ModelState,
    path: str | Path,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
    doubts: tuple[Doubt, ...] = (),
) -> None:
    """Write the page of a federation; see `Federation.report`."""
    check_page_place(path)
    page_text = report_page(
        federation, model, title=title, date=date, image_shape=image_shape, doubts=doubts
    )
    write_text(path, page_text)


def report_page(
    federation: FederationState,
    model: ModelState,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
    doubts: tuple[Doubt, ...] = (),
) -> str:
    """Return the page of a federation and its model as HTML."""
    content = model_content(model, federation.site_rows, title, date, image_shape)
    software = sorted({summary.software for summary in federation.summaries})
    content["facts"] |= {
        "Sites": ", ".join(federation.sites),
        "Search": federation.search,
        "Software at the sites": ", ".join(software),
    }
    full = sites_used_up(federation.summaries)
    content["ceiling"] = used_up(", ".join(full), federation.study.n_components) if full else None
    for card, at_sites in zip(content["cards"], _card_sites(federation), strict=True):
        card["sites"] = at_sites
    left_out = _without_each(federation)
    return page(
        {
            **content,
            "doubts": doubts,
            "standing": _standing(federation, left_out, doubts),
            "sites": _sites(federation),
            "missing": _missing(federation),
            "origins": _origins(federation, describe(model)),
            "course": _course(federation),
            "left_out": _left_out(federation, left_out),
            "disclosure": _disclosure(federation),
        }
    )


def _card_sites(federation: FederationState) -> list[list[dict[str, Any]]]:
    """Return for each cluster its rows, share and outcomes at each site."""
    rates = rates_at_sites(federation.counting, federation.study)
    shares = federation.site_shares
    return [
        [
            {
                "site": site,
                "share": float(shares[site][k]),
                "rows": federation.site_rows[b, k],
                "rates": [each[b][k] for each in rates.values()],
            }
            for b, site in enumerate(federation.sites)
        ]
        for k in range(federation.n_clusters)
    ]


def _disclosure(federation: FederationState) -> list[dict[str, Any]]:
    return [
        {
            "site": summary.site,
            "rows": summary.n_rows,
            "clusters": summary.n_clusters,
            "zero": summary.mechanism.zero,
            "account": summary.account,
        }
        for summary in federation.summaries
    ]


def _origins(federation: FederationState, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
    """Return where the local clusters went: a diagram, and each merge with its gain."""
    lineage, after_rounds = federation.lineage, bool(federation.record)
    texts = [f"{a.site}: {a.local_cluster}" for a in lineage]
    by_site, flow = rows_from(lineage, federation.site_rows, after_rounds)
    blocks = zip(federation.sites if by_site else texts, flow.sum(axis=1), strict=True)
    left = [Node(text, float(rows)) for text, rows in blocks]
    right = [Node(federation.name(c.number), c.rows, c.number) for c in clusters]
    found = federation.joins()
    trace = None
    if found:
        numbers, bounds = elbo_over_merges(federation.lower_bound, found)
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
        "joins": [_join(federation, join, texts) for join in found],
        "weakest": _weakest(federation, found),
    }


def _join(federation: FederationState, join: Join, texts: list[str]) -> dict[str, Any]:
    return {
        "number": join.cluster,
        "name": federation.name(join.cluster),
        "first": _listed([texts[i] for i in join.first]),
        "second": _listed([texts[i] for i in join.second]),
        "gain": join.gain,
    }


def _listed(texts: list[str], most: int = 4) -> str:
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _weakest(federation: FederationState, found: list[Join]) -> list[dict[str, Any]]:
    """Return, for each cluster, how many local clusters it has and its weakest merge."""
    lines = []
    for k, group in enumerate(federation.groups):
        gains = [join.gain for join in found if join.cluster == k]
        lines.append(
            {
                "number": k,
                "name": federation.name(k),
                "local": len(group),
                "total": sum(gains),
                "weakest": min(gains) if gains else float("nan"),
            }
        )
    return lines


def _course(federation: FederationState) -> dict[str, Any] | None:
    """Return what the rounds have brought, if there were any."""
    if not federation.record:
        return None
    numbers, bounds = elbo_over_rounds(federation.record)
    chart = line(bounds, numbers, ("round", "ELBO in nats")) if len(bounds) > 1 else None
    return {
        "chart": chart,
        "steps": federation.record,
        "stale": ", ".join(federation.record[-1].stale),
    }


def _without_each(federation: FederationState) -> tuple[LeftOut, ...]:
    """Return the clusters without each site, where that can be told."""
    if federation.record:  # only rows could repeat it
        return ()
    return leave_out(
        federation.study,
        federation.summaries,
        federation.groups,
        federation.search,
        federation.criterion,
    )


def _standing(
    federation: FederationState, found: tuple[LeftOut, ...], doubts: tuple[Doubt, ...]
) -> list[dict[str, Any]] | None:
    """Return how each site stands among the others: what pulls, and what is odd."""
    if len(federation.sites) == 1:
        return None
    rows = federation.site_rows.sum(axis=1)
    without, every_lone = {each.site: each for each in found}, federation.lone_clusters
    lines = []
    for site, own in zip(federation.sites, rows.tolist(), strict=True):
        lone = [each for each in every_lone if each.site == site]
        left = without.get(site)
        lines.append(
            {
                "site": site,
                "rows": own,
                "share": own / float(rows.sum()),
                "lone": len(lone),
                "lone_share": sum(each.share for each in lone),
                "n_clusters": left.n_clusters if left else "–",
                # Of one site's clusters alone there is nothing left to liken.
                "least": nan if left is None or np.isnan(left.likeness).all()
                else float(np.nanmin(left.likeness)),
                "loss": left.loss if left else nan,
                "odd": "; ".join(each.text for each in doubts if each.site == site),
            }
        )  # fmt: skip
    return lines


def _left_out(
    federation: FederationState, found: tuple[LeftOut, ...]
) -> list[dict[str, Any]] | None:
    """Return how alike the clusters are without each site, where that can be told."""
    if not found:
        return None
    lines = []
    for k in range(federation.n_clusters):
        alike = {each.site: float(each.likeness[k]) for each in found}
        alone = [site for site, value in alike.items() if value != value]
        known = {site: value for site, value in alike.items() if value == value}
        worst = min(known, key=lambda site: known[site])
        lines.append(
            {
                "number": k,
                "name": federation.name(k),
                # Without its only site it is gone: how alike it stays elsewhere says little.
                "mean": nan if alone else float(np.mean(list(known.values()))),
                "least": nan if alone else known[worst],
                "site": f"only at {alone[0]}" if alone else worst if known[worst] < 1 else "–",
            }
        )
    return lines


def _sites(federation: FederationState) -> dict[str, Any]:
    """Return the share of each site's rows in each cluster, and where it stands out."""
    rows = federation.site_rows
    shares = rows / rows.sum(axis=1, keepdims=True)
    elsewhere = rows.sum(axis=0) - rows
    others = elsewhere / np.maximum(elsewhere.sum(axis=1, keepdims=True), 1.0)
    stands_out = (shares >= 2 * others) & (shares > 0.01) & (len(rows) > 1)
    return {
        "names": [federation.name(k) for k in range(federation.n_clusters)],
        "lines": [
            {
                "site": site,
                "rows": float(rows[b].sum()),
                "cells": list(zip(shares[b].tolist(), stands_out[b].tolist(), strict=True)),
            }
            for b, site in enumerate(federation.sites)
        ],
        "overall": (rows.sum(axis=0) / rows.sum()).tolist(),
        "most": float(shares.max()),
        "present": [int((rows[:, k] > 0).sum()) for k in range(federation.n_clusters)],
    }


def _missing(federation: FederationState) -> dict[str, Any]:
    """Return the share of missing entries at each site, of the variables that lack any."""
    found = missing_at_sites(federation.summaries)
    shares, overall = found.shares, found.overall
    some = np.flatnonzero(shares.max(axis=0) > 0)
    # A site without any entry comes before many with few.
    order = some[np.lexsort((-overall[some], -shares.max(axis=0)[some]))]
    return {
        "sites": found.sites,
        "as_level": federation.study.missing == "level",
        "complete": shares.shape[1] - len(some),
        "more": max(len(order) - MOST_VARIABLES, 0),
        "lines": [
            {
                "text": federation.study.label(found.variables[j]),
                "shares": shares[:, j].tolist(),
                "overall": float(overall[j]),
            }
            for j in order[:MOST_VARIABLES].tolist()
        ],
    }
