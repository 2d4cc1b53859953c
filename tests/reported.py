"""Federations made quickly, of any size, and their pages: counts drawn, nothing fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedmerdel import GlobalModel
from fedmerdel.centre.federation import Federation
from fedmerdel.centre.report import report_page as federation_page
from fedmerdel.model.report import report_page as model_page
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.study import Study
from fedmerdel.sums.sums import Sums
from tests.federations import evenly_shared, summary_of
from tests.outcome_cells import yes_no
from tests.page_tree import Element, parsed
from tests.round_trips import made as made_rows
from tests.round_trips import play

DATE = "2026-02-03"

# What a name may hold, and what a page must show of it: the same text.
ODD = "<b>\"A\" & 'B'</b></script><script>x()</script>\u00e6\u05d0\U0001f600{{ 7 * 7 }}"
LONG = "a name without an end, " * 12


def conditions(n_variables: int) -> tuple[Variable, ...]:
    return tuple(Variable(f"v{j}", ("no", "yes"), "text") for j in range(n_variables))


AGES = (
    *conditions(4),
    Variable("age", tuple(f"{10 * n} to {10 * n + 9}" for n in range(12)), "text"),
    Variable("sex", ("f", "m"), "text"),
)


def made_federation(
    n_clusters: int = 3,
    n_variables: int = 5,
    n_sites: int = 2,
    *,
    seed: int = 0,
    variables: tuple[Variable, ...] | None = None,
    sites: tuple[str, ...] | None = None,
    here: int | None = None,
    policy: str = "none",
    outcomes: tuple[str, ...] = (),
    **options: Any,
) -> Federation:
    """Clusters that differ in each variable; every site has some of them, or the first `here`.

    `here` is how many clusters a site has: site b those from b on, counted around.
    """
    rng = np.random.default_rng(seed)
    study = Study(
        options.pop("name", "made"), Codebook(variables or conditions(n_variables)),
        policy=POLICIES[policy], outcomes=outcomes,
        max_clusters=options.pop("max_clusters", max(20, n_clusters)), **options,
    )  # fmt: skip
    codebook = study.codebook
    parts = [rng.dirichlet(np.full(L, 0.6), n_clusters) for L in codebook.n_levels]
    parts = [0.98 * part + 0.02 / part.shape[1] for part in parts]
    rates = rng.uniform(0.05, 0.6, (len(outcomes), n_clusters))
    names = sites or tuple(f"site {b:03d}" for b in range(n_sites))
    assert list(names) == sorted(names)  # the order in which a federation has them
    summaries, clusters = [], []
    for b, site in enumerate(names):
        own = (b * (here or 0) + np.arange(here or n_clusters)) % n_clusters
        T = rng.integers(150, 1500, len(own))
        told = {}
        for name, rate in zip(outcomes, rates, strict=True):
            observed = rng.binomial(T, 0.9)
            positive = rng.binomial(observed, rate[own])
            told[name] = yes_no(positive.astype(float), observed.astype(float))
        votes = None
        if study.variable_selection:
            votes = tuple(name for name in codebook.names if rng.random() < 0.9)
        S = _counts(T, parts, own, rng)
        sums = Sums(T.astype(float), S, *evenly_shared(len(T), 0.5, rng))
        summaries.append(summary_of(study, site, sums, told, votes))
        clusters.append(own)
    groups, rows = _groups(summaries, np.concatenate(clusters), n_clusters)
    by_size = np.argsort(-rows, kind="stable")
    return Federation(
        study, tuple(summaries), tuple(groups[k] for k in by_size), "exact", "correlation"
    )


def _counts(
    T: np.ndarray, parts: list[np.ndarray], own: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of each cluster at each level; some entries are missing."""
    if all(part.shape[1] == 2 for part in parts):
        known = rng.binomial(T[:, None], 0.97, (len(T), len(parts)))
        yes = rng.binomial(known, np.stack([part[own, 1] for part in parts], axis=1))
        return np.stack([known - yes, yes], axis=2).reshape(len(T), -1).astype(float)
    known = rng.binomial(T, 0.97)
    return np.hstack([rng.multinomial(known, part[own]) for part in parts]).astype(float)


def _groups(
    summaries: list[SiteSummary], clusters: np.ndarray, n_clusters: int
) -> tuple[list[np.ndarray], np.ndarray]:
    T = np.concatenate([summary.sums.T for summary in summaries])
    groups = [np.flatnonzero(clusters == k) for k in range(n_clusters)]
    return groups, np.array([T[group].sum() for group in groups])


def after_rounds(policy: str = "opensafely") -> Federation:
    rows = made_rows(2, n_rows=600, n_sites=4, n_clusters=3, policy=POLICIES[policy])
    return play(rows.begun(rows.labels), rows.tables, 2)


CASES: dict[str, Callable[[], Federation]] = {
    "small": made_federation,
    "one cluster": lambda: made_federation(1, 3, 2),
    "one site": lambda: made_federation(3, 5, 1, outcomes=("died",)),
    "policy and outcomes": lambda: made_federation(
        7, 12, 5, here=5, policy="opensafely", outcomes=("died", "fell"), labels={"v1": "Asthma"}
    ).named({1: "Stroke & <b>", 3: "Lungs"}),
    "many levels": lambda: made_federation(4, variables=AGES, n_sites=3, outcomes=("died",)),
    "missing as a level": lambda: made_federation(4, variables=AGES, n_sites=3, missing="level"),
    "variable selection": lambda: made_federation(3, 6, 4, variable_selection=True),
    "given prior": lambda: made_federation(3, 4, 3, prior=2.0, max_clusters=30),
    "clusters of one site each": lambda: made_federation(3, 8, 3, here=1),
    "shares of sites in the model": lambda: made_federation(4, 5, 3, here=3, site_shares=True),
    "after rounds": after_rounds,
    "after rounds without a policy": lambda: after_rounds("none"),
}


class Shown(NamedTuple):
    """A federation, its page, and the page of its model alone."""

    federation: Federation
    page: Element
    own: Element

    @property
    def model(self) -> GlobalModel:
        return self.federation.model

    @property
    def pages(self) -> tuple[Element, Element]:
        return self.page, self.own

    @property
    def rows_of(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows in clusters that each of the pages knows of: of each site, or of all together."""
        return self.federation.site_rows, self.federation.site_rows.sum(axis=0, keepdims=True)


def page_of(federation: Federation, **options: Any) -> str:
    """The page of a federation as text."""
    plain = {"date": DATE, "doubts": federation.doubts}
    return federation_page(federation, federation.model, **{**plain, **options})


def own_page_of(model: GlobalModel, **options: Any) -> str:
    """The page of a model alone as text."""
    return model_page(model, **{"date": DATE, **options})


@cache
def shown_of(case: str) -> Shown:
    federation = CASES[case]()
    return Shown(federation, parsed(page_of(federation)), parsed(own_page_of(federation.model)))


def percent(share: float, digits: int = 1) -> str:
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def number(value: float, digits: int = 1) -> str:
    return "–" if value != value else f"{value:,.{digits}f}"
