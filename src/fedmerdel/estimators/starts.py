"""Many fits of one table with an estimator's options: other starts, other samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedmerdel.errors import OptionError
from fedmerdel.estimators.merdel import MerDel
from fedmerdel.estimators.replicates import DRAWN, aligned, numbers_text
from fedmerdel.fitting.fit import fit_mixture
from fedmerdel.fitting.history import InTurn
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.fitting.solution import make_problem
from fedmerdel.options import (
    check_options,
    checked_init,
    checked_seed,
    fit_options,
    fit_prior,
    thread_count,
)
from fedmerdel.progress import shown
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import encode
from fedmerdel.records.missing import check_complete, fit_codebook, guide_columns
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.records.tables import open_table
from fedmerdel.sums.agreement import SURVIVED
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.learning import Learned
from fedmerdel.sums.prior import Prior

Draw = Callable[[FloatArray, np.random.Generator], FloatArray]
"""Gives the weights of a fit's rows, of which there may be none."""


def _none() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Stability:
    """How surely clusters come back. `print` shows it as a table.

    Jaccard similarity is the rows in both of two clusters over those in either. Hennig
    (2007) calls a cluster stable from a mean of 0.75 on, and dissolved at 0.5 and below.

    Attributes
    ----------
    rows : float64 array (K,)
        Weight of the rows in each cluster.
    from_starts : float64 array (n_starts, K)
        Jaccard similarity of each cluster to the one most alike, in a fit of the same rows
        from each other start.
    from_bootstrap : float64 array (n_bootstrap, K)
        The same for a fit of each bootstrap sample, on all rows.
    clusters_from_starts, clusters_from_bootstrap : int64 arrays (n_starts,), (n_bootstrap,)
        How many clusters each of these fits has.
    """

    rows: FloatArray
    from_starts: FloatArray
    from_bootstrap: FloatArray
    clusters_from_starts: IntArray = field(default_factory=_none)
    clusters_from_bootstrap: IntArray = field(default_factory=_none)

    @property
    def over_starts(self) -> FloatArray:
        """Mean Jaccard similarity over starts: (K,); empty if there were none."""
        return _mean(self.from_starts)

    @property
    def over_bootstrap(self) -> FloatArray:
        """Mean Jaccard similarity over bootstrap samples: (K,); empty if there were none."""
        return _mean(self.from_bootstrap)

    @property
    def survived_starts(self) -> FloatArray:
        """Share of starts in which the similarity was at least 0.75: (K,); or empty."""
        return _mean(self.from_starts >= SURVIVED)

    @property
    def survived_bootstrap(self) -> FloatArray:
        """Share of bootstrap samples in which it was at least 0.75: (K,); or empty."""
        return _mean(self.from_bootstrap >= SURVIVED)

    def __str__(self) -> str:
        clusters = range(len(self.rows))
        columns = [
            ["cluster", *map(str, clusters)],
            ["rows", *(f"{rows:,.0f}" for rows in self.rows)],
            ["starts", *(f"{mean:.2f}" for mean in self.over_starts)],
            ["found again", *(f"{share:.0%}" for share in self.survived_starts)],
            ["bootstrap", *(f"{mean:.2f}" for mean in self.over_bootstrap)],
            ["found again", *(f"{share:.0%}" for share in self.survived_bootstrap)],
        ]
        lines = aligned([column for column in columns if len(column) > 1])
        for what, numbers in (
            ("starts", self.clusters_from_starts),
            ("bootstrap samples", self.clusters_from_bootstrap),
        ):
            if len(numbers):
                lines.append(f"clusters: {numbers_text(numbers)} {what}")
        return "\n".join(lines)


def _mean(values: Any) -> FloatArray:
    """Return the mean over fits, of which there may be none."""
    return np.asarray(values.mean(axis=0)) if len(values) else np.empty(0)


class Trial(NamedTuple):
    """A table made ready to be fitted many times.

    Attributes
    ----------
    rows : PackedRows
        Its rows; identical ones may be one.
    became : int64 array (N,) or None
        Which of these each row of the table became, if so.
    prior, learned, options
        Of a fit.
    entropy : int
        Where all random numbers come from.
    """

    rows: PackedRows
    became: IntArray | None
    prior: Prior
    learned: Learned
    options: Options
    entropy: int

    def of_rows(self, of_held: IntArray) -> IntArray:
        """Return what is known of the rows held for each row of the table."""
        return of_held if self.became is None else of_held[self.became]


class Fits(NamedTuple):
    """What many fits found.

    Attributes
    ----------
    labels : int64 array (S, N)
        The cluster of each of the trial's rows in each fit.
    lower_bounds : float64 array (S,)
        The ELBO of each fit.
    n_clusters : int64 array (S,)
        The clusters of each fit.
    """

    labels: IntArray
    lower_bounds: FloatArray
    n_clusters: IntArray


def checked_model(model: Any) -> MerDel:
    """Return the estimator, if it is one and can start anew."""
    if not isinstance(model, MerDel):
        raise OptionError("model: give a MerDel")
    check_options(model)
    if model.init is not None and not isinstance(model.init, str):
        raise OptionError("init: labels are one start only: give 'divide', 'kmodes' or 'random'")
    return model


def make_trial(model: MerDel, X: Any, sample_weight: Any = None, *, known: bool = False) -> Trial:
    """Encode a table as `fit` does; or, for what a fitted estimator knows, as `predict` does."""
    seed = checked_seed(model.random_state)
    table = open_table(X)
    if known:
        codebook = model.codebook_
        model._note_columns(X, table, reset=False)
        if model.missing == "error":
            check_complete(table, guide_columns(table, codebook))
    else:
        codebook = fit_codebook(table, model.codebook, model.missing, model.guide)
    rows, became = collapse(encode(table, codebook, sample_weight, owner=type(model).__name__))
    total = float(rows.weights.sum())
    init = checked_init(model.init, model.recipe, model.max_clusters, rows.n_rows)
    # These fits are starts themselves: each is one, unless the estimator says otherwise.
    options = replace(fit_options(model, init, total), n_init=model.n_init or 1)
    entropy = int(seed.randint(2**31 - 1))
    return Trial(repack(rows), became, *fit_prior(model, codebook), options, entropy)


def run_fits(
    model: MerDel, trial: Trial, n_fits: int, stream: int, draw: Draw | None = None
) -> Fits:
    """Fit the rows many times, side by side, and label all of them by each fit.

    Parameters
    ----------
    model : MerDel
        Whose threads, and whether to show a line.
    trial : Trial
        What to fit.
    n_fits : int
        How often.
    stream : int
        Fits of different streams never share a random number.
    draw : callable, optional
        Gives each fit other weights of the rows; without it they keep theirs.
    """
    rows = trial.rows
    seeds = np.random.SeedSequence(trial.entropy, spawn_key=(stream,)).spawn(n_fits)

    def one(number: int, workers: Workers) -> tuple[IntArray, float, int, bool]:
        for_draw, for_fit = seeds[number].spawn(2)
        weights = rows.weights
        if draw is not None:
            weights = draw(weights, np.random.default_rng(for_draw))
        # Rows that count for nothing would only slow the passes: they are labelled after.
        counting = PackedRows(rows.codes, weights, rows.packing).take(np.flatnonzero(weights))
        problem = make_problem(counting, trial.prior, workers, trial.learned)
        with watched.part(number) as part:
            fit = fit_mixture(problem, trial.options, for_fit, part)
        labels = label_rows(rows, expectations(fit.stats, fit.prior), workers)
        return labels, fit.elbo, fit.stats.n_clusters, fit.converged

    total = float(rows.weights.sum())
    with (
        shown(model.verbose, rows.n_rows, total) as watch,
        Workers(thread_count(model.n_jobs)) as pool,
    ):
        watched = InTurn(watch)
        labels, elbos, numbers, converged = zip(*pool.side_by_side(n_fits, one), strict=True)
    if not all(converged):
        left = converged.count(False)
        warnings.warn(
            f"{left} of {n_fits} fits not converged: raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Fits(np.array(labels), np.array(elbos), np.array(numbers))


def bootstrap(weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the weights of a bootstrap sample in which a row drawn twice counts once.

    Counted as often as they were drawn, copies of a row would be clusters of their own: a
    mixture that looks for the number of clusters finds twice as many. Without copies, rows
    are in the sample or not, each with probability 1 - 1/e. Of a row of weight three, each
    of three rows is.
    """
    whole = np.floor(weights)
    drawn = np.zeros(len(weights))
    while not drawn.any():  # of very few rows, all may be left out
        drawn = rng.binomial(whole.astype(np.int64), DRAWN).astype(np.float64)
        drawn += (weights - whole) * (rng.random(len(weights)) < DRAWN)
    return drawn
