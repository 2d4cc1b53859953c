"""`MerDel` clusters one categorical table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fedmerdel import saved
from fedmerdel.errors import CeilingWarning, OptionError
from fedmerdel.estimators.covariates import (
    Weights,
    checked_names,
    fit_weights,
    pattern_of,
    read_covariates,
    without,
)
from fedmerdel.estimators.fitted import FittedClusters, Reading, Work
from fedmerdel.estimators.one_table import one_table
from fedmerdel.estimators.own_rows import own_intervals
from fedmerdel.fitting.fit import fit_mixture
from fedmerdel.fitting.history import Move
from fedmerdel.fitting.passes import label_rows
from fedmerdel.fitting.solution import make_problem
from fedmerdel.inference.cluster_worth import ClusterWorth, cluster_worth
from fedmerdel.inference.intervals import Intervals
from fedmerdel.model.checks import Checks
from fedmerdel.model.membership import Effect
from fedmerdel.model.report import write_report
from fedmerdel.options import (
    check_options,
    check_share,
    check_whole,
    checked_init,
    checked_seed,
    fit_options,
    fit_prior,
)
from fedmerdel.progress import shown
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import decode, encode
from fedmerdel.records.missing import fit_codebook
from fedmerdel.records.packing import repack
from fedmerdel.records.tables import Table, open_table
from fedmerdel.study.codebook import Codebook, Missing, Variable
from fedmerdel.sums import predictive
from fedmerdel.sums.arrays import FloatArray, IntArray, plain_number, plain_whole
from fedmerdel.sums.components import AUTO, room_for, used_up
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.sums.strengths import log_odds
from fedmerdel.sums.sums import Sums


class MerDel(FittedClusters, ClusterMixin, BaseEstimator):
    """Cluster a categorical table and find the number of clusters.

    Variational inference for a finite Dirichlet-categorical mixture, with moves that
    merge, delete and split clusters whenever that raises the evidence lower bound (ELBO).

    Parameters
    ----------
    max_clusters : int or "auto", default="auto"
        Most clusters that there may be. The fit finds how many there are. "auto" gives it room
        for 20 at first, and for twice as many whenever they are used up, to 200; recipe "paper"
        starts with 20.
    recipe : {"default", "paper"}, default="default"
        "default" divides a sample of the rows, then merges, deletes and splits by gain
        in the ELBO on growing samples. "paper" is MerDel as published: k-modes start,
        laps of passes, one merge and one delete proposal after each.
    laps : int or None, default=5
        Recipe "paper": passes before each pair of proposals. 0 makes proposals only,
        None makes none (plain variational inference).
    merge_criterion : {"correlation", "kl", "bhattacharyya", "random"}, default="correlation"
        Recipe "paper": how the pair to merge is chosen.
    alpha : float, default=0.01
        Dirichlet parameter of each cluster's weight. Below 1, clusters that are not
        needed empty.
    init : {"divide", "kmodes", "random"}, array of int or None, default=None
        Where a fit starts, or the cluster of each row to start from, numbered from 0.
        None is "divide" for the default recipe and "kmodes" for the paper's.
    tol : float or None, default=None
        Stop when passes to come would add less than this many nats per row. None is 1e-5, and
        at most half a nat in all, or the paper's 5e-6 nats in all for its recipe.
    absolute_tol : float or None, default=None
        The same in nats for all rows together, instead of `tol`.
    max_iter : int or None, default=None
        Most passes over the rows; a move that is under way is finished. None bounds the work,
        not the passes: 1,000, and more on a small table, where they cost next to nothing.
    n_init : int or None, default=None
        Fits from different starts; the one with the highest ELBO is kept. None is 1, and up
        to 4 on small tables, where they cost little, but not for recipe "paper".
    prior : {"learned", "fixed"}, float, array or None, default=None
        Dirichlet parameters of the levels. "fixed" is the paper's 1 / L for each of L
        levels. "learned" takes a share of it (`floor_`) and adds, for each variable, rows'
        worth of the whole table (`strengths_`), as much of both as makes the ELBO highest. A
        number is for every level; an array has one for each variable or for each level, flat or
        a list of arrays. None is "learned", but "fixed" with recipe "paper" or with
        `variable_selection`.
    variable_selection : bool, default=False
        Select variables as the paper does (appendices A and B): each has a probability of
        telling clusters apart, and is left out of the clusters by what is missing to 1.
    guide : mapping of str to float, or None, default=None
        Columns that are outcomes, and the weight of each in finding the clusters: 1 counts like
        a variable, less has less of a say. Rates of a guide are no validation of the clusters.
        Its entries may be missing, and a named table given to `predict` may lack its column.
    missing : {"ignore", "level", "error"}, default="ignore"
        What missing entries (None, NaN, null, empty text) are. "ignore" leaves them out of
        the likelihood: the row keeps its other entries, and every row gets a label. "level"
        makes missing a level of its own, the last one and named ``"(missing)"``, of each
        variable that has missing entries in the table given to `fit`; where another
        variable's entries are missing in `predict`, they are left out, for the fit has
        learned nothing of them. "error" refuses a table with missing entries.
    codebook : Codebook or None, default=None
        Variables and levels. None takes them from the table given to `fit`.
    covariates : list of str or None, default=None
        Columns that are no variables but change the weights of the clusters: age group, sex,
        site. All their patterns together are at most 64. They may be listed in `codebook`, which
        says which level is the first; no entry may be missing unless `missing` is "level".
    n_jobs : int or None, default=None
        Threads; None is 1, -1 is one for each core. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        A number gives the same result every time.
    verbose : int, default=0
        1 shows a line that moves while the fit runs.

    Attributes
    ----------
    labels_ : int64 array (N,)
        The most probable cluster of each row; cluster 0 is the largest.
    n_clusters_ : int
        Clusters found.
    lower_bound_ : float
        The ELBO in nats. With a learned prior, of the best prior for these clusters: it compares
        fits with the same `prior`, and not one prior with another.
    lower_bounds_ : float64 array
        The ELBO after each pass or move on all rows that was kept.
    lower_bound_seconds_ : float64 array
        Seconds after the start of the fit at which each of them was reached.
    history_ : list of Move
        Each move proposed: kind, clusters, whether it was accepted, ELBOs, time.
    weights_ : float64 array (K,)
        Posterior mean share of each cluster.
    level_probabilities_ : list of float64 arrays (K, L_j)
        Posterior mean probability of each level, one array a variable, variables and
        levels in the order of `codebook_`.
    selection_probability_ : float64 array (P,)
        How surely each variable tells clusters apart: the paper's c_j with
        `variable_selection`, else the probability under the prior.
    selected_ : bool array (P,)
        Whether it is above a half.
    strengths_ : float64 array (P,) or None
        What a learned prior has learned: rows' worth of the whole table that each cluster
        is mixed with. Near 0 where clusters differ much, large for noise.
    floor_ : float or None
        The share of the fixed prior that a learned one keeps, 0.02 to 1: small where clusters
        are small and pure.
    covariate_effects_ : tuple of Effect or None
        How each covariate changes the odds of each cluster against cluster 0, with standard
        errors that allow for rows whose cluster is not sure, and for levels that are estimates.
    n_iter_ : int
        Passes over all rows.
    converged_ : bool
        Whether the fit ended before `max_iter`.
    codebook_ : Codebook
        Variables and levels.
    n_features_in_ : int
        Variables.
    feature_names_in_ : array of str
        Their names, if the table had any.

    Notes
    -----
    With `covariates`, `predict`, `predict_proba` and `score_samples` need their columns too, and
    the last tells the probability of the variables given the covariates. `weights_`, `sample`,
    `checks` and `intervals` are of all rows together: weights averaged over their covariates.

    Levels that `codebook_` does not list are refused by `predict`; to set such entries to
    missing leaves them out.

    Examples
    --------
    >>> from fedmerdel import MerDel, simulate
    >>> table = simulate(2000, n_variables=100, n_clusters=5, random_state=1)
    >>> model = MerDel(random_state=1).fit(table.X)
    >>> model.n_clusters_
    5
    """

    def __init__(
        self,
        max_clusters: int | Literal["auto"] = "auto",
        *,
        recipe: Literal["default", "paper"] = "default",
        laps: int | None = 5,
        merge_criterion: MergeCriterion = "correlation",
        alpha: float = 0.01,
        init: Literal["divide", "kmodes", "random"] | NDArray[Any] | None = None,
        tol: float | None = None,
        absolute_tol: float | None = None,
        max_iter: int | None = None,
        n_init: int | None = None,
        prior: Literal["learned", "fixed"] | Any = None,
        variable_selection: bool = False,
        guide: Mapping[str, float] | None = None,
        missing: Missing = "ignore",
        codebook: Codebook | None = None,
        covariates: Sequence[str] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.max_clusters = max_clusters
        self.recipe = recipe
        self.laps = laps
        self.merge_criterion = merge_criterion
        self.alpha = alpha
        self.init = init
        self.tol = tol
        self.absolute_tol = absolute_tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.prior = prior
        self.variable_selection = variable_selection
        self.guide = guide
        self.missing = missing
        self.codebook = codebook
        self.covariates = covariates
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : array, pandas, polars or Arrow table, or path of a CSV or Parquet file
            One row an observation, one categorical column a variable.
        y : None
            Ignored.
        sample_weight : array (N,), optional
            Weight of each row; a row of weight 3 counts as three rows. A row of weight 0
            gets a label, and its levels are known, but it has no say in the clusters.

        Returns
        -------
        MerDel
            This estimator, fitted.
        """
        check_options(self)
        seed = checked_seed(self.random_state)
        table, names = open_table(X), checked_names(self.covariates)
        given, variables = self.codebook, table
        covariates: tuple[Variable, ...] = ()
        if names:
            variables = without(table, names)
            given, covariates = read_covariates(table, names, self.codebook, self.missing)
            pattern = pattern_of(table, covariates)
        codebook = fit_codebook(variables, given, self.missing, self.guide)
        every = rows = encode(variables, codebook, sample_weight, owner=type(self).__name__)
        init = checked_init(self.init, self.recipe, self.max_clusters, rows.n_rows)
        all_rows = index = None
        if not rows.weights.all():
            all_rows, weighty = rows, np.flatnonzero(rows.weights)
            rows = rows.take(weighty)
            init = init if isinstance(init, str) else init[weighty]
        if isinstance(init, str):  # labels of single rows can't start from joined ones
            rows, index = collapse(rows)
            rows = repack(rows)
        prior, learned = fit_prior(self, codebook)
        total = float(rows.weights.sum())
        options = fit_options(self, init, total)
        starts = np.random.SeedSequence(int(seed.randint(2**31 - 1)))
        with self._workers() as workers, shown(self.verbose, rows.n_rows, total) as watch:
            problem = make_problem(rows, prior, workers, learned)
            fit = fit_mixture(problem, options, starts, watch)
            if self.max_clusters == AUTO and self.recipe == "default":
                fit = fit.with_components(room_for(fit.stats.n_clusters))
            weights = None
            if covariates:
                fit, weights = fit_weights(problem, options, fit, every, pattern, covariates)
            theta = expectations(fit.stats, fit.prior)
            if weights is not None:
                labels = weights.each(every, pattern, theta, label_rows, workers)
            elif all_rows is not None:
                labels = label_rows(all_rows, theta, workers)
            else:
                labels = label_rows(rows, theta, workers)
                labels = labels if index is None else labels[index]
        # Nothing is set before all is known: a fit that fails leaves the estimator as it was.
        self._note_columns(X, table, reset=True)
        self.labels_: IntArray = labels
        self.lower_bounds_ = np.array(fit.history.elbos)
        self.lower_bound_seconds_ = np.array(fit.history.seconds)
        self.history_: list[Move] = fit.history.moves
        self._take(codebook, fit.prior, fit.stats, fit.elbo, fit.history.n_iter, fit.converged)
        self._take_weights(weights)
        if not fit.converged:
            warnings.warn(
                f"not converged after {self.n_iter_} passes: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        if self.n_clusters_ == prior.n_components:
            warnings.warn(used_up("the fit", prior.n_components), CeilingWarning, stacklevel=2)
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[NDArray[Any], IntArray]:
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Rows to draw.
        random_state : int, RandomState or None
            None takes the estimator's own; if that is a number, every call draws the
            same rows.

        Returns
        -------
        X : array (n_samples, P)
            Rows with the values and in the order of `codebook_`: int64 or bool if all
            variables are of that kind, objects otherwise. None where missing is a level
            and was drawn.
        labels : int64 array (n_samples,)
            Their clusters.
        """
        check_is_fitted(self)
        check_whole("n_samples", n_samples, at_least=1)
        seed = checked_seed(self.random_state if random_state is None else random_state)
        rng = np.random.default_rng(int(seed.randint(2**31 - 1)))
        levels, labels = predictive.draw(self._stats, self._prior, n_samples, rng)
        return decode(levels, self.codebook_), labels

    def credible_intervals(self, level: float = 0.95) -> list[FloatArray]:
        """Return equal-tailed credible intervals of `level_probabilities_`.

        These are the paper's, and take each row's share in a cluster for known: they are too
        short where clusters overlap. `intervals` allows for that.

        Parameters
        ----------
        level : float, default=0.95
            Posterior probability inside each interval, between 0 and 1.

        Returns
        -------
        list of float64 arrays (K, L_j, 2)
            Lower and upper end, one array a variable.
        """
        check_is_fitted(self)
        check_share("level", level)
        return self._by_variable(predictive.level_intervals(self._stats, self._prior, level))

    def intervals(self, X: Any, sample_weight: Any = None) -> Intervals:
        """Return 95 % intervals of `weights_` and `level_probabilities_` that cover.

        They allow for rows that may belong to several clusters, which `credible_intervals` takes
        for sure; see the page on intervals in the documentation.

        Parameters
        ----------
        X : table
            The rows that were given to `fit`.
        sample_weight : array (N,), optional
            Their weights, if they had any.
        """
        rows, _ = collapse(self._rows(X, sample_weight))
        with self._workers() as workers:
            return own_intervals(repack(rows), self._stats, self._prior, workers)

    def worth(self) -> ClusterWorth | None:
        """Return what each cluster is worth: about how many nats the ELBO is lower without it.

        That is, merged with the cluster with which it loses least, or its rows given to all
        others. It is asked of rows that the clusters make up, the same every time. None of a
        single cluster.
        """
        check_is_fitted(self)
        return cluster_worth(self._stats, self._prior)

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        date: str | None = None,
        image_shape: tuple[int, int] | None = None,
        checks: Checks | None = None,
    ) -> None:
        """Write a page of pictures and tables of the clusters; see `GlobalModel.report`.

        Parameters
        ----------
        path, title, date, image_shape
            See `GlobalModel.report`.
        checks : Checks, optional
            What `checks` returned for the table, to be shown too.
        """
        check_is_fitted(self)
        if not isinstance(checks, Checks | None):
            raise OptionError("checks: give what MerDel.checks returned, or leave it out")
        model = replace(one_table(self), checks=checks)
        write_report(model, path, title=title, date=date, image_shape=image_shape, alone=True)

    def _clusters(self) -> tuple[Sums, Prior]:
        return self._stats, self._prior

    def _variables(self, table: Table) -> Table:
        own = () if self._weights is None else self._weights.variables
        return without(table, tuple(each.name for each in own)) if own else table

    def _given(self, X: Any, read: Reading, work: Work) -> NDArray[Any]:
        check_is_fitted(self)
        if self._weights is None:
            return super()._given(X, read, work)
        pattern = pattern_of(self._table(X), self._weights.variables)
        rows, theta = self._rows(X), read(self._stats, self._prior)
        with self._workers() as workers:
            return self._weights.each(rows, pattern, theta, work, workers)

    def _given_prior(self) -> FloatArray:
        return self._prior.eps

    def _saved(self) -> dict[str, Any]:
        weights = {} if self._weights is None else {"covariates": self._weights.to_dict()}
        return {**saved.clusters_content(self), **weights}

    def _restore(self, content: dict[str, Any]) -> None:
        codebook, prior, stats = saved.read_clusters(content)
        self._take(
            codebook,
            prior,
            stats,
            plain_number(content["lower_bound"]),
            plain_whole(content["n_iter"]),
            bool(content["converged"]),
        )
        told = content.get("covariates")
        self._take_weights(None if told is None else Weights.from_dict(told, stats.n_clusters))

    def _take(
        self,
        codebook: Codebook,
        prior: Prior,
        stats: Sums,
        elbo: float,
        n_iter: int,
        converged: bool,
    ) -> None:
        """Set what a fit found."""
        self.codebook_ = codebook
        self._prior, self._stats = prior, stats
        self.lower_bound_ = elbo
        self.n_iter_ = n_iter
        self.converged_ = converged
        self.n_clusters_ = stats.n_clusters
        self.weights_ = predictive.mean_weights(stats, prior)
        self.level_probabilities_ = self._by_variable(predictive.mean_levels(stats, prior))
        self.strengths_ = prior.strength
        self.floor_ = prior.floor
        included = prior.inclusion
        self.selection_probability_: FloatArray = (
            expit(log_odds(stats.S, prior)) if included is None else included
        )
        self.selected_: NDArray[np.bool_] = self.selection_probability_ > 0.5

    def _take_weights(self, weights: Weights | None) -> None:
        """Set what a fit found of covariates."""
        self._weights = weights
        self.covariate_effects_: tuple[Effect, ...] | None = None
        if weights is not None:
            self.covariate_effects_ = weights.membership.effects()

    def _by_variable(self, by_level: FloatArray) -> list[FloatArray]:
        return np.split(by_level, self._prior.offsets[1:-1], axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stats")
