"""How membership of the clusters depends on covariates: effects, with how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from fedmerdel.errors import OptionError
from fedmerdel.study.codebook import Variable
from fedmerdel.sums.arrays import FloatArray, plain_numbers

WIDTH = 1.959964
"""Standard errors from an effect to an end of its 95 % interval."""

SITE = "(site)"
"""The name of the site as a covariate, which no column can be asked for by."""


class Term(NamedTuple):
    """A level of a covariate, and the first one, which it is compared with.

    Attributes
    ----------
    covariate, level, against : str
        Their names.
    """

    covariate: str
    level: str
    against: str


@dataclass(frozen=True)
class Effect:
    """How a level of a covariate changes the odds of one cluster against another.

    Attributes
    ----------
    cluster, reference : int
        The two clusters.
    covariate, level, against : str
        The covariate, its level, and its first level, which that is compared with.
    log_odds_ratio : float
        Change of the log odds, the other covariates the same. Above 0, rows at the level are more
        often in the cluster, rather than in the reference.
    standard_error : float
        Of it.
    low, high : float
        Its 95 % interval.
    p_value : float
        Of no effect.
    """

    cluster: int
    reference: int
    covariate: str
    level: str
    against: str
    log_odds_ratio: float
    standard_error: float
    low: float
    high: float
    p_value: float

    @property
    def odds_ratio(self) -> float:
        """The factor by which the odds change."""
        return exp(self.log_odds_ratio)

    @property
    def text(self) -> str:
        """The odds ratio with its interval, as people read it."""
        return f"{self.odds_ratio:.2f} ({exp(self.low):.2f} to {exp(self.high):.2f})"


class CovariateTest(NamedTuple):
    """Whether membership depends on a covariate at all, the others the same.

    Attributes
    ----------
    covariate : str
        Its name.
    statistic : float
        Wald's, of its effects on all clusters.
    df : int
        Its degrees of freedom.
    p_value : float
        Of no effect on any cluster.
    """

    covariate: str
    statistic: float
    df: int
    p_value: float


class Membership(NamedTuple):
    """How membership depends on covariates.

    Attributes
    ----------
    terms : tuple of Term
        What coefficients are of.
    coefficients : float64 array (q, K - 1)
        Log odds ratio of each term, for each cluster but the first, against the first.
    covariance : float64 array ((K - 1) * q, (K - 1) * q)
        Of these, cluster by cluster.
    """

    terms: tuple[Term, ...]
    coefficients: FloatArray
    covariance: FloatArray

    def take(self, terms: list[int]) -> Membership:
        """Return these terms alone."""
        (q, n), at = self.coefficients.shape, np.array(terms, dtype=np.int64)
        kept = (np.arange(n)[:, None] * q + at).ravel()
        return Membership(
            tuple(self.terms[i] for i in terms),
            self.coefficients[at],
            self.covariance[np.ix_(kept, kept)],
        )

    def without_sites(self) -> Membership:
        """Return the terms that say nothing of single sites."""
        return self.take([i for i, term in enumerate(self.terms) if term.covariate != SITE])

    def effects(self, reference: int = 0) -> tuple[Effect, ...]:
        """Return the effect of each term on each cluster, against one of them."""
        q, K = len(self.terms), self.coefficients.shape[1] + 1
        whole = isinstance(reference, (int, np.integer)) and not isinstance(reference, bool)
        if not whole or not 0 <= reference < K:
            raise OptionError(f"reference: give the number of a cluster, from 0 to {K - 1}")
        found = []
        for k in np.delete(np.arange(K), reference):
            for i, term in enumerate(self.terms):
                # Of the coefficients of the term: 1 for this cluster, -1 for the reference.
                contrast = np.zeros((K, q))
                contrast[k, i], contrast[reference, i] = 1.0, -1.0
                c = contrast[1:].ravel()
                value = float(c @ self.coefficients.T.ravel())
                error = sqrt(max(float(c @ self.covariance @ c), 0.0))
                p = 2.0 * float(norm.sf(abs(value) / max(error, 1e-300)))
                ends = value - WIDTH * error, value + WIDTH * error
                found.append(Effect(int(k), int(reference), *term, value, error, *ends, p))
        return tuple(found)

    def tests(self) -> tuple[CovariateTest, ...]:
        """Test each covariate: all its effects on all clusters at once."""
        found = []
        for name in dict.fromkeys(term.covariate for term in self.terms):
            own = self.take([i for i, term in enumerate(self.terms) if term.covariate == name])
            values, df = own.coefficients.T.ravel(), own.coefficients.size
            inverse = np.linalg.pinv(own.covariance, hermitian=True)
            statistic = float(values @ inverse @ values)
            p_value = float(chi2.sf(statistic, df)) if df else 1.0
            found.append(CovariateTest(name, statistic, df, p_value))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists of texts and numbers."""
        return {
            "terms": [list(term) for term in self.terms],
            "coefficients": self.coefficients.tolist(),
            "covariance": self.covariance.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], n_clusters: int) -> Membership:
        """Read what `to_dict` wrote."""
        terms = tuple(Term(*each) for each in content["terms"])
        shape = len(terms), n_clusters - 1
        coefficients = plain_numbers(content["coefficients"]).reshape(shape)
        size = coefficients.size
        covariance = plain_numbers(content["covariance"]).reshape(size, size)
        texts = all(isinstance(text, str) for term in terms for text in term)
        finite = np.isfinite(coefficients).all() and np.isfinite(covariance).all()
        if not texts or not finite or np.any(np.diag(covariance) < 0):
            raise ValueError("no effects")
        return cls(terms, coefficients, covariance)


def terms_of(covariates: tuple[Variable, ...], sites: tuple[str, ...] = ()) -> tuple[Term, ...]:
    """Return the terms of some covariates, and of sites, in the order of their dummies."""
    levels = [(each.name, each.levels) for each in covariates]
    return tuple(
        Term(name, level, own[0])
        for name, own in [*levels, *([(SITE, sites)] if len(sites) > 1 else [])]
        for level in own[1:]
    )
