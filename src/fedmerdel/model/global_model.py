"""The clusters of all sites, merged: `merge_sites` makes a `GlobalModel` from summaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedmerdel.centre.centre_prior import centre_learns, centre_prior
from fedmerdel.centre.filling import filled_in
from fedmerdel.centre.lineage import Ancestor, Exchange
from fedmerdel.centre.rounds import UNCUT, Course, begin
from fedmerdel.centre.selecting import selected, selection_probability
from fedmerdel.centre.summaries import check_summaries, in_order, side_by_side
from fedmerdel.errors import DataError, OptionError
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.names import changed, checked, inherited, name_of
from fedmerdel.release.disclosure import releases_exactly
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.priors import study_prior
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.levels import level_shares
from fedmerdel.sums.merging import merged_statistics
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.search import Search, search_groups
from fedmerdel.sums.similarity import Likeness, MergeCriterion
from fedmerdel.sums.sums import Sums

if TYPE_CHECKING:
    from fedmerdel.model.describe import Cluster

SEARCHES = ("exact", "tree", "greedy", "random")


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """The clusters that all sites have found together.

    Made by `merge_sites`. It keeps the summaries, so that a site can be added or taken
    out, with the same result as merging from scratch.

    Attributes
    ----------
    study : Study
        What the sites agreed on.
    summaries : tuple of SiteSummary
        What the sites sent, in the order of their names.
    groups : tuple of int64 arrays
        The local clusters, numbered through all sites, of each global cluster; the
        largest cluster first.
    search, criterion : str
        How they were found.
    record : tuple of Exchange
        What the exchanges since the first merge have brought; empty after one shot.
    next_course : Course or None
        What to send out next, where that is more than the model's own clusters.
    asked : Broadcast or None
        What the last replies answer; None after one shot.
    names : tuple of str
        The clusters' names, "" where one has none; empty if none has any.
    """

    study: Study
    summaries: tuple[SiteSummary, ...]
    groups: tuple[IntArray, ...]
    search: Search
    criterion: MergeCriterion
    record: tuple[Exchange, ...] = ()
    next_course: Course | None = None
    asked: Broadcast | None = None
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

    @cached_property
    def prior(self) -> Prior:
        """The centre's prior: as many components as all sites have together (appendix E.3).

        What the study learns of it is learned from the sum of the sites' statistics.
        """
        if self.statistics is self.told:
            return self.told_prior
        return centre_prior(self.study, self.n_components, self.statistics.S)

    @cached_property
    def told_prior(self) -> Prior:
        """The same, learned from what the sites told, nothing filled in."""
        return centre_prior(self.study, self.n_components, self.told.S)

    @property
    def n_components(self) -> int:
        """Components of the centre's prior."""
        return sum(summary.n_components for summary in self.summaries)

    @cached_property
    def selection_probability(self) -> FloatArray:
        """How surely each variable tells clusters apart: (P,).

        With a selection of variables the share of the sites that selected it (appendix
        D.3); else the probability under the centre's prior, from the counts. Counts that
        disclosure control has hidden are taken for what leaves the clusters most alike.
        """
        return selection_probability(self)

    @property
    def selected(self) -> tuple[str, ...]:
        """Variables that tell clusters apart.

        With a selection of variables those that all sites selected, or all but one where
        there are more than two; else those that more probably do than not.
        """
        return selected(self)

    @cached_property
    def row_prior(self) -> Prior:
        """The prior under which rows are given to clusters: only selected variables tell."""
        if not self.study.variable_selection:
            return self.prior
        told = np.isin(self.study.codebook.names, self.selected).astype(np.float64)
        background = level_shares(self.statistics.S, self.prior.offsets)
        return self.prior._replace(inclusion=told, background=background)

    @cached_property
    def statistics(self) -> Sums:
        """T, S and h of the global clusters.

        Counts that disclosure control has hidden are filled with what is expected of them.
        """
        if self.asked is not None or releases_exactly(self.study.policy):
            return self.told
        local = side_by_side(self.summaries)
        return filled_in(self.study, local, list(self.groups), self.n_components)

    @cached_property
    def told(self) -> Sums:
        """The same as the sites sent them; replies with what was expected where they hide it."""
        return merged_statistics(side_by_side(self.summaries, self.asked), list(self.groups))

    @cached_property
    def lower_bound(self) -> float:
        """The global ELBO in nats of what the sites told, from the summaries alone.

        Exact where no two clusters of one site are together, else a lower bound of it.
        """
        return elbo(self.told, self.told_prior)

    @cached_property
    def site_rows(self) -> FloatArray:
        """Rows of each site in each cluster: (sites, clusters)."""
        rows = np.zeros((len(self.summaries), self.n_clusters))
        for ancestor in self.lineage:
            rows[self.sites.index(ancestor.site), ancestor.cluster] += ancestor.rows
        return rows

    @cached_property
    def lineage(self) -> tuple[Ancestor, ...]:
        """Where each local cluster of each site went."""
        local = side_by_side(self.summaries)
        cluster = np.empty(local.stats.n_clusters, dtype=np.int64)
        for k, group in enumerate(self.groups):
            cluster[group] = k
        number = np.concatenate([np.arange(s.n_clusters) for s in self.summaries])
        return tuple(
            Ancestor(self.sites[site], int(own), int(k), float(rows))
            for site, own, k, rows in zip(local.site, number, cluster, local.stats.T, strict=True)
        )

    @cached_property
    def course(self) -> Course:
        """What to send out next, and how the centre came to it."""
        if self.next_course is not None:
            return self.next_course
        return begin(self.statistics, self.row_prior, len(self.record))

    @cached_property
    def broadcast(self) -> Broadcast:
        """What to send to the sites for one more exchange."""
        course = self.course
        return Broadcast(
            self.study,
            course.number + 1,
            course.sent,
            course.cuts,
            course.age == UNCUT,
            self.row_prior.eps,
            self.selected if self.study.variable_selection else None,
        )

    def describe(self) -> tuple[Cluster, ...]:
        """Describe every cluster: size, prevalence, ratio to all, outcomes, sites."""
        from fedmerdel.model.describe import describe

        return describe(self)

    def name(self, k: int) -> str:
        """Return the name of a cluster; "cluster 3" if that has none."""
        return name_of(self.names, self.n_clusters, k)

    def named(self, names: Mapping[int, str]) -> GlobalModel:
        """Return the model with names for these clusters; others keep theirs.

        Parameters
        ----------
        names : mapping of int to str
            Of each cluster to be named: up to 80 characters on one line, as no other cluster
            is called. "" takes a name away.
        """
        return replace(self, names=changed(self.names, self.n_clusters, names))

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        date: str | None = None,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        """Write a page of pictures and tables: one HTML file that opens from disk.

        It holds the released counts of every site, and loads nothing from anywhere.

        Parameters
        ----------
        path : str or Path
            The file to write.
        title : str, optional
            Its heading; the study's name by default.
        date : str, optional
            The date that it says it was written on; today's by default.
        image_shape : (int, int), optional
            For tables whose variables are pixels: lines and columns of the image. A variable's
            place is the number that its name ends in, such as ``pixel_37``.
        """
        from fedmerdel.model.report import write_report

        write_report(self, path, title=title, date=date, image_shape=image_shape)

    def sample(self, n_rows: int, random_state: int | None = None) -> tuple[NDArray[Any], IntArray]:
        """Draw rows from the clusters: values of the codebook, and the cluster of each."""
        from fedmerdel.model.generate import sample

        return sample(self, n_rows, random_state)

    def add(self, summary: SiteSummary) -> GlobalModel:
        """Return the model with one more site.

        A cluster keeps its name if most of its rows are of local clusters that had it.
        After exchanges a new site takes part in the next one instead: `update_site`.
        """
        if self.record:
            raise OptionError(
                "summary: the model has gone through exchanges: let the new site reply to it "
                "(update_site), and give that to merge_onto"
            )
        return self._merged_again((*self.summaries, summary))

    def remove(self, site: str) -> GlobalModel:
        """Return the model without a site, as if it had never taken part.

        A cluster keeps its name if most of its rows are of local clusters that had it.
        After exchanges: without its counts; the clusters of the others stay as they are.
        """
        if site not in self.sites:
            raise OptionError(f"site: {site!r} is not in the model, which has {_list(self.sites)}")
        if self.record:
            from fedmerdel.centre.onto import take_out

            return take_out(self, site)
        summaries = tuple(summary for summary in self.summaries if summary.site != site)
        return self._merged_again(summaries)

    def _merged_again(self, summaries: tuple[SiteSummary, ...]) -> GlobalModel:
        model = merge_sites(self.study, summaries, self.search, criterion=self.criterion)
        if not self.names:
            return model
        return replace(model, names=inherited(self.names, self.lineage, model.lineage))

    def save(self, path: str | Path) -> None:
        """Write the model to a folder of readable files.

        It holds every site's summary: whoever gets the folder sees the counts of each site.
        """
        from fedmerdel.centre.folder import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: str | Path) -> GlobalModel:
        """Read a model written by `save`."""
        from fedmerdel.centre.folder import load_model

        return load_model(path)


def merge_sites(
    study: Study,
    summaries: Iterable[SiteSummary],
    search: Search = "exact",
    *,
    criterion: MergeCriterion = "correlation",
) -> GlobalModel:
    """Merge the clusters of all sites by gain in the ELBO, from their summaries alone.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    summaries : iterable of SiteSummary
        What they sent. Their order does not matter.
    search : {"exact", "tree", "greedy", "random"}, default="exact"
        "exact" merges the pair of clusters from different sites that gains most, and so
        on; "tree" does so within groups of sites and then across, for hundreds of sites;
        "greedy" and "random" are the paper's.
    criterion : {"correlation", "kl", "bhattacharyya"}, default="correlation"
        Of the paper's searches: which clusters are alike.

    Returns
    -------
    GlobalModel
        The merged clusters.
    """
    if search not in SEARCHES:
        raise OptionError(f"search: give one of {_list(SEARCHES)}")
    if criterion not in get_args(Likeness):
        raise OptionError(f"criterion: give one of {_list(get_args(Likeness))}")
    if not isinstance(study, Study):
        raise OptionError("study: give a Study, such as Study.load reads")
    sent = in_order(summaries)
    check_summaries(study, sent)
    for summary in sent:
        if summary.answer is not None:
            raise DataError(
                f"site {summary.site!r}: its summary is a reply to a model: merge it onto that one"
            )
    prior = study_prior(study, sum(summary.n_components for summary in sent))
    local = side_by_side(sent)
    rng = np.random.default_rng(study.seed)
    groups = search_groups(search, local, prior, centre_learns(study), criterion, rng)
    by_size = np.argsort([-local.stats.T[group].sum() for group in groups], kind="stable")
    return GlobalModel(study, sent, tuple(groups[k] for k in by_size), search, criterion)


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
