"""The state of a federation: what the sites sent, how it was put together, what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import expit

from fedmerdel.centre.checks import federation_checks
from fedmerdel.centre.covariates import membership
from fedmerdel.centre.filling import filled_alike, filled_in_groups, filled_replies, told_alone
from fedmerdel.centre.lineage import Ancestor, Round
from fedmerdel.centre.origins import Join, joins
from fedmerdel.centre.outcomes import CountedSite, Counting, outcome_rates
from fedmerdel.centre.prior import centre_prior
from fedmerdel.centre.rounds import UNCUT, RoundState, first_state
from fedmerdel.centre.standing import LoneCluster
from fedmerdel.centre.summaries import Summaries, replies_to
from fedmerdel.inference.cluster_errors import Counter, level_errors
from fedmerdel.inference.confusion import confusion_of, make_up
from fedmerdel.inference.information import Mixture
from fedmerdel.model.broadcast import Broadcast, level_names
from fedmerdel.model.checks import Checks
from fedmerdel.model.membership import Membership
from fedmerdel.model.names import checked, name_of
from fedmerdel.model.rates import Rates
from fedmerdel.model.state import row_prior
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import LocalClusters, merged_sums
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.search import Search
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.sums.strengths import log_odds
from fedmerdel.sums.sums import Sums


@dataclass(frozen=True, eq=False)
class FederationState:
    """The numbers of a federation; `Federation` says what they are, and what to do with them."""

    study: Study
    summaries: Summaries = field(repr=False)
    groups: tuple[IntArray, ...] = field(repr=False)
    search: Search
    criterion: MergeCriterion
    record: tuple[Round, ...] = field(default=(), repr=False)
    next_round: RoundState | None = field(default=None, repr=False)
    asked: Broadcast | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", checked(self.names, self.n_clusters))

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return tuple(summary.site for summary in self.summaries)

    @property
    def n_clusters(self) -> int:
        """Global clusters."""
        return len(self.groups)

    @property
    def n_components(self) -> int:
        """Components of the centre's prior: as many as all sites have together (appendix E.3)."""
        return sum(summary.n_components for summary in self.summaries)

    def name(self, k: int) -> str:
        """Return the name of a cluster; "cluster 3" if that has none."""
        return name_of(self.names, self.n_clusters, k)

    @property
    def mechanism(self) -> Mechanism:
        """How numbers leave the sites."""
        return mechanism_for(self.study.policy)

    @cached_property
    def local(self) -> LocalClusters:
        """The clusters of all sites, with what was known when they were put together."""
        if self.asked is None:
            return filled_alike(self.study, self.summaries)
        replied = [replies_to(summary, self.asked) for summary in self.summaries]
        return filled_replies(self.study, self.summaries, replied, self.asked.clusters)

    @cached_property
    def local_expected(self) -> LocalClusters:
        """The same, with what is known since: hidden counts as their global clusters suggest."""
        if self.asked is not None:
            return self.local
        return filled_in_groups(self.study, self.summaries, self.groups, self.n_components)

    @cached_property
    def released_sums(self) -> Sums:
        """T, S and h of the global clusters that these make."""
        merged = merged_sums(self.local, list(self.groups))
        return told_alone(merged, self.summaries, self.groups)

    @cached_property
    def released_prior(self) -> Prior:
        """The prior that these teach."""
        return centre_prior(self.study, self.n_components, self.released_sums.S)

    @cached_property
    def sums(self) -> Sums:
        """T, S and h of the global clusters: what the sites' sums stand for."""
        local = self.local_expected
        if np.array_equal(local.stats.S, self.local.stats.S):
            return self.released_sums
        merged = merged_sums(local, list(self.groups))
        return told_alone(merged, self.summaries, self.groups)

    @cached_property
    def prior(self) -> Prior:
        """The centre's prior, with what is learned of it from the sums."""
        if self.sums is self.released_sums:
            return self.released_prior
        return centre_prior(self.study, self.n_components, self.sums.S)

    @cached_property
    def row_prior(self) -> Prior:
        """The prior under which rows are given to clusters: only selected variables tell."""
        return row_prior(self.study, self.sums, self.prior, self.selected)

    @cached_property
    def lower_bound(self) -> float:
        """The global ELBO in nats of what the sites released.

        Exact where no two clusters of one site are together, else a lower bound of it.
        """
        return elbo(self.released_sums, self.released_prior)

    @property
    def elbo(self) -> float | None:
        """The ELBO in nats: of the released counts, or after rounds of all rows, where known."""
        if not self.record:
            return self.lower_bound
        return self.mechanism.elbo(self.lower_bound)

    @cached_property
    def selection_probability(self) -> FloatArray:
        """How surely each variable tells clusters apart: (P,); see `GlobalModel`."""
        names = self.study.codebook.names
        if self.study.variable_selection:
            votes = [[name in (s.selected or ()) for name in names] for s in self.summaries]
            return np.asarray(np.mean(votes, axis=0))
        alike = filled_alike(self.study, self.summaries).stats
        S = np.array([alike.S[group].sum(axis=0) for group in self.groups])
        prior = centre_prior(self.study, self.n_components, S)
        return np.asarray(expit(log_odds(S, prior)))

    @property
    def selected(self) -> tuple[str, ...]:
        """Variables that tell clusters apart; see `GlobalModel`."""
        least, n_sites = 0.5, len(self.summaries)
        if self.study.variable_selection:
            least = (n_sites - 1.5) / n_sites if n_sites > 2 else 1 - 0.5 / n_sites
        chosen = zip(self.study.codebook.names, self.selection_probability, strict=True)
        return tuple(name for name, share in chosen if share > least)

    @cached_property
    def lineage(self) -> tuple[Ancestor, ...]:
        """Where each local cluster of each site went."""
        local = self.local
        cluster = np.empty(local.stats.n_clusters, dtype=np.int64)
        for k, group in enumerate(self.groups):
            cluster[group] = k
        number = np.concatenate([np.arange(s.n_clusters) for s in self.summaries])
        names = self.sites
        return tuple(
            Ancestor(names[site], int(own), int(k), float(rows))
            for site, own, k, rows in zip(local.site, number, cluster, local.stats.T, strict=True)
        )

    @cached_property
    def site_rows(self) -> FloatArray:
        """Rows of each site in each cluster: (sites, clusters)."""
        rows = np.zeros((len(self.summaries), self.n_clusters))
        at = {site: b for b, site in enumerate(self.sites)}
        for ancestor in self.lineage:
            rows[at[ancestor.site], ancestor.cluster] += ancestor.rows
        return rows

    @property
    def lone_clusters(self) -> tuple[LoneCluster, ...]:
        """Clusters that one site alone has, where there are several sites."""
        rows = self.site_rows
        if len(rows) == 1:
            return ()
        owner = rows.argmax(axis=0)
        return tuple(
            LoneCluster(k, self.sites[b], float(rows[b, k]), float(rows[b, k] / rows[b].sum()))
            for k, b in enumerate(owner.tolist())
            if np.count_nonzero(rows[:, k]) == 1
        )

    @property
    def site_shares(self) -> dict[str, FloatArray]:
        """Share of each site's rows in each cluster."""
        shares = self.site_rows / self.site_rows.sum(axis=1, keepdims=True)
        return dict(zip(self.sites, shares, strict=True))

    def joins(self) -> list[Join]:
        """Return the merges of local clusters that led here, with the gain of each.

        Empty after rounds, whose clusters are counted and not merged.
        """
        if self.record:
            return []
        return joins(self.local, self.groups, self.released_prior)

    @cached_property
    def round_state(self) -> RoundState:
        """What to send out next, and how the centre came to it."""
        if self.next_round is not None:
            return self.next_round
        return first_state(self.sums, self.row_prior, len(self.record))

    @cached_property
    def broadcast(self) -> Broadcast:
        """What to send to the sites for one more round."""
        state = self.round_state
        return Broadcast(
            self.study.hash,
            state.number + 1,
            level_names(self.study.codebook),
            state.clusters,
            state.cuts,
            state.age == UNCUT,
            self.row_prior.eps,
            self.selected if self.study.variable_selection else None,
        )

    @cached_property
    def outcomes(self) -> dict[str, Rates]:
        """How often each outcome of the study occurs in the clusters."""
        return outcome_rates(self.counting, self.study) if self.study.outcomes else {}

    @cached_property
    def membership(self) -> Membership | None:
        """How membership of the clusters depends on the study's covariates, and on the site."""
        if not self.study.covariates:
            return None
        return membership(self.counting, self.study, self.sites)

    @cached_property
    def counting(self) -> Counting:
        """How the sites counted outcomes and covariates."""
        cluster = np.array([ancestor.cluster for ancestor in self.lineage])
        ends = np.cumsum([summary.n_clusters for summary in self.summaries])
        rows = make_up(self.sums, self.prior, len(self.sites))
        weights = mean_weights(self.sums, self.prior)
        said = rows.said_of(expectations(self.sums, self.row_prior).log_levels)
        sent = None
        if self.asked is not None:
            theta = self.asked.clusters
            counter = Counter(rows.said_of(theta.log_levels), theta.log_weights)
            sent = confusion_of(*counter), counter
        sites = []
        parts = zip(self.summaries, np.split(cluster, ends[:-1]), self.site_rows, strict=True)
        for summary, home, own in parts:
            if sent is not None and replies_to(summary, self.asked):
                sites.append(CountedSite(summary, home, np.arange(len(home)), *sent))
                continue
            counter = Counter(said, np.log((weights + own) / (1.0 + own.sum())))
            sites.append(CountedSite(summary, home, home, confusion_of(*counter), counter))
        mixture = Mixture(weights, mean_levels(self.sums, self.prior), self.prior.offsets)
        errors = level_errors(rows, said, mixture, float(self.sums.T.sum()))
        return Counting(tuple(sites), weights, rows, errors, self.asked is None)

    @cached_property
    def checks(self) -> Checks | None:
        """Whether the clusters explain the rows; None if the study asks for no checks."""
        cluster = np.array([ancestor.cluster for ancestor in self.lineage])
        return federation_checks(
            self.study,
            self.summaries,
            cluster,
            self.site_rows,
            self.sums,
            self.prior,
            self.row_prior,
        )
