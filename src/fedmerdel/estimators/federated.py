"""`FedMerDel` clusters rows of many sites, or batches, as a federation would."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fedmerdel.centre.federation import Federation, merge_trusted, model_of_total
from fedmerdel.centre.lineage import Ancestor, Round
from fedmerdel.centre.run import Rounds, run_trusted
from fedmerdel.centre.summed import summed_up
from fedmerdel.errors import DataError, OptionError
from fedmerdel.estimators.batches import site_of_rows
from fedmerdel.estimators.fitted import FittedClusters
from fedmerdel.estimators.private import private_fit
from fedmerdel.estimators.summed import run_sums
from fedmerdel.fitting.options import Init
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import (
    check_options,
    check_whole,
    checked_seed,
    fit_options,
    thread_count,
)
from fedmerdel.private.budget import make_budget
from fedmerdel.progress import shown, shown_rounds
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import encode
from fedmerdel.records.missing import fit_codebook
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.records.tables import open_table
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.assign import site_expectations
from fedmerdel.site.fit_site import release_fit
from fedmerdel.site.local_fit import LocalFit, fit_rows
from fedmerdel.site.reply_site import release_reply
from fedmerdel.study.codebook import Codebook, Missing
from fedmerdel.study.policy import policy_named
from fedmerdel.study.priors import site_learns, study_prior
from fedmerdel.study.promise import DEFAULT_NOISE, Kind, Promise
from fedmerdel.study.study import MOST_ROUNDS, Study
from fedmerdel.summing.rounds import Brought
from fedmerdel.sums.arrays import FloatArray, IntArray, plain_number, plain_whole
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.search import Search
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.sums.sums import Sums

SUMS_ROUNDS = 60
"""Most rounds of sums where nobody says how many: they end by themselves before."""


class FedMerDel(FittedClusters, ClusterMixin, BaseEstimator):
    """Cluster the rows of several sites through their statistics alone (the paper's FedMerDel).

    Each site is fitted by itself; then the sites' clusters are merged by gain in the
    evidence lower bound, computed from summaries. In one process, for research: across
    real sites, use `fit_site` and `merge_sites`, or the command line.

    Parameters
    ----------
    max_clusters : int or "auto", default="auto"
        Most clusters that a site may find; see `MerDel`.
    n_batches : int or None, default=None
        Random batches where `fit` is given no `groups`; None is one per 5,000 rows.
    search : {"auto", "exact", "tree", "greedy", "random"}, default="auto"
        How the global clusters are searched; see `merge_sites`.
    rounds : int or "auto", default=0
        Rounds after the first merge: 0 is one shot. Each lets the sites count their rows in
        the global clusters and the centre improve them by the sums, so that the model comes ever
        nearer to one of pooled rows. "auto" goes on until that stops paying. Promises "sums"
        and "dp" have no first merge, and take 0 for "auto".
    policy : str, default="none"
        Disclosure policy by its name, such as "opensafely": of what leaves each site or, under
        promise "sums", of the model.
    promise : {"counts", "sums", "dp"}, default="counts"
        What leaves a site: its own counts; or, with "sums", numbers of which only totals over all
        sites can be read, with a little noise; or, with "dp", with as much as a budget asks for,
        half of the sites being honest. Here noise is drawn from `random_state`: the result is that
        of real sites, but nobody is protected by it. (Under "dp" without a `random_state` it is the
        operating system's.)
    noise : float, default=2.0
        Of promise "sums": standard deviation of the noise on each total, in rows.
    epsilon, delta : float or None, default=None
        Of promise "dp": the budget, over all that is told.
    recipe, laps, merge_criterion, alpha, tol, absolute_tol, max_iter
        Of the fit at each site; see `MerDel`. `merge_criterion` also serves the paper's
        searches, "greedy" and "random".
    n_init : int or None, default=None
        Starts at each site. None is 1, and up to 4 at sites with fewer than 2,000 rows.
    prior, variable_selection
        See `MerDel`. A learned prior is learned at each site, and by the centre from the sum
        of their statistics; variables are selected by what the sites selected.
    guide : mapping of str to float, or None, default=None
        Outcomes that help to find the clusters, and the weight of each; see `MerDel`.
    missing : {"ignore", "level", "error"}, default="ignore"
        What missing entries are; see `MerDel`. With "level", every variable has the level, as
        in a `Study`, since a site can't know where the others have missing entries.
    codebook : Codebook or None, default=None
        Variables and levels. None takes them from the table given to `fit`.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None, default=None
        A number gives the same result every time.
    verbose : int, default=0
        1 shows a line that moves while a site is fitted.

    Attributes
    ----------
    labels_ : int64 array (N,)
        The global cluster of each row, assigned anew with its site's own weights.
    frozen_labels_ : int64 array (N,)
        The paper's labels: each row keeps its local cluster's company. With rounds, those of
        the first merge, and of its clusters.
    local_labels_ : int64 array (N,)
        The cluster of each row in its own site's fit, as `lineage_` numbers them; -1 at a site
        whose rows all have weight 0.
    n_clusters_ : int
        Global clusters.
    lower_bound_ : float
        The global ELBO in nats of the counts that the sites released, at their own
        responsibilities, or at those of the last round. See `MerDel` for a learned prior.
    lineage_ : tuple of Ancestor
        Where each local cluster went.
    federation_ : Federation
        What each site sent, and how it was merged.
    model_ : GlobalModel
        The merged clusters.
    selection_probability_, selected_ : arrays (P,)
        Variables that tell the global clusters apart; see `GlobalModel`.
    record_ : tuple of Round, or of Brought under promise "sums"
        What each round has brought; empty after one shot.
    n_iter_ : int
        Passes of the site that took the most; rounds, under promise "sums". Where only totals
        are told there are no sites' clusters: `federation_`, `lineage_`, `frozen_labels_` and
        `local_labels_` are not set.
    codebook_ : Codebook
        Variables and levels.
    n_features_in_, feature_names_in_
        Variables, and their names where the table has any.

    Examples
    --------
    >>> import numpy as np
    >>> from fedmerdel import FedMerDel, simulate
    >>> table = simulate(4000, n_clusters=5, random_state=1)
    >>> hospital = np.arange(4000) % 4
    >>> FedMerDel(random_state=1).fit(table.X, groups=hospital).n_clusters_
    5
    """

    def __init__(
        self,
        max_clusters: int | Literal["auto"] = "auto",
        *,
        n_batches: int | None = None,
        search: Search = "auto",
        rounds: Rounds = 0,
        policy: str = "none",
        promise: Kind = "counts",
        noise: float = DEFAULT_NOISE,
        epsilon: float | None = None,
        delta: float | None = None,
        recipe: Literal["default", "paper"] = "default",
        laps: int | None = 5,
        merge_criterion: MergeCriterion = "correlation",
        alpha: float = 0.01,
        tol: float | None = None,
        absolute_tol: float | None = None,
        max_iter: int | None = None,
        n_init: int | None = None,
        prior: Literal["learned", "fixed"] | Any = None,
        variable_selection: bool = False,
        guide: Mapping[str, float] | None = None,
        missing: Missing = "ignore",
        codebook: Codebook | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.max_clusters = max_clusters
        self.n_batches = n_batches
        self.search = search
        self.rounds = rounds
        self.policy = policy
        self.promise = promise
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.recipe = recipe
        self.laps = laps
        self.merge_criterion = merge_criterion
        self.alpha = alpha
        self.tol = tol
        self.absolute_tol = absolute_tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.prior = prior
        self.variable_selection = variable_selection
        self.guide = guide
        self.missing = missing
        self.codebook = codebook
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit each site and merge the sites' clusters.

        Parameters
        ----------
        X : array, pandas, polars or Arrow table, or path of a CSV or Parquet file
            The rows of all sites.
        y : None
            Ignored.
        groups : array (N,), optional
            The site of each row; without it, rows go to random batches.
        sample_weight : array (N,), optional
            Weight of each row; one of weight 0 gets a label, but has no say in the clusters.

        Returns
        -------
        FedMerDel
            This estimator, fitted.
        """
        check_options(self)
        if self.n_batches is not None:
            check_whole("n_batches", self.n_batches, at_least=1)
        if self.rounds != "auto":
            check_whole("rounds", self.rounds, at_least=0, at_most=MOST_ROUNDS)
        table = open_table(X)
        entropy = int(checked_seed(self.random_state).randint(2**31 - 1))
        study = self._study(fit_codebook(table, self.codebook, self.missing, self.guide), entropy)
        codebook = study.codebook
        rows = encode(table, codebook, sample_weight, owner=type(self).__name__)
        names, site = site_of_rows(
            groups, self.n_batches, rows.n_rows, np.random.default_rng(entropy)
        )
        # A site whose rows all have weight 0 has nothing to say; they are labelled all the same.
        weighty = np.flatnonzero(rows.weights)
        sites = np.unique(site[weighty]).tolist()
        seeds = np.random.SeedSequence(entropy).spawn(len(names))
        with Workers(thread_count(self.n_jobs)) as workers:
            parts = {names[b]: rows.take(weighty[site[weighty] == b]) for b in sites}
            if study.promise.adds_up:
                model, record = self._added_up(study, list(parts.values()), workers)
                labels = _labels(rows, site, model, workers)
                self._note_columns(X, table, reset=True)
                self._set_model(model, labels, record)
                assert model.elbo is not None
                self.lower_bound_ = model.elbo
                return self
            fits = {
                names[b]: self._fit_one(parts[names[b]], study, seeds[b], workers) for b in sites
            }
            summaries = [
                release_fit(study, name, fit, parts[name], {}, workers).summary
                for name, fit in fits.items()
            ]
            federation = merge_trusted(study, summaries, self.search, self.merge_criterion)
            labels = _labels(rows, site, federation.model, workers)
            local_labels = _local_labels(rows, site, names, fits, workers)
            frozen_labels = _frozen_labels(local_labels, site, names, federation, labels)
            if self.rounds:
                ask = _sites(study, parts, workers)
                n_rounds = None if self.rounds == "auto" else self.rounds
                with shown_rounds(self.verbose, n_rounds) as watch:
                    federation = run_trusted(federation, ask, self.rounds, watch)
                labels = _labels(rows, site, federation.model, workers)
        # Nothing is set before all is known: a fit that fails leaves the estimator as it was.
        self._note_columns(X, table, reset=True)
        self._set_model(federation.model, labels, federation.record)
        self.federation_ = federation
        self.lower_bound_ = federation.lower_bound
        self.lineage_: tuple[Ancestor, ...] = federation.lineage
        self.frozen_labels_: IntArray = frozen_labels
        self.local_labels_: IntArray = local_labels
        self.n_iter_ = max(fit.n_iter for fit in fits.values())
        if not all(fit.converged for fit in fits.values()):
            warnings.warn(
                f"a site has not converged after {self.n_iter_} passes: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        date: str | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        """Write a page of pictures and tables; see `GlobalModel.report`.

        With its parts about each site, unless the estimator was loaded: a file has no site's
        counts.
        """
        check_is_fitted(self)
        shown = getattr(self, "federation_", self.model_)
        shown.report(path, title=title, date=date, image_shape=image_shape)

    def _added_up(
        self, study: Study, parts: list[PackedRows], workers: Workers
    ) -> tuple[GlobalModel, tuple[Brought, ...]]:
        """Return what rounds of sums over the sites lead to, and what each has brought."""
        if len(parts) < study.promise.least_sites:
            raise DataError(
                f"groups: {len(parts)} sites have rows, and promise {self.promise!r} adds up "
                f"{study.promise.least_sites} at least: their totals would tell of single sites"
            )
        record: tuple[Brought, ...] = ()
        if study.promise.kind == "dp":
            sums, prior = self._private(study, parts, workers)
        else:
            patient = self.rounds not in (0, "auto")
            with shown_rounds(self.verbose, study.rounds if patient else None) as watch:
                state = run_sums(study, parts, workers, patient=patient, watch=watch)
            sums, prior, record = state.sums, state.prior, state.record
        total = summed_up(study, sums, prior)
        return model_of_total(study, total, len(parts), len(record)), record

    def _private(
        self, study: Study, parts: list[PackedRows], workers: Workers
    ) -> tuple[Sums, Prior]:
        """Return what a budget of privacy lets be known."""
        promise = study.promise
        assert promise.epsilon is not None
        assert promise.delta is not None
        budget = make_budget(
            promise.epsilon, promise.delta, len(parts), promise.honest_sites, promise.unit
        )
        sites = {f"site {b}": part for b, part in enumerate(parts)}
        rng = None if self.random_state is None else np.random.default_rng(study.seed)
        state = private_fit(study, sites, budget, workers=workers, rng=rng)
        return state.sums, state.prior

    def _set_model(
        self, model: GlobalModel, labels: IntArray, record: tuple[Round | Brought, ...]
    ) -> None:
        self.labels_: IntArray = labels
        self._take(model)
        self.record_ = record
        self.n_iter_ = len(record)

    def _clusters(self) -> tuple[Sums, Prior]:
        # Where the rows' site is not known, everyone's weights.
        return self.model_.sums, self.model_.row_prior

    def _level_prior(self) -> Prior:
        return self.model_.prior

    def _given_prior(self) -> FloatArray:
        return np.array(self.model_.study.prior)

    def _saved(self) -> dict[str, Any]:
        files = {name: content.decode() for name, content in self.model_.to_files().items()}
        return {"model": files, "lower_bound": self.lower_bound_, "n_iter": self.n_iter_}

    def _restore(self, content: dict[str, Any]) -> None:
        files = {str(name): str(text).encode() for name, text in content["model"].items()}
        self._take(GlobalModel.read(files, "its model"))
        self.lower_bound_ = plain_number(content["lower_bound"])
        self.n_iter_ = plain_whole(content["n_iter"])

    def _take(self, model: GlobalModel) -> None:
        """Set what the model says."""
        self.model_ = model
        self.codebook_ = model.study.codebook
        self.n_clusters_ = model.n_clusters
        self.selection_probability_ = model.selection_probability
        self.selected_: NDArray[np.bool_] = np.isin(self.codebook_.names, model.selected)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _study(self, codebook: Codebook, entropy: int) -> Study:
        return Study(
            "FedMerDel",
            codebook,
            max_clusters=self.max_clusters,
            recipe=self.recipe,
            laps=self.laps,
            merge_criterion=self.merge_criterion,
            alpha=float(self.alpha),
            prior=self.prior,
            variable_selection=self.variable_selection,
            missing=self.missing,
            policy=policy_named(self.policy),
            promise=Promise(
                *(self.promise, self.noise),
                epsilon=self.epsilon,
                delta=self.delta,
                # In one process there is nobody to be trusted or not: whoever runs it has all rows.
                trusts_centre=self.promise == "counts",
            ),
            rounds=self._most_rounds(),
            seed=entropy,
        )

    def _most_rounds(self) -> int:
        if self.promise == "counts":
            return MOST_ROUNDS  # here the estimator's own number decides
        if self.promise == "dp" and self.rounds not in (0, "auto"):
            raise OptionError("rounds: the budget of promise 'dp' says how many: leave it out")
        return SUMS_ROUNDS if self.rounds in (0, "auto") else int(self.rounds)

    def _fit_one(
        self, rows: PackedRows, study: Study, seed: np.random.SeedSequence, workers: Workers
    ) -> LocalFit:
        total = float(rows.weights.sum())
        init: Init = "divide" if self.recipe == "default" else "kmodes"
        options = fit_options(self, init, total, at_site=True)
        prior = study_prior(study, study.n_components)
        with shown(self.verbose, rows.n_rows, total) as watch:
            return fit_rows(rows, prior, site_learns(study), options, seed, workers, watch)


def _sites(
    study: Study, parts: dict[str, PackedRows], workers: Workers
) -> Callable[[Broadcast], list[SiteSummary]]:
    """Return who asks the sites: here they are all at hand, and reply side by side."""
    names = list(parts)
    rows = [repack(collapse(part)[0]) for part in parts.values()]

    def ask(broadcast: Broadcast) -> list[SiteSummary]:
        def reply(b: int, own: Workers) -> SiteSummary:
            return release_reply(study, broadcast, names[b], rows[b], {}, own).summary

        return workers.side_by_side(len(names), reply)

    return ask


def _labels(rows: PackedRows, site: IntArray, model: GlobalModel, workers: Workers) -> IntArray:
    """Return the most probable cluster of each row, by weights found at its site."""
    labels = np.empty(rows.n_rows, dtype=np.int64)
    for b in np.unique(site):
        at = np.flatnonzero(site == b)
        own = rows.take(at)
        labels[at] = label_rows(own, site_expectations(model, own, workers), workers)
    return labels


def _local_labels(
    rows: PackedRows, site: IntArray, names: list[str], fits: dict[str, LocalFit], workers: Workers
) -> IntArray:
    """Return the cluster of each row in its own site's fit; -1 at a site without one."""
    labels = np.full(rows.n_rows, -1, dtype=np.int64)
    for b, name in enumerate(names):
        if name in fits:
            at = np.flatnonzero(site == b)
            labels[at] = label_rows(rows.take(at), fits[name].theta, workers)
    return labels


def _frozen_labels(
    local: IntArray, site: IntArray, names: list[str], federation: Federation, labels: IntArray
) -> IntArray:
    """Return labels as the paper freezes them: each row goes where its local cluster went.

    A row without a local cluster keeps the label that it is given.
    """
    # A cluster of the fit may be no row's most probable one.
    n_local = 1 + max(ancestor.local_cluster for ancestor in federation.lineage)
    became = np.zeros((len(names), n_local), dtype=np.int64)
    for ancestor in federation.lineage:
        became[names.index(ancestor.site), ancestor.local_cluster] = ancestor.cluster
    return np.where(local >= 0, became[site, local], labels)
