"""Tables whose clusters depend on age and sex, with known effects; and how many intervals hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import confusion_matrix

from fedmerdel import Codebook, Effect, MerDel, Study, fit_site, merge_sites, reply_site
from fedmerdel.inference.regression import dummies, log_shares
from fedmerdel.study.codebook import Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.promise import Promise

AGE = Variable("age", ("young", "middle", "old"), "text")
SEX = Variable("sex", ("f", "m"), "text")
DESIGN = dummies([3, 2])

TRUE = np.array(
    [
        [0.0, -0.3, -0.6, -0.9],
        [0.0, 0.5, -0.4, 0.8],  # middle
        [0.0, 0.0, 0.7, 0.4],  # old
        [0.0, -0.6, 0.5, 0.0],  # m
    ]
)
"""Coefficients of four clusters: the intercept, and three log odds ratios."""

PATTERNS = np.array([0.25, 0.2, 0.15, 0.15, 0.15, 0.1])
"""Shares of the six patterns of age and sex."""


class Drawn(NamedTuple):
    """Rows of some sites, and the cluster of each."""

    sites: list[pd.DataFrame]
    labels: list[np.ndarray]

    @property
    def rows(self) -> pd.DataFrame:
        """All rows, with their site."""
        named = [rows.assign(site=name(b)) for b, rows in enumerate(self.sites)]
        return pd.concat(named, ignore_index=True)


def name(b: int) -> str:
    return f"s{b:02d}"


def drawn(seed: int, n_sites: int, n_rows: int, n_variables: int, differ: float = 0.4) -> Drawn:
    """Sites whose intercepts differ by so much; levels are drawn from Beta(1, 5)."""
    rng = np.random.default_rng(seed)
    K = TRUE.shape[1]
    phi = rng.beta(1.0, 5.0, (K, n_variables))
    sites, labels = [], []
    for _ in range(n_sites):
        v = rng.choice(len(PATTERNS), n_rows, p=PATTERNS)
        beta = TRUE[:, 1:].copy()
        beta[0] += differ * rng.normal(0, 1, K - 1)
        p = np.exp(log_shares(DESIGN, beta))[v]
        z = (rng.random(n_rows)[:, None] > p.cumsum(axis=1)).sum(axis=1)
        X = (rng.random((n_rows, n_variables)) < phi[z]).astype(int)
        rows = pd.DataFrame(X, columns=[f"v{j}" for j in range(n_variables)])
        rows["age"], rows["sex"] = np.array(AGE.levels)[v // 2], np.array(SEX.levels)[v % 2]
        sites.append(rows)
        labels.append(z)
    return Drawn(sites, labels)


def book(n_variables: int) -> tuple[Variable, ...]:
    return tuple(Variable(f"v{j}", ("0", "1"), "integer") for j in range(n_variables))


def study_of(n_variables: int, policy: str = "none", **more: object) -> Study:
    """A study of tables such as `drawn` makes."""
    codebook = Codebook(book(n_variables))
    return Study(
        "c",
        codebook,
        covariates=[AGE, SEX],
        policy=POLICIES[policy],
        promise=Promise(trusts_centre=True),
        **more,
    )


class Errors(NamedTuple):
    """Of log odds ratios, and the standard errors that were told with them."""

    error: np.ndarray
    told: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Whether each 95 % interval holds the truth."""
        return np.abs(self.error) <= 1.96 * self.told


def errors(effects: Sequence[Effect], home: np.ndarray) -> Errors:
    """Compare effects of age and sex with the truth; `home` is the true cluster of each."""
    at = {("age", "middle"): 1, ("age", "old"): 2, ("sex", "m"): 3}
    own = [each for each in effects if (each.covariate, each.level) in at]
    assert len(own) == 9
    true = [
        TRUE[at[each.covariate, each.level], home[each.cluster]]
        - TRUE[at[each.covariate, each.level], home[each.reference]]
        for each in own
    ]
    return Errors(
        np.array([each.log_odds_ratio for each in own]) - true,
        np.array([each.standard_error for each in own]),
    )


def home_of(true: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Return the true cluster of each that was found; None if there are not as many."""
    K = TRUE.shape[1]
    if labels.max() != K - 1:
        return None
    return linear_sum_assignment(-confusion_matrix(labels, true, labels=range(K)))[1]


def of_one_table(seed: int, n_rows: int, n_variables: int) -> Errors | None:
    """Errors of `MerDel` with covariates on one table."""
    table = drawn(seed, 1, n_rows, n_variables)
    codebook = Codebook((AGE, SEX, *book(n_variables)))
    found = MerDel(covariates=["age", "sex"], codebook=codebook, random_state=0)
    found.fit(table.sites[0])
    home = home_of(table.labels[0], found.labels_)
    return None if home is None else errors(found.covariate_effects_, home)


def of_federation(
    seed: int, n_rows: int, n_variables: int, policy: str, rounds: int, n_sites: int = 4
) -> Errors | None:
    """Errors of a federation's effects, after one shot or some rounds."""
    table = drawn(seed, n_sites, n_rows, n_variables)
    study = study_of(n_variables, policy, rounds=9)
    sites = [(rows, name(b)) for b, rows in enumerate(table.sites)]
    federation = merge_sites(study, [fit_site(study, *each) for each in sites])
    for _ in range(rounds):
        replies = [reply_site(study, federation.broadcast, *each) for each in sites]
        federation = federation.step(replies)[0]
    if federation.n_clusters != TRUE.shape[1]:
        return None
    levels = federation.model.profile.prevalence[:, 1::2]
    X, z = table.rows.iloc[:, :n_variables].to_numpy(), np.concatenate(table.labels)
    true = np.array([X[z == k].mean(axis=0) for k in range(TRUE.shape[1])])
    home = linear_sum_assignment(((levels[:, None] - true) ** 2).sum(axis=2))[1]
    return errors(federation.model.covariate_effects(), home)
