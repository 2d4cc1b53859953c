"""A federation at the coordinating centre: merged once, and stepped from round to round."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self, get_args

import numpy as np

from fedmerdel.centre.comparison import SiteComparison, cluster_differences, compare_sites
from fedmerdel.centre.doubts import doubts_of, warn_of
from fedmerdel.centre.folder import load_federation, save_federation
from fedmerdel.centre.lineage import Round, inherited
from fedmerdel.centre.merge import leave_out, merge_groups
from fedmerdel.centre.missing import Missingness, missing_at_sites
from fedmerdel.centre.outcomes import SiteTest, site_tests
from fedmerdel.centre.report import write_report
from fedmerdel.centre.standing import Doubt, LeftOut
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.step import step, take_out
from fedmerdel.centre.summaries import check_summaries, in_order, sites_used_up
from fedmerdel.errors import CeilingWarning, DataError, OptionError
from fedmerdel.inference.comparison import LevelTest
from fedmerdel.keys import SigningKey
from fedmerdel.model.describe import Cluster, describe
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.membership import CovariateTest, Effect, Membership
from fedmerdel.model.names import changed
from fedmerdel.release.reply import Reply
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.page import check_page_size
from fedmerdel.study.guide import refused
from fedmerdel.study.study import Study, check_is_study
from fedmerdel.sums.components import used_up
from fedmerdel.sums.search import Search
from fedmerdel.sums.similarity import MergeCriterion


@dataclass(frozen=True, eq=False)
class Federation(FederationState):
    """What the sites sent, and the clusters made of it.

    Made by `merge_sites`. It stays at the centre: ``federation.model`` is what may be sent to the
    sites and used there, and ``federation.broadcast`` what they need to reply in one more round.
    Every method returns a new federation, and leaves the old one as it was.

    Attributes
    ----------
    study : Study
        What the sites agreed on.
    summaries : tuple of SiteSummary
        What each site sent last, its summary or a reply, in the order of their names.
    groups : tuple of int64 arrays
        The local clusters, numbered through all sites, of each global cluster; the
        largest cluster first.
    search, criterion : str
        How they were found.
    record : tuple of Round
        What the rounds since the first merge have brought; empty after one shot.
    next_round : RoundState or None
        What to send out next, where that is more than the clusters themselves.
    asked : Broadcast or None
        What the last replies reply to; None after one shot.
    names : tuple of str
        The clusters' names, "" where one has none; empty if none has any.
    checks : Checks or None
        Whether the clusters explain the rows; None if the study asks for no checks.
    doubts : tuple of Doubt
        What is odd about sites, compared with the others: who may be wrong, or lie.
    left_out : tuple of LeftOut
        How the clusters change without each site.
    lone_clusters : tuple of LoneCluster
        Clusters that one site alone has found.
    missingness : Missingness
        Rows of each site with and without an entry of each variable.
    """

    @cached_property
    def model(self) -> GlobalModel:
        """What may be sent to the sites and used there: the clusters, and no site's counts."""
        return GlobalModel(
            study=self.study,
            sums=self.sums,
            prior=self.prior,
            rows=self.site_rows.sum(axis=0),
            selection_probability=self.selection_probability,
            selected=self.selected,
            outcomes=self.outcomes,
            n_sites=len(self.sites),
            n_rounds=len(self.record),
            elbo=self.elbo,
            names=self.names,
            site_shares=self.site_shares if self.study.site_shares else {},
            checks=self.checks,
            membership=self.shown_membership,
        )

    @property
    def shown_membership(self) -> Membership | None:
        """What the model tells of covariates: of single sites only where the study says so."""
        found = self.membership
        return found if found is None or self.study.site_shares else found.without_sites()

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """What is odd about sites, compared with the others; at least three are needed for it."""
        return doubts_of(self)

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The clusters without each site in turn: of 3 to 30 sites, and before any round."""
        if self.record:  # only rows could repeat it
            return ()
        return leave_out(self.study, self.summaries, self.groups, self.search, self.criterion)

    def compare(self, site: str, other: str) -> SiteComparison:
        """Compare two sites in the clusters that both have, variable by variable.

        Nothing new is asked of the sites: it follows from the counts that they have released. Go a
        round first: clusters that each site found for itself differ by their borders too.

        Parameters
        ----------
        site, other : str
            Names of the two.
        """
        return compare_sites(self, site, other)

    def differences(self, cluster: int) -> LevelTest:
        """Compare all sites in one cluster: whether the levels of each variable are the same.

        As `compare`, best after a round.

        Parameters
        ----------
        cluster : int
            Its number.
        """
        return cluster_differences(self, cluster)

    @cached_property
    def missingness(self) -> Missingness:
        """Rows with and without an entry, by site and variable, as the sites released them."""
        return missing_at_sites(self.summaries)

    def step(self, replies: Iterable[SiteSummary]) -> tuple[Self, Round]:
        """Take the sites' replies to the broadcast into the next federation.

        Parameters
        ----------
        replies : iterable of Reply
            What sites replied (`reply_site`), in any order. A site without a reply is carried
            with what it sent last; a site that is new takes part from now on.

        Returns
        -------
        federation : Federation
            With the replies or, if they are worse than what was known and the clusters sent out
            were a guess, without.
        brought : Round
            What has happened, which is also the last of its `record`.

        Raises
        ------
        DataError
            If a reply is of another study or to another broadcast, if none is to this one, or if
            its numbers are impossible.

        Warns
        -----
        OddSiteWarning
            If a site's counts are odd, compared with those of the others; see `doubts`.
        """
        replied = list[Self]()
        following = step(self, replies, look=replied.append)
        warn_of(doubts_of(*replied), stacklevel=3)
        return following

    def add(self, summary: SiteSummary) -> Self:
        """Return the federation with one more site.

        A cluster keeps its name if most of its rows are of local clusters that had it.
        After rounds a new site takes part in the next one instead: `reply_site`.
        """
        if self.record:
            raise OptionError(
                "summary: the federation has gone through rounds: let the new site reply to its "
                "broadcast (reply_site), and give that to step"
            )
        return self._merged_again((*self.summaries, summary))

    def remove(self, site: str) -> Self:
        """Return the federation without a site, as if it had never taken part.

        A cluster keeps its name if most of its rows are of local clusters that had it.
        After rounds: without its counts; the clusters of the others stay as they are.
        """
        if site not in self.sites:
            raise OptionError(
                f"site: {site!r} is not in the federation, which has {_list(self.sites)}"
            )
        if self.record:
            return take_out(self, site)
        return self._merged_again(tuple(each for each in self.summaries if each.site != site))

    def named(self, names: Mapping[int, str]) -> Self:
        """Return the federation with names for these clusters; see `GlobalModel.named`."""
        return replace(self, names=changed(self.names, self.n_clusters, names))

    def named_as(self, before: FederationState) -> Self:
        """Return it with the names of another, where most rows of a cluster had the name."""
        if not before.names:
            return self
        return replace(self, names=inherited(before.names, before.lineage, self.lineage))

    def describe(self) -> tuple[Cluster, ...]:
        """Describe every cluster: size, prevalence, ratio to all, outcomes, sites."""
        return describe(replace(self.model, site_shares=self.site_shares))

    def covariate_effects(self, reference: int = 0) -> tuple[Effect, ...]:
        """Return what `GlobalModel.covariate_effects` does, with effects of the sites as well.

        The site is the covariate ``"(site)"``; its first level is the first site by name.
        """
        return replace(self.model, membership=self.membership).covariate_effects(reference)

    def covariate_tests(self) -> tuple[CovariateTest, ...]:
        """Return what `GlobalModel.covariate_tests` does, with a test of the sites as well."""
        return replace(self.model, membership=self.membership).covariate_tests()

    def outcome_site_tests(self, name: str) -> tuple[SiteTest, ...]:
        """Test in each cluster whether an outcome of the study is the same at all sites.

        A name is one of `Study.measures`.
        """
        if name not in self.study.measures:
            refused(self.study.codebook, name)
            known = _list(tuple(self.study.measures))
            raise OptionError(f"name: {name!r} is no outcome of the study, which has {known}")
        return site_tests(self.counting, self.study, name)

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        date: str | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        """Write the page of `GlobalModel.report`, with its parts about each site.

        It holds the released counts of every site: show it to those who may see these.
        """
        check_page_size(self.n_clusters, self.sums.S.shape[1])  # before doubts are looked for
        write_report(
            self,
            self.model,
            path,
            title=title,
            date=date,
            image_shape=image_shape,
            doubts=self.doubts,
        )

    def save(
        self, path: str | Path, *, replace: bool = False, key: SigningKey | None = None
    ) -> None:
        """Write the federation to a folder of readable files.

        It holds what every site sent, and stays at the centre. Its parts ``model/`` and
        ``broadcast/`` may be sent.

        Parameters
        ----------
        path : str or Path
            Where. An earlier federation there is replaced, whole or not at all.
        replace : bool
            Replace also one that has sites, rounds, or names of clusters, which this one has not.
        key : SigningKey, optional
            The centre's secret key, which signs both parts; needed if the study lists keys.
        """
        save_federation(self, self.model, path, replace=replace, key=key)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a federation written by `save`."""
        return cls(**load_federation(path))

    def _merged_again(self, summaries: tuple[SiteSummary, ...]) -> Self:
        sent = in_order(summaries)
        check_summaries(self.study, sent)
        groups = merge_groups(self.study, sent, self.search, self.criterion)
        fresh = replace(self, summaries=sent, groups=groups, next_round=None, asked=None, names=())
        return fresh.named_as(self)


def merge_sites(
    study: Study,
    summaries: Iterable[SiteSummary],
    search: Search = "auto",
    *,
    criterion: MergeCriterion = "correlation",
) -> Federation:
    """Merge the clusters of all sites by gain in the ELBO, from their summaries alone.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    summaries : iterable of SiteSummary
        What they sent. Their order does not matter.
    search : {"auto", "exact", "tree", "greedy", "random"}, default="auto"
        "exact" merges the pair of clusters from different sites that gains most, and so
        on; "tree" does so within groups of sites and then across, for hundreds of sites;
        "auto" is "exact" for up to 2,000 clusters of all sites together, else "tree".
        "greedy" and "random" are the paper's.
    criterion : {"correlation", "kl", "bhattacharyya", "random"}, default="correlation"
        Of the paper's searches: which clusters are alike.

    Returns
    -------
    Federation
        The merged clusters, and what they were made of; ``federation.model`` is what to use.

    Raises
    ------
    DataError
        If a summary is of another study, if there is none, or if two are copies.

    Warns
    -----
    CeilingWarning
        If a site has used all clusters that the study allows.
    OddSiteWarning
        If a site's counts are odd, compared with those of the others; see `Federation.doubts`.
    """
    federation = merge_trusted(study, summaries, search, criterion, stacklevel=3)
    warn_of(federation.doubts, stacklevel=3)
    return federation


def model_of_total(study: Study, total: SiteSummary, n_sites: int, n_rounds: int) -> GlobalModel:
    """Return the model of what was added up over sites: that of one site which has it all.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    total : SiteSummary
        From `summed_up`.
    n_sites, n_rounds : int
        Sites that were added up, and how often.
    """
    order = np.argsort(-total.sums.T, kind="stable")
    groups = tuple(np.array([k]) for k in order)
    alone = Federation(study, (total,), groups, "exact", study.merge_criterion)
    return replace(alone.model, n_sites=n_sites, n_rounds=n_rounds)


def merge_trusted(
    study: Study,
    summaries: Iterable[SiteSummary],
    search: Search,
    criterion: MergeCriterion,
    stacklevel: int = 2,
) -> Federation:
    """Merge as `merge_sites` does, and don't look for odd sites, which takes a few merges more."""
    if search not in get_args(Search):
        raise OptionError(f"search: give one of {_list(get_args(Search))}")
    if criterion not in get_args(MergeCriterion):
        raise OptionError(f"criterion: give one of {_list(get_args(MergeCriterion))}")
    check_is_study(study)
    sent = in_order(summaries)
    check_summaries(study, sent)
    for summary in sent:
        if isinstance(summary, Reply):
            raise DataError(
                f"site {summary.site!r}: this is a reply to a broadcast: give it to step"
            )
    full = sites_used_up(sent)
    if full:
        message = used_up(_list(full), study.n_components)
        warnings.warn(message, CeilingWarning, stacklevel=stacklevel)
    return Federation(study, sent, merge_groups(study, sent, search, criterion), search, criterion)


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
