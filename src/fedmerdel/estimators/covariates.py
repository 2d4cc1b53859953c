"""Covariates of one table: columns that say how often a row is in each cluster, before its levels.

They are no variables of the clusters. Rows with the same pattern of all covariates have the same
weights, so whatever is done with rows is done pattern by pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, OptionError
from fedmerdel.estimators.fitted import Work
from fedmerdel.estimators.own_rows import level_numbers
from fedmerdel.fitting.ascent import most_passes
from fedmerdel.fitting.covariates import Covaried, Patterns, fit_with_covariates
from fedmerdel.fitting.fit import Fit
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers, responsibilities
from fedmerdel.fitting.solution import Problem
from fedmerdel.inference.information import (
    Mixture,
    Rows,
    observed_information,
    outer_products,
    prior_information,
)
from fedmerdel.inference.intervals import paper_prior
from fedmerdel.inference.regression import dummies, log_shares, prior_precision
from fedmerdel.model.intervals import MOST_PARAMETERS, PART
from fedmerdel.model.membership import Membership, terms_of
from fedmerdel.records.collapse import collapse
from fedmerdel.records.columns import Table
from fedmerdel.records.encode import encode
from fedmerdel.records.missing import fit_codebook
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.study.codebook import Codebook, Missing, Variable
from fedmerdel.study.outcome import checked_covariates
from fedmerdel.sums.arrays import FloatArray, IntArray, plain_numbers
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.levels import level_means

MOST_WORK = 5e10
"""Rows times parameters squared, for standard errors: of more rows, some are asked."""


class Weights(NamedTuple):
    """The weights of clusters, by covariates.

    Attributes
    ----------
    variables : tuple of Variable
        The covariates and their levels.
    coefficients : float64 array (q, K - 1)
        Intercepts and log odds ratios, against the first cluster.
    covariance : float64 array ((K - 1) * q, (K - 1) * q)
        Of these, cluster by cluster.
    """

    variables: tuple[Variable, ...]
    coefficients: FloatArray
    covariance: FloatArray

    @property
    def log_weights(self) -> FloatArray:
        """Return those of each pattern: (V, K)."""
        return log_shares(dummies([len(v.levels) for v in self.variables]), self.coefficients)

    @property
    def membership(self) -> Membership:
        """The log odds ratios alone."""
        q = len(self.coefficients)
        kept = np.delete(np.arange(self.coefficients.size), np.s_[::q])
        covariance = self.covariance[np.ix_(kept, kept)]
        return Membership(terms_of(self.variables), self.coefficients[1:], covariance)

    def each(
        self, rows: PackedRows, pattern: IntArray, theta: Expectations, work: Work, workers: Workers
    ) -> NDArray[Any]:
        """Return what some work brings for each row, with the weights of its pattern."""
        K, found = self.coefficients.shape[1] + 1, None
        for v in np.unique(pattern):
            at = np.flatnonzero(pattern == v)
            own = Expectations(self.log_weights[v], theta.log_levels[:K])
            part = work(rows.take(at), own, workers)
            if found is None:
                found = np.empty((len(pattern), *part.shape[1:]), dtype=part.dtype)
            found[at] = part
        assert found is not None
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists of texts and numbers."""
        return {
            "variables": Codebook(self.variables).to_dict(),
            "coefficients": self.coefficients.tolist(),
            "covariance": self.covariance.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], n_clusters: int) -> Weights:
        """Read what `to_dict` wrote."""
        variables = checked_covariates(Codebook.from_dict(content["variables"]).variables)
        shape = 1 + sum(len(v.levels) - 1 for v in variables), n_clusters - 1
        coefficients = plain_numbers(content["coefficients"]).reshape(shape)
        size = coefficients.size
        covariance = plain_numbers(content["covariance"]).reshape(size, size)
        finite = np.isfinite(coefficients).all() and np.isfinite(covariance).all()
        if not finite or np.any(np.diag(covariance) < 0):
            raise ValueError("no coefficients")
        return cls(variables, coefficients, covariance)


def checked_names(given: Any) -> tuple[str, ...]:
    """Return the names of covariates; none if None is given."""
    if given is None:
        return ()
    texts = isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given)
    if not texts or not given or len(set(given)) < len(given):
        raise OptionError("covariates: give a list of names of columns, each once, or None")
    return tuple(given)


def without(table: Table, names: tuple[str, ...]) -> Table:
    """Return the columns that are no covariates."""
    table.select(names)  # refuses names that it does not have
    return table.select([name for name in table.names if name not in names])


def read_covariates(
    table: Table, names: tuple[str, ...], given: Codebook | None, missing: Missing
) -> tuple[Codebook | None, tuple[Variable, ...]]:
    """Return the codebook of the variables, if there is one, and the covariates with levels.

    A codebook that was given may list covariates too, which says which level is the first.
    """
    listed = () if given is None else given.variables
    own = {variable.name: variable for variable in listed if variable.name in names}
    found: list[Variable] = []
    for name in names:
        book = Codebook((own[name],)) if name in own else None
        found.extend(fit_codebook(table.select([name]), book, missing).variables)
    rest = tuple(variable for variable in listed if variable.name not in names)
    return Codebook(rest) if given is not None else None, checked_covariates(found)


def pattern_of(table: Table, variables: tuple[Variable, ...]) -> IntArray:
    """Return the number of each row's pattern, the last covariate changing first.

    Raises
    ------
    DataError
        If an entry of a covariate is missing.
    """
    names = [variable.name for variable in variables]
    levels = level_numbers(encode(table.select(names), Codebook(variables), owner="covariates"))
    for name, column in zip(names, levels.T, strict=True):
        if (column < 0).any():
            raise DataError(
                f"{table.prefix}covariate {name!r} has missing entries: leave these rows out, or "
                "give missing entries a level with missing='level'"
            )
    shape = [len(variable.levels) for variable in variables]
    return np.asarray(np.ravel_multi_index(tuple(levels.T), shape), dtype=np.int64)


def fit_weights(
    problem: Problem,
    options: Options,
    before: Fit,
    rows: PackedRows,
    pattern: IntArray,
    variables: tuple[Variable, ...],
) -> tuple[Fit, Weights]:
    """Go on from a fit without covariates, and say how sure the coefficients are.

    Parameters
    ----------
    problem, options, before
        The fit without covariates: what it was given, how it was made, what it found.
    rows, pattern
        All rows, and the patterns of their covariates.
    variables : tuple of Variable
        The covariates.
    """
    some = rows.weights > 0
    parts = {
        int(v): repack(collapse(rows.take(np.flatnonzero(some & (pattern == v))))[0])
        for v in np.unique(pattern[some])
    }
    patterns = Patterns(parts, dummies([len(v.levels) for v in variables]))
    most = most_passes(rows) if options.max_iter is None else options.max_iter
    found, history, converged = fit_with_covariates(
        patterns, before.stats, before.prior, problem.learning, options.tol, most, problem.workers
    )
    # What passes have raised so far is of another model: only the moves are kept.
    history.moves[:0] = before.history.moves
    history.n_iter += before.history.n_iter
    bound = found.bound(patterns.design)
    fit = Fit(found.stats, found.prior, bound, history, before.converged and converged)
    return fit, Weights(
        variables, found.coefficients, _covariance(patterns, found, problem.workers)
    )


def _covariance(patterns: Patterns, found: Covaried, workers: Workers) -> FloatArray:
    """Return the covariance of the coefficients, the levels being estimates too.

    The log odds of one pattern are what shares are in a mixture without covariates, so its rows
    tell of them what is told there; the coefficients are what all patterns' log odds are made of.
    Where there are very many levels, they are taken as known.
    """
    stats, prior, beta = found.stats, found.prior, found.coefficients
    (q, n), K = beta.shape, stats.n_clusters
    if K == 1:
        return np.zeros((0, 0))
    # Shares are taken against the last cluster there, and against the first here.
    order = np.roll(np.arange(K), -1)
    levels = level_means(stats.S + paper_prior(prior.offsets), prior.offsets)[order]
    log_weights, theta = log_shares(patterns.design, beta), expectations(stats, prior)
    size = Mixture(np.ones(K), levels, prior.offsets).n_parameters
    n_rows = sum(rows.n_rows for rows in patterns.rows.values())
    whole = size <= MOST_PARAMETERS
    every = max(int(n_rows * size**2 / MOST_WORK), 1) if whole else 1
    offsets = prior.offsets if whole else prior.offsets[:1]
    levels = levels[:, : offsets[-1]]

    def scores(v: int, rows: PackedRows) -> Iterator[Rows]:
        own = Expectations(log_weights[v], theta.log_levels)
        for start in range(0, rows.n_rows, PART * every):
            some = rows.take(np.arange(start, min(start + PART * every, rows.n_rows), every))
            X = level_numbers(some)[:, : len(offsets) - 1]
            yield Rows(X, responsibilities(some, own, workers)[:, order], some.weights * every)

    def total(told: Callable[[Iterator[Rows], Mixture], FloatArray]) -> FloatArray:
        n_levels = Mixture(np.ones(K), levels, offsets).n_parameters - n
        sums = np.zeros((n * q + n_levels,) * 2)
        sums[: n * q, : n * q] = np.diag(np.tile(prior_precision(q), n))
        for v, rows in patterns.rows.items():
            mixture = Mixture(np.exp(log_weights[v])[order], levels, offsets)
            of_odds, u = told(scores(v, rows), mixture), patterns.design[v]
            crossed = np.kron(of_odds[:n, n:], u[:, None])
            sums[: n * q, : n * q] += np.kron(of_odds[:n, :n], np.outer(u, u))
            sums[: n * q, n * q :] += crossed
            sums[n * q :, : n * q] += crossed.T
            sums[n * q :, n * q :] += of_odds[n:, n:]
        known = prior_information(Mixture(np.full(K, 1.0 / K), levels, offsets))
        sums[n * q :, n * q :] += known[n:, n:]
        return sums

    try:
        information = total(observed_information)
        np.linalg.cholesky(information)
    except np.linalg.LinAlgError:  # too few rows: outer products have no negative direction
        information = total(outer_products)
    return np.asarray(np.linalg.pinv(information, hermitian=True)[: n * q, : n * q])
