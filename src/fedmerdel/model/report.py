"""The report of a model: a page of every number that there is to show, from the model alone."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.files import write_text
from fedmerdel.inference.check_counts import SURE
from fedmerdel.model.certainty import Certainty, expected_certainty
from fedmerdel.model.describe import Cluster, describe
from fedmerdel.model.guides import report_guides
from fedmerdel.model.paragraph import methods_paragraph
from fedmerdel.model.report_checks import trust
from fedmerdel.model.report_clusters import cards, covariates, images, outcomes
from fedmerdel.model.state import ModelState
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.report.charts import bars, histogram
from fedmerdel.report.heat import heat_data
from fedmerdel.report.page import check_page_place, check_page_size, render
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.components import used_up

AT_THE_CENTRE: tuple[str, ...] = (
    "sites",
    "missing",
    "standing",
    "doubts",
    "origins",
    "course",
    "left_out",
    "disclosure",
)
"""Parts of the page that need what each site sent."""


def write_report(
    model: ModelState,
    path: str | Path,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
    alone: bool = False,
) -> None:
    """Write the page of a model; see `GlobalModel.report`. One table alone has no study."""
    check_page_place(path)
    page_text = report_page(model, title=title, date=date, image_shape=image_shape, alone=alone)
    write_text(path, page_text)


def report_page(
    model: ModelState,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
    alone: bool = False,
) -> str:
    """Return the page of a model as HTML, without what only the centre knows."""
    return page(model_content(model, model.rows[None, :], title, date, image_shape, alone))


def page(content: dict[str, Any]) -> str:
    """Return the page that shows this content."""
    return render("model.html", **{**content, "facts": list(content["facts"].items())})


def model_content(
    model: ModelState,
    site_rows: FloatArray,
    title: str | None,
    date: str | None,
    image_shape: tuple[int, int] | None,
    alone: bool = False,
) -> dict[str, Any]:
    """Return what the page shows of a model; parts that need each site's counts are empty.

    Parameters
    ----------
    model : ModelState
        The model.
    site_rows : float64 array (sites, K)
        Rows of each site in each cluster, or of all together in one line.
    title, date, image_shape
        See `GlobalModel.report`.
    alone : bool
        Whether it is of one table, fitted without a study.
    """
    check_page_size(model.n_clusters, len(model.prior.eps))
    clusters = describe(model)
    sure = expected_certainty(model.sums, model.prior, model.row_prior, site_rows)
    return {
        **dict.fromkeys(AT_THE_CENTRE),
        "heat": _heat(model, clusters),
        "title": title or model.study.name,
        "ceiling": _ceiling(model),
        "facts": _facts(model, date or datetime.date.today().isoformat()),
        "headline": _headline(model, sure),
        "cards": cards(model, clusters),
        "outcomes": outcomes(model, clusters),
        "covariates": covariates(model),
        "guides": report_guides(model, clusters),
        "certainty": _certainty(model, sure, clusters),
        "trust": trust(model, sure, clusters),
        "selection": _selection(model),
        "images": images(model, image_shape),
        "smallest": mechanism_for(model.study.policy).smallest,
        "n_sites": model.n_sites,
        "paragraph": methods_paragraph(model, sure, alone),
    }


def _facts(model: ModelState, date: str) -> dict[str, str]:
    study = model.study
    learned = study.prior if isinstance(study.prior, str) else "given in the study"
    guides = ", ".join(f"{v.name} (weight {v.guide:g})" for v in study.codebook.guides)
    return {
        "Study": study.name,
        "Identifier of the study": study.hash[:16],
        "Sites": f"{model.n_sites}",
        "Rows": f"{float(model.rows.sum()):,.0f}",
        "Weights": "none" if study.weight is None else f"{study.weight}: rows are sums of these",
        "Variables": f"{len(study.codebook.names)}",
        "Outcomes": ", ".join(each.name for each in study.outcomes) or "none",
        **({"Covariates": ", ".join(c.name for c in study.covariates)} if study.covariates else {}),
        **({"Guides": guides} if guides else {}),
        "Disclosure control": f"{study.policy.name}: {mechanism_for(study.policy).rule}",
        "Prior of the levels": learned,
        "Most clusters of a fit": f"{study.max_clusters}",
        "Rounds": f"{model.n_rounds}",
        "Software of this page": f"fedmerdel {version('fedmerdel')}",
        "Page written": date,
    }


def _ceiling(model: ModelState) -> str | None:
    """Return what to say where one table has used all clusters that it might."""
    full = model.n_sites == 1 and model.n_clusters >= model.study.n_components
    return used_up("The fit", model.study.n_components) if full else None


def _headline(model: ModelState, sure: Certainty) -> list[dict[str, str]]:
    rows, bound = float(model.rows.sum()), model.elbo
    sites = "one site" if model.n_sites == 1 else f"{model.n_sites} sites"
    fit = " of all rows, at the last round" if model.n_rounds else ""
    if bound is not None and not fit:
        # What a policy has changed is another table: its ELBO is not that of the rows.
        changed = mechanism_for(model.study.policy).smallest > 1
        fit = f"{' of the released counts' if changed else ''}, {bound / rows:,.3f} a row"
    return [
        {
            "value": f"{model.n_clusters}",
            "text": "cluster" if model.n_clusters == 1 else "clusters",
        },
        {"value": f"{rows:,.0f}", "text": f"rows at {sites}"},
        {
            "value": f"{100 * sure.sure:.0f} %",
            "text": f"of rows expected in a cluster with probability above {SURE}",
        },
        {
            "value": f"{bound:,.0f}" if bound is not None else "–",
            "text": f"ELBO in nats{fit}",
        },
    ]


def _certainty(model: ModelState, sure: Certainty, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
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


def _heat(model: ModelState, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
    names = model.names or ("",) * model.n_clusters
    orders = {}
    if clusters[0].mean_conditions is not None:
        # None in one is None in all; not measured is nan.
        orders["conditions"] = _falling([c.mean_conditions or 0.0 for c in clusters])
    for name in model.study.measures:
        orders[f"rate of {name}"] = _falling([c.outcomes[name].share for c in clusters])
    listed = [
        {"number": c.number, "name": names[c.number], "rows": round(c.rows)} for c in clusters
    ]
    labels = dict(model.study.labels)
    return heat_data(model.study.codebook, labels, model.profile, listed, orders)


def _falling(values: list[float]) -> list[int]:
    """Return the clusters in the order of their values, the greatest first; unknown ones last."""
    return [int(k) for k in np.argsort(-np.nan_to_num(np.array(values), nan=-1.0), kind="stable")]


def _selection(model: ModelState) -> dict[str, Any]:
    names = model.study.codebook.names
    order = np.argsort(-model.selection_probability, kind="stable")
    values = [float(model.selection_probability[j]) for j in order]
    texts = [model.study.label(names[j]) for j in order]
    return {
        "chart": bars(values, texts),
        "n_selected": len(model.selected),
        "n_variables": len(names),
        "by_sites": model.study.variable_selection,
    }
