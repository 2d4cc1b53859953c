"""`federation_stability` says how surely a federation's clusters, and their number, come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedmerdel.centre.merge import merge_groups
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.step import step
from fedmerdel.errors import OptionError
from fedmerdel.estimators.made_up_sites import everyone, site_sources
from fedmerdel.estimators.replicates import DRAWN, FederationStability, Replicates
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.options import check_whole, checked_seed, thread_count
from fedmerdel.progress import shown_draws
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.fit_site import release_fit
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.site.reply_site import release_reply
from fedmerdel.study.priors import study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.agreement import SURVIVED, most_alike
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations

N_JUDGES = 20_000
"""Rows that say how alike clusters are: made up, and the same for all."""


class Compared(NamedTuple):
    """One line of `Replicates`: how many clusters there were, and what came back of each."""

    n_clusters: int
    likeness: FloatArray
    shares: FloatArray


def federation_stability(
    federation: FederationState,
    *,
    n_bootstrap: int = 20,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> FederationStability:
    """Make rows up, let the whole study run again on them, and look for its clusters.

    A parametric bootstrap from what the sites released: nothing is asked of them, and nothing
    more leaves them. In each draw every site gets as many new rows as it has, from its own
    clusters, whose levels are drawn from their posterior; it fits them, protects its counts by
    the study's policy, the clusters are merged, and there are as many rounds as the federation
    has gone through. The same is done with some of the sites alone: each is in the draw with
    probability 1 - 1/e. Clusters are compared by rows that the common clusters make up.

    Rows are made up from the clusters, so this can't tell that a cluster is none: it tells
    whether there are rows enough to find it again.

    It takes about as long as all sites' fits, times `n_bootstrap`. Where a study has weights, a
    site gets as many rows as its weights sum to.

    Parameters
    ----------
    federation : Federation
        Whose clusters are looked for.
    n_bootstrap : int, default=20
        Draws.
    n_jobs : int or None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None, default=0
        A number gives the same result every time.
    verbose : int, default=0
        1 shows a line that moves.

    Returns
    -------
    FederationStability
        Numbers of clusters, and for each cluster how surely it comes back.

    References
    ----------
    Hennig (2007), Cluster-wise assessment of cluster stability, Computational Statistics and
    Data Analysis 52, 258-271.
    """
    if not isinstance(federation, FederationState):
        raise OptionError("federation: give a Federation, such as merge_sites returns")
    check_whole("n_bootstrap", n_bootstrap, at_least=1)
    threads = thread_count(n_jobs)
    entropy = int(checked_seed(random_state).randint(2**31 - 1))
    seeds = np.random.SeedSequence(entropy).spawn(n_bootstrap + 1)
    judges = everyone(federation).rows(N_JUDGES, np.random.default_rng(seeds[-1]))
    study, sources, names = (
        _bare_study(federation.study),
        site_sources(federation),
        federation.sites,
    )
    n_clusters, several = federation.n_clusters, len(names) > 1
    with Workers(threads) as pool, shown_draws(verbose, n_bootstrap) as watch:
        labels = _labels(federation, judges, pool)

        def compared(found: FederationState, workers: Workers) -> Compared:
            other = _labels(found, judges, workers)
            likeness, which = most_alike(labels, other, judges.weights, n_clusters)
            shares = found.sums.T[which] / found.sums.T.sum()
            shares = np.where(likeness >= SURVIVED, shares, np.nan)
            return Compared(found.n_clusters, likeness, shares)

        def draw(number: int, workers: Workers) -> list[Compared]:
            *own, for_sites = seeds[number].spawn(len(names) + 1)
            tables, sent = {}, []
            for name, source, seed in zip(names, sources, own, strict=True):
                for_rows, for_fit = seed.spawn(2)
                tables[name] = source.rows_again(np.random.default_rng(for_rows))
                sent.append(_fitted(study, name, tables[name], for_fit, workers))
            ways = [tuple(sent)]
            if several:
                ways.append(_drawn(sent, np.random.default_rng(for_sites)))
            found = [
                compared(_repeated(federation, study, tables, way, workers), workers)
                for way in ways
            ]
            watch(found[0].n_clusters)
            return found

        draws = pool.side_by_side(n_bootstrap, draw)
    return FederationStability(
        tuple(federation.name(k) for k in range(n_clusters)),
        federation.site_rows.sum(axis=0),
        _together([each[0] for each in draws], n_clusters),
        _together([each[1] for each in draws if several], n_clusters),
    )


def _bare_study(study: Study) -> Study:
    """Return the study of rows that have variables and nothing else, and that nobody signs."""
    return replace(
        study,
        outcomes=(),
        covariates=(),
        checks=False,
        check_pairs=(),
        row_id=None,
        weight=None,
        centre_key=None,
        site_keys=(),
    )


def _fitted(
    study: Study, site: str, rows: PackedRows, seed: np.random.SeedSequence, workers: Workers
) -> SiteSummary:
    """Fit a site's rows and protect its counts, as `fit_site` does."""
    prior = study_prior(study, study.n_components)
    fitted = fit_in_batches(study, rows, prior, seed, workers, None)
    return release_fit(study, site, fitted, rows, {}, workers).summary


def _drawn(sent: Sequence[SiteSummary], rng: np.random.Generator) -> tuple[SiteSummary, ...]:
    """Draw as many sites as there are, with replacement; one that is drawn twice counts once."""
    inside = np.zeros(len(sent), dtype=bool)
    while not inside.any():  # of few sites, all may be left out
        inside = rng.random(len(sent)) < DRAWN
    return tuple(each for each, drawn in zip(sent, inside.tolist(), strict=True) if drawn)


def _repeated(
    before: FederationState,
    study: Study,
    tables: Mapping[str, PackedRows],
    sent: tuple[SiteSummary, ...],
    workers: Workers,
) -> FederationState:
    """Merge what sites sent as it was done before, and go through as many rounds.

    Parameters
    ----------
    before : FederationState
        The federation that is repeated.
    study : Study
        Its bare study.
    tables : mapping of str to PackedRows
        The rows of each site.
    sent : tuple of SiteSummary
        What the sites that take part sent, in the order of their names.
    workers : Workers
        The threads to work with.
    """
    groups = merge_groups(study, sent, before.search, before.criterion)
    found = FederationState(study, sent, groups, before.search, before.criterion)
    for _ in before.record:
        sent_out = found.broadcast
        found, _ = step(
            found,
            [
                release_reply(study, sent_out, each.site, tables[each.site], {}, workers).summary
                for each in sent
            ],
        )
    return found


def _labels(found: FederationState, rows: PackedRows, workers: Workers) -> IntArray:
    return label_rows(rows, expectations(found.sums, found.row_prior), workers)


def _together(draws: list[Compared], n_clusters: int) -> Replicates:
    shape = (len(draws), n_clusters)
    return Replicates(
        np.array([each.n_clusters for each in draws], dtype=np.int64),
        np.array([each.likeness for each in draws]).reshape(shape),
        np.array([each.shares for each in draws]).reshape(shape),
    )
