"""How membership depends on covariates: from what sites released, corrected at the centre.

Sites have counted their rows by pattern of the covariates in each cluster, as they count an
outcome. Nothing else is asked of them. Each site has an intercept of its own for each cluster, so
that effects are those within sites, and the site is a covariate like the others.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.centre.outcomes import Counting, site_cells
from fedmerdel.inference.regression import Cells, dummies, prior_precision, regress
from fedmerdel.model.membership import Membership, terms_of
from fedmerdel.study.outcome import COVARIATES
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray

ADDED_UP = 2.0
"""By how much counts that must add up to totals both ways vary more than counts rounded to the
nearest: rounded up or down as sums need, step² / 6 in place of step² / 12."""


def membership(counting: Counting, study: Study, sites: tuple[str, ...]) -> Membership:
    """Return the effects of the study's covariates, and of the sites, on membership."""
    tables = covariate_cells(counting, study)
    q = tables[0].design.shape[1]
    found = regress(tables, prior_precision(q))
    # The intercept says how large clusters are at the first site: nobody's odds ratio.
    kept = np.delete(np.arange(found.coefficients.size), np.s_[::q])
    return Membership(
        terms_of(study.covariates, sites),
        found.coefficients[1:],
        found.covariance[np.ix_(kept, kept)],
    )


def covariate_cells(counting: Counting, study: Study) -> list[Cells]:
    """Return what each site counted by pattern, with dummies of covariates and sites."""
    design = dummies([len(each.levels) for each in study.covariates])
    n_sites, tables = len(counting.sites), []
    pairs = zip(counting.sites, site_cells(counting, COVARIATES), strict=True)
    for b, (site, (cells, variance)) in enumerate(pairs):
        own = np.zeros((len(design), n_sites))
        own[:, b] = 1.0
        placed = (np.arange(len(site.confusion.mean))[:, None] == site.place).astype(np.float64)
        noise = _noise(variance[:, :-1], site.summary.rest, placed)
        tables.append(
            Cells(
                np.hstack([design, own[:, 1:]]),
                (placed @ cells[:, :-1]).T,
                *site.confusion,
                noise,
            )
        )
    return tables


def _noise(variance: FloatArray, rest: int | None, placed: FloatArray) -> FloatArray:
    """Return the covariance of what protection did to each pattern's counts: (V, G, G).

    What other clusters gain, the rest loses; so rows that move to a like cluster hardly count.
    """
    moved = np.eye(len(variance))
    alone = variance.copy()
    if rest is not None:
        moved[rest] = -1.0
        moved[rest, rest] = 1.0
        alone[rest] = np.maximum(2.0 * variance[rest] - variance.sum(axis=0), 0.0)
    into = placed @ moved
    return np.asarray(ADDED_UP * np.einsum("gc,cv,hc->vgh", into, alone, into))
