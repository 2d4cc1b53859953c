"""The report of a model: a page of every number that there is to show, from the model alone."""

from __future__ import annotations

import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.centre.report_origins import certainty, course, left_out, origins
from fedmerdel.files import write_text
from fedmerdel.model.certainty import SURE, Certainty, expected_certainty
from fedmerdel.model.describe import Cluster, describe
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.report_clusters import cards, images, outcomes, sites
from fedmerdel.release.disclosure import releases_exactly
from fedmerdel.release.note import zero_text
from fedmerdel.report.charts import bars
from fedmerdel.report.heat import heat_data
from fedmerdel.report.page import check_page_place, render
from fedmerdel.sums.profile import Profile, profile


def write_report(
    model: GlobalModel,
    path: str | Path,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> None:
    """Write the page of a model; see `GlobalModel.report`."""
    check_page_place(path)
    write_text(path, report_page(model, title=title, date=date, image_shape=image_shape))


def report_page(
    model: GlobalModel,
    *,
    title: str | None = None,
    date: str | None = None,
    image_shape: tuple[int, int] | None = None,
) -> str:
    """Return the page of a model as HTML."""
    clusters = describe(model)
    sure = expected_certainty(model.statistics, model.prior, model.row_prior, model.site_rows)
    found = profile(model.statistics, model.prior)
    heat = _heat(model, clusters, found)
    return render(
        "model.html",
        heat=heat,
        title=title or model.study.name,
        facts=_facts(model, date or datetime.date.today().isoformat()),
        headline=_headline(model, sure),
        cards=cards(model, clusters),
        outcomes=outcomes(model, clusters),
        sites=sites(model),
        origins=origins(model, clusters),
        course=course(model),
        certainty=certainty(model, sure, clusters),
        left_out=left_out(model),
        selection=_selection(model),
        disclosure=_disclosure(model),
        images=images(model, image_shape),
        smallest=model.study.policy.smallest,
        n_sites=len(model.sites),
    )


def _facts(model: GlobalModel, date: str) -> list[tuple[str, str]]:
    study, policy = model.study, model.study.policy
    rule = f"{policy.name}: " + ("no count " if policy.smallest > 1 else "whole numbers")
    if policy.smallest > 1:
        rule += f"from 1 to {policy.smallest - 1}"
    if policy.rounding > 1:
        rule += f", rounded to {policy.rounding}"
    if releases_exactly(policy):
        rule = f"{policy.name}: counts released as they are"
    software = sorted({summary.software for summary in model.summaries})
    learned = study.prior if isinstance(study.prior, str) else "given in the study"
    return [
        ("Study", study.name),
        ("Identifier of the study", study.hash[:16]),
        ("Sites", ", ".join(model.sites)),
        ("Rows", f"{float(model.site_rows.sum()):,.0f}"),
        ("Weights", "none" if study.weight is None else f"{study.weight}: rows are sums of these"),
        ("Variables", f"{len(study.codebook.names)}"),
        ("Outcomes", ", ".join(study.outcomes) or "none"),
        ("Disclosure control", rule),
        ("Prior of the levels", learned),
        ("Search", f"{model.search}, exchanges: {len(model.record)}"),
        ("Software at the sites", ", ".join(software)),
        ("Software of this page", f"fedmerdel {version('fedmerdel')}"),
        ("Page written", date),
    ]


def _headline(model: GlobalModel, sure: Certainty) -> list[dict[str, str]]:
    rows, bound = float(model.site_rows.sum()), _elbo(model)
    sites = "one site" if len(model.sites) == 1 else f"{len(model.sites)} sites"
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
            "text": "ELBO in nats" + _a_row(model, bound, rows),
        },
    ]


def _a_row(model: GlobalModel, bound: float | None, rows: float) -> str:
    """Return the ELBO for each row, where it is that of the rows that were told."""
    if bound is None:
        return ""
    if model.record and not releases_exactly(model.study.policy):
        return " of all rows, at the last exchange"
    return f", {bound / rows:,.3f} a row"


def _elbo(model: GlobalModel) -> float | None:
    """Return the ELBO that is known: counts that a policy changes tell it in exchanges only."""
    if not model.record or releases_exactly(model.study.policy):
        return model.lower_bound
    kept = [step for step in model.record if step.move != "taken back"]
    return kept[-1].elbo if kept else None


def _heat(model: GlobalModel, clusters: tuple[Cluster, ...], found: Profile) -> dict[str, Any]:
    names = model.names or ("",) * model.n_clusters
    orders = {}
    if clusters[0].mean_conditions is not None:
        orders["conditions"] = _falling([c.mean_conditions or 0.0 for c in clusters])
    for name in model.study.outcomes:
        orders[f"rate of {name}"] = _falling([c.outcomes[name].share for c in clusters])
    listed = [
        {"number": c.number, "name": names[c.number], "rows": round(c.rows)} for c in clusters
    ]
    return heat_data(model.study.codebook, dict(model.study.labels), found, listed, orders)


def _falling(values: list[float]) -> list[int]:
    """Return the clusters in the order of their values, the greatest first; unknown ones last."""
    return [int(k) for k in np.argsort(-np.nan_to_num(np.array(values), nan=-1.0), kind="stable")]


def _selection(model: GlobalModel) -> dict[str, Any]:
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


def _disclosure(model: GlobalModel) -> list[dict[str, Any]]:
    return [
        {
            "site": summary.site,
            "rows": summary.n_rows,
            "clusters": summary.n_clusters,
            "zero": zero_text(summary),
            "report": summary.report,
        }
        for summary in model.summaries
    ]
