"""A model as readable files, and back to the last bit.

``clusters.csv`` has the shares of the levels for people, "NA" where a variable was not measured,
``sums.csv`` the numbers that everything is computed from, ``model.json`` the rest.
"""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from fedmerdel.bundles import Files
from fedmerdel.inference.check_counts import N_BINS
from fedmerdel.model.broadcast import level_names
from fedmerdel.model.checks import N_PAIRS, Checks
from fedmerdel.model.membership import Membership, terms_of
from fedmerdel.model.names_file import FILE as NAMES
from fedmerdel.model.names_file import names_for, names_text
from fedmerdel.model.rates import Rates
from fedmerdel.model.state import ModelState
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.release.sheets import ROWS, cluster_columns
from fedmerdel.study.conditions import condition_levels
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import plain_number, plain_numbers, plain_whole
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

NOT_MEASURED = "NA"
"""In the sheet for people: R, pandas and others take it for no number."""

DOCUMENT, STUDY, SUMS, CLUSTERS = "model.json", "study.toml", "sums.csv", "clusters.csv"
ENTROPY = "(entropy)"

MOST_CLUSTERS = 10_000
"""No model comes near; a file that tells of more is damaged."""

MOST = 1_000_000
"""Sites, or rounds, that a model may tell of: some numbers grow with them."""


def model_sheets(model: ModelState) -> Files:
    """Return the sheets of a model, its study, and its names if it has any."""
    names, (T, S, h, *_) = level_names(model.study.codebook), model.sums
    head = ["variable", "level", "prior", *cluster_columns(model.n_clusters)]
    rows = [
        [ROWS, "", "0", *map(number_text, T)],
        [ENTROPY, "", "0", *map(number_text, h)],
        *(
            [*name, number_text(eps), *map(number_text, counts)]
            for name, eps, counts in zip(names, model.prior.eps, S.T, strict=True)
        ),
    ]
    shares = model.profile.prevalence.T
    shown = [["rows", "", *(f"{n:.0f}" for n in model.rows)]]
    shown += [
        [*name, *(NOT_MEASURED if isnan(share) else f"{share:.6f}" for share in row)]
        for name, row in zip(names, shares, strict=True)
    ]
    texts = {
        STUDY: model.study.to_text(),
        SUMS: write_grid(head, rows),
        CLUSTERS: write_grid([*head[:2], *head[3:]], shown),
    }
    if model.names:
        texts[NAMES] = names_text(model.names)
    return {name: text.encode() for name, text in texts.items()}


def model_document(model: ModelState) -> dict[str, Any]:
    """Return what is in ``model.json``."""
    prior = model.prior
    return {
        "study_hash": model.study.hash,
        "n_clusters": model.n_clusters,
        "n_sites": model.n_sites,
        "n_rounds": model.n_rounds,
        "elbo": model.elbo,
        "rows": model.rows.tolist(),
        "selected": list(model.selected),
        "selection_probability": model.selection_probability.tolist(),
        "outcomes": {name: rates.to_dict() for name, rates in model.outcomes.items()},
        "site_shares": {site: shares.tolist() for site, shares in model.site_shares.items()},
        "prior": {
            "alpha": float(prior.alpha),
            "n_components": int(prior.n_components),
            "constant": float(prior.constant),
            "strength": None if prior.strength is None else prior.strength.tolist(),
            "floor": prior.floor,
        },
        **({} if model.checks is None else {"checks": model.checks.to_dict()}),
        **({} if model.membership is None else {"membership": model.membership.to_dict()}),
    }


def read_model(content: dict[str, Any], files: Files) -> dict[str, Any]:
    """Return the fields of a model.

    Raises
    ------
    KeyError, TypeError, ValueError, OverflowError
        If parts are missing or don't fit each other.
    """
    study = Study.from_bytes(files[STUDY], f"file {STUDY!r}")
    if content["study_hash"] != study.hash:
        raise ValueError("another study")
    codebook, K = study.codebook, plain_whole(content["n_clusters"])
    if not 0 < K <= MOST_CLUSTERS:
        raise ValueError(K)
    names, numbers = read_grid(
        SUMS, files[SUMS], ["variable", "level"], ["prior", *cluster_columns(K)]
    )
    check_names(SUMS, names, [[ROWS, ""], [ENTROPY, ""], *map(list, level_names(codebook))])
    told = content["prior"]
    prior = Prior(
        plain_number(told["alpha"]),
        plain_whole(told["n_components"]),
        numbers[2:, 0].copy(),
        codebook.level_offsets,
        plain_number(told["constant"]),
        None if told["strength"] is None else plain_numbers(told["strength"]),
        None if told["floor"] is None else plain_number(told["floor"]),
        guide=codebook.guide,
    )
    sums = Sums(
        numbers[0, 1:].copy(), np.ascontiguousarray(numbers[2:, 1:].T), numbers[1, 1:].copy()
    )
    fields = {
        "study": study,
        "sums": sums,
        "prior": prior,
        "rows": plain_numbers(content["rows"]),
        "selection_probability": plain_numbers(content["selection_probability"]),
        "selected": tuple(content["selected"]),
        "outcomes": {name: Rates.from_dict(each) for name, each in content["outcomes"].items()},
        "n_sites": plain_whole(content["n_sites"]),
        "n_rounds": plain_whole(content["n_rounds"]),
        "elbo": None if content["elbo"] is None else plain_number(content["elbo"]),
        "site_shares": {
            site: plain_numbers(shares) for site, shares in content["site_shares"].items()
        },
    }
    if "checks" in content:
        fields["checks"] = Checks.from_dict(content["checks"])
    if "membership" in content:
        fields["membership"] = Membership.from_dict(content["membership"], K)
    for site in content["site_shares"]:
        check_site_name(site)
    _check(study, sums, prior, fields)
    if NAMES in files:
        fields["names"] = names_for(K, NAMES, files[NAMES])
    return fields


def _check(study: Study, sums: Sums, prior: Prior, fields: dict[str, Any]) -> None:
    """Refuse numbers that no model can have."""
    K, P = sums.n_clusters, len(study.codebook.names)
    shapes = [fields["rows"].shape, *(each.shape for each in fields["site_shares"].values())]
    chosen = fields["selection_probability"]
    fits = (
        prior.is_possible
        and 1 <= K <= prior.n_components
        and all(((each >= 0) & (each <= 1)).all() for each in fields["site_shares"].values())
        and 1 <= fields["n_sites"] <= MOST
        and 0 <= fields["n_rounds"] <= MOST
        and all(shape == (K,) for shape in shapes)
        and chosen.shape == (P,)
        and ((chosen >= 0) & (chosen <= 1)).all()
        and set(fields["selected"]) <= set(study.codebook.names)
        and set(fields["outcomes"]) == set(study.measures)
        and all(len(rates.clusters) == K for rates in fields["outcomes"].values())
        and _checks_fit(fields.get("checks"), study, K)
        and _terms_fit(fields.get("membership"), study, tuple(fields["site_shares"]))
        and min(sums.T.min(), sums.S.min(), fields["rows"].min()) >= 0
    )
    if not fits:
        raise ValueError("parts don't fit each other")


def _terms_fit(found: Membership | None, study: Study, sites: tuple[str, ...]) -> bool:
    """Whether these are effects of the study's covariates, and of no site that is kept back."""
    own = () if found is None else found.terms
    return own == (terms_of(study.covariates, sites) if study.covariates else ())


def _checks_fit(checks: Checks | None, study: Study, n_clusters: int) -> bool:
    """Whether these are checks of such a model."""
    if checks is None:
        return not study.checks
    n_conditions, names = len(condition_levels(study.codebook)), set(study.checked)
    return (
        study.checks
        and len(checks.conditions) == len(checks.expected_conditions) == n_conditions + 1
        and len(checks.mean_posterior) == n_clusters
        and len(checks.certainty) == N_BINS
        and len(checks.pairs) <= min(checks.n_pairs, N_PAIRS)
        and {name for pair in checks.pairs for name in (pair.first, pair.second)} <= names
        and (checks.p_value is None) == (checks.distance is None)
    )
