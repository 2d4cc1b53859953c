"""`federation_stability` says how surely a federation's clusters, and their number, come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedmerdel.centre.federation import Federation
from fedmerdel.centre.merge import merge_groups
from fedmerdel.centre.run import run_trusted
from fedmerdel.centre.state import FederationState
from fedmerdel.errors import OptionError
from fedmerdel.estimators.made_up_sites import Source, everyone, site_sources
from fedmerdel.estimators.replicates import DRAWN, SURVIVED, Replicates, aligned, numbers_text
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.options import check_whole, checked_seed, thread_count
from fedmerdel.progress import shown_draws
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.grid import number_text, write_grid
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.fit_site import release_fit
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.site.reply_site import release_reply
from fedmerdel.study.priors import study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.agreement import most_alike
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations

N_JUDGES = 20_000
"""Rows that say how alike clusters are: made up, and the same for all."""

COLUMNS = ("draw", "sites", "clusters", "cluster", "name", "likeness", "share")
"""Of the file of all draws."""


@dataclass(frozen=True)
class FederationStability:
    """How surely the clusters of a federation come back. `print` shows it as a table.

    Attributes
    ----------
    names : tuple of str
        The clusters' names.
    rows : float64 array (K,)
        Rows of each cluster, as the sites told them.
    new_rows : Replicates
        With new rows at all sites.
    other_sites : Replicates
        With new rows, at some of the sites alone; without a draw where there is one site.
    """

    names: tuple[str, ...]
    rows: FloatArray
    new_rows: Replicates
    other_sites: Replicates

    def __str__(self) -> str:
        columns = [
            ["cluster", *self.names],
            ["rows", *(f"{rows:,.0f}" for rows in self.rows)],
        ]
        lines = []
        for title, found in (("new rows", self.new_rows), ("other sites", self.other_sites)):
            if len(found.n_clusters):
                columns.append([title, *(f"{mean:.2f}" for mean in found.mean_likeness)])
                columns.append(["found again", *(f"{each:.0%}" for each in found.found_again)])
                lines.append(f"clusters with {title}: {numbers_text(found.n_clusters)} draws")
        ranges = self.new_rows.share_range()
        columns.append(["share of rows", *(_range(*each) for each in ranges.tolist())])
        return "\n".join([*aligned(columns), *lines])

    def to_csv(self) -> str:
        """Return all draws as the text of a CSV file: a line for each draw and cluster."""
        lines = []
        for sites, found in (("all", self.new_rows), ("drawn", self.other_sites)):
            for r, n_clusters in enumerate(found.n_clusters.tolist()):
                for k, name in enumerate(self.names):
                    share = float(found.shares[r, k])
                    lines.append(
                        [
                            str(r + 1),
                            sites,
                            str(n_clusters),
                            str(k),
                            name,
                            number_text(float(found.likeness[r, k])),
                            "" if np.isnan(share) else number_text(share),
                        ]
                    )
        return write_grid(list(COLUMNS), lines)


def is_draws(first: bytes) -> bool:
    """Whether these are the first bytes of what `FederationStability.to_csv` gave."""
    return first.startswith(",".join(COLUMNS).encode())


def _range(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"{low:.1%} to {high:.1%}"


def federation_stability(
    federation: Federation,
    *,
    n_bootstrap: int = 20,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> FederationStability:
    """Make rows up, let the whole study run again on them, and look for its clusters.

    A parametric bootstrap from what the sites released: nothing is asked of them, and nothing
    more leaves them. In each draw every site gets as many new rows as it has, drawn from its own
    clusters; it fits them, protects its counts by the study's policy, the clusters are merged,
    and there are as many rounds as the federation has gone through. The same is done with some
    of the sites alone: each is in the draw with probability 1 - 1/e.

    It takes about as long as all sites' fits, times `n_bootstrap`.

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
    if not isinstance(federation, Federation):
        raise OptionError("federation: give a Federation, such as merge_sites returns")
    check_whole("n_bootstrap", n_bootstrap, at_least=1)
    threads = thread_count(n_jobs)
    entropy = int(checked_seed(random_state).randint(2**31 - 1))
    seeds = np.random.SeedSequence(entropy).spawn(n_bootstrap + 1)
    judges = everyone(federation).rows(N_JUDGES, np.random.default_rng(seeds[-1]))
    study, sources, names = _bare(federation.study), site_sources(federation), federation.sites
    n_clusters, several = federation.n_clusters, len(federation.sites) > 1
    with Workers(threads) as pool, shown_draws(verbose, n_bootstrap) as watch:
        labels = _labels(federation, judges, pool)

        def compared(found: FederationState, workers: Workers) -> tuple[int, FloatArray, FloatArray]:
            other = _labels(found, judges, workers)
            likeness, which = most_alike(labels, other, judges.weights, n_clusters)
            shares = found.sums.T[which] / found.sums.T.sum()
            return found.n_clusters, likeness, np.where(likeness >= SURVIVED, shares, np.nan)

        def draw(number: int, workers: Workers) -> list[tuple[int, FloatArray, FloatArray]]:
            *own, for_sites = seeds[number].spawn(len(names) + 1)
            tables, sent = {}, []
            for name, source, seed in zip(names, sources, own, strict=True):
                for_rows, for_fit = seed.spawn(2)
                tables[name] = source.rows(source.n_rows, np.random.default_rng(for_rows))
                sent.append(_fitted(study, name, tables[name], for_fit, workers))
            found = [compared(_repeated(federation, study, tables, sent, workers), workers)]
            if several:
                drawn = _some(sent, np.random.default_rng(for_sites))
                found.append(
                    compared(_repeated(federation, study, tables, drawn, workers), workers)
                )
            watch(found[0][0])
            return found

        draws = pool.side_by_side(n_bootstrap, draw)
    return FederationStability(
        tuple(federation.name(k) for k in range(n_clusters)),
        federation.site_rows.sum(axis=0),
        _together([each[0] for each in draws], n_clusters),
        _together([each[1] for each in draws if several], n_clusters),
    )


def _bare(study: Study) -> Study:
    """Return the study of made-up rows: they have variables, and nobody signs for them."""
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
    """Fit a site's rows and protect its counts, as the site does."""
    prior = study_prior(study, study.n_components)
    fitted = fit_in_batches(study, rows, prior, seed, workers, None)
    return release_fit(study, site, fitted, rows, {}, workers).summary


def _some(sent: Sequence[SiteSummary], rng: np.random.Generator) -> list[SiteSummary]:
    """Draw sites as often as there are any; one that is drawn twice counts once."""
    inside = np.zeros(len(sent), dtype=bool)
    while not inside.any():  # of few sites, all may be left out
        inside = rng.random(len(sent)) < DRAWN
    return [each for each, drawn in zip(sent, inside.tolist(), strict=True) if drawn]


def _repeated(
    federation: Federation,
    study: Study,
    tables: dict[str, PackedRows],
    sent: Sequence[SiteSummary],
    workers: Workers,
) -> FederationState:
    """Merge what sites sent as the federation was, and go through as many rounds."""
    search, criterion = federation.search, federation.criterion
    groups = merge_groups(study, tuple(sent), search, criterion)
    found = FederationState(study, tuple(sent), groups, search, criterion)

    def ask(broadcast: Broadcast) -> list[SiteSummary]:
        return [
            release_reply(study, broadcast, each.site, tables[each.site], {}, workers).summary
            for each in sent
        ]

    return run_trusted(found, ask, len(federation.record))


def _labels(found: FederationState, rows: PackedRows, workers: Workers) -> IntArray:
    return label_rows(rows, expectations(found.sums, found.row_prior), workers)


def _together(draws: list[tuple[int, FloatArray, FloatArray]], n_clusters: int) -> Replicates:
    numbers = np.array([each[0] for each in draws], dtype=np.int64)
    shape = (len(draws), n_clusters)
    return Replicates(
        numbers,
        np.array([each[1] for each in draws]).reshape(shape),
        np.array([each[2] for each in draws]).reshape(shape),
    )
