"""A federation: sites come and go, what can't be merged is refused, and the truth is found."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from fedmerdel import FedMerDel, bayes_labels, simulate
from fedmerdel.centre.federation import merge_sites
from fedmerdel.errors import DataError, OptionError
from fedmerdel.records.simulate import SimulatedTable
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.sums.search import Search
from tests.federations import Federation, binary, federations, made_study, summary_of
from tests.stored import assert_same, refused

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


SEARCHES: list[Search] = ["auto", "exact", "tree", "greedy", "random"]


@settings(max_examples=40, deadline=None)
@given(
    federation=federations(sites=st.integers(2, 4)),
    search=st.sampled_from(SEARCHES),
    criterion=st.sampled_from(["correlation", "kl", "bhattacharyya"]),
    at=st.integers(0, 3),
)
def test_adding_and_removing_a_site_is_merging_from_scratch(
    federation: Federation, search: Search, criterion: Any, at: int
) -> None:
    sent = federation.summaries()
    one = sent[at % len(sent)]
    rest = [summary for summary in sent if summary is not one]
    whole = merge_sites(federation.study, sent, search, criterion=criterion)
    less = merge_sites(federation.study, rest, search, criterion=criterion)
    assert_same(less.add(one), whole)
    assert_same(whole.remove(one.site), less)
    assert_same(whole.remove(one.site).add(one), whole)


@settings(max_examples=40, deadline=None)
@given(federation=federations(), search=st.sampled_from(SEARCHES))
def test_lineage_tells_where_each_local_cluster_went(
    federation: Federation, search: Search
) -> None:
    sent = federation.summaries()
    merged = merge_sites(federation.study, sent, search, criterion="kl")
    every = [(s.site, k) for s in sent for k in range(s.n_clusters)]
    assert [(a.site, a.local_cluster) for a in merged.lineage] == every
    rows = np.zeros((len(sent), merged.n_clusters))
    for ancestor in merged.lineage:
        own = sent[merged.sites.index(ancestor.site)].sums.T[ancestor.local_cluster]
        assert ancestor.rows == own
        assert every.index((ancestor.site, ancestor.local_cluster)) in merged.groups[
            ancestor.cluster
        ]  # fmt: skip
        rows[merged.sites.index(ancestor.site), ancestor.cluster] += own
    np.testing.assert_array_equal(merged.site_rows, rows)
    np.testing.assert_allclose(rows.sum(axis=0), merged.sums.T)
    np.testing.assert_array_equal(merged.model.rows, rows.sum(axis=0))
    np.testing.assert_allclose(rows.sum(axis=1), [s.n_rows for s in sent])


def test_random_search_is_reproducible_by_the_studys_seed() -> None:
    """Clusters that overlap a lot: what is merged first decides what can be merged later."""
    rng = np.random.default_rng(5)
    prevalences = rng.uniform(0.1, 0.9, (12, 30))
    found = {}
    for seed in range(8):
        study = made_study(np.full(30, 2), seed=seed)
        sent = [
            summary_of(study, f"s{b}", binary(part.tolist(), [40.0] * 4))
            for b, part in enumerate(np.split(prevalences, 3))
        ]
        one, two = (merge_sites(study, sent, "random", criterion="kl") for _ in range(2))
        assert_same(one, two)
        found[seed] = sorted(group.tolist() for group in one.groups)
    assert len({str(groups) for groups in found.values()}) > 1


STUDY = made_study(np.array([2, 2]))


def sent_by(*sites: str, study: Any = STUDY) -> list[SiteSummary]:
    stats = binary([[0.1, 0.9], [0.9, 0.1]], [60, 40])
    return [summary_of(study, site, stats) for site in sites]


def test_what_can_not_be_merged_is_refused() -> None:
    leeds, york = sent_by("leeds", "york")
    with refused(DataError, "no summary"):
        merge_sites(STUDY, [])
    with refused(DataError, "'leeds'", "twice"):
        merge_sites(STUDY, [leeds, york, leeds])
    with refused(DataError, "'leeds'", "twice"):
        merge_sites(STUDY, [leeds, york]).add(leeds)
    (other,) = sent_by("hull", study=made_study(np.array([2, 2]), seed=9))
    with refused(DataError, "'hull'", "study"):
        merge_sites(STUDY, [leeds, other])
    with refused(DataError, "'hull'", "study"):
        merge_sites(STUDY, [leeds]).add(other)
    with refused(OptionError, "'hull'", "'leeds', 'york'"):
        merge_sites(STUDY, [leeds, york]).remove("hull")
    with refused(DataError, "no summary"):
        merge_sites(STUDY, [leeds]).remove("leeds")


@pytest.mark.parametrize("given", [["leeds"], [None], [1, 2], "leeds", 3, None, [{"site": "a"}]])
def test_what_is_no_summary_is_refused(given: Any) -> None:
    with refused(OptionError, "summaries: give a list of SiteSummary"):
        merge_sites(STUDY, given)
    with refused(OptionError, "summaries: give a list of SiteSummary"):
        merge_sites(STUDY, [*sent_by("leeds"), given])
    with refused(OptionError, "summaries: give a list of SiteSummary"):
        merge_sites(STUDY, sent_by("leeds")).add(given)


def test_a_summary_alone_or_no_study_is_refused() -> None:
    (leeds,) = sent_by("leeds")
    with refused(OptionError, "summaries: give a list"):
        merge_sites(STUDY, leeds)  # type: ignore[arg-type]
    with refused(OptionError, "study: give a Study"):
        merge_sites("study.toml", [leeds])  # type: ignore[arg-type]


@pytest.mark.parametrize("n_rows", [-1, 2.0, "3", None, True, np.float64(2)])
def test_an_unusable_number_of_rows_to_sample_is_refused(n_rows: Any) -> None:
    model = merge_sites(STUDY, sent_by("leeds")).model
    with refused(OptionError, "n_rows: give a whole number of at least 0"):
        model.sample(n_rows)
    assert len(model.sample(np.int64(3))[0]) == 3
    assert len(model.sample(0)[0]) == 0


def test_a_summary_with_other_variables_than_its_hash_says_is_refused() -> None:
    leeds, york = sent_by("leeds", "york")
    first, second = STUDY.codebook.variables
    for variables in [(second, first), (first, Variable("v1", ("0", "1"), "text"))]:
        with refused(DataError, "'york'", "variables"):
            changed = dataclasses.replace(york, codebook=Codebook(variables))
            merge_sites(STUDY, [leeds, changed])
    with_outcome = made_study(np.array([2, 2]), outcomes=("death",))
    with refused(DataError, "'leeds'", "outcomes"):
        merge_sites(with_outcome, [dataclasses.replace(leeds, study_hash=with_outcome.hash)])


@pytest.mark.parametrize("name", ["best", "", None, 1, "EXACT", ["exact"]])
def test_impossible_searches_and_criteria_are_refused(name: Any) -> None:
    with refused(OptionError, "search", "'auto', 'exact', 'tree', 'greedy', 'random'"):
        merge_sites(STUDY, sent_by("leeds"), name)
    with refused(OptionError, "criterion", "'correlation', 'kl', 'bhattacharyya'"):
        merge_sites(STUDY, sent_by("leeds"), criterion=name)


# The paper's heterogeneous sites (appendix G.4), small: is the truth found?


def split(table: SimulatedTable, scenario: str, rng: np.random.Generator) -> np.ndarray:
    """Give each row a site: 5 sites, 6 clusters."""
    sites = rng.integers(0, 5, len(table.X))
    if scenario == "one cluster at one site":
        sites[table.labels == 5] = 2
    elif scenario == "clusters split over sites":
        # One cluster each at the sites of its own, and the last at all of them.
        sites = np.where(table.labels < 5, table.labels, sites)
    return sites


@pytest.mark.parametrize(
    "scenario", ["at random", "one cluster at one site", "clusters split over sites"]
)
def test_federation_finds_the_clusters_of_the_paper(scenario: str) -> None:
    n_clusters, gaps = [], []
    for seed in range(5):
        table = simulate(7500, 60, 6, random_state=seed)
        sites = split(table, scenario, np.random.default_rng(seed))
        fitted = FedMerDel(random_state=seed).fit(table.X, groups=sites)
        best = adjusted_rand_score(table.labels, bayes_labels(table, sites))
        n_clusters.append(fitted.n_clusters_)
        gaps.append(best - adjusted_rand_score(table.labels, fitted.labels_))
    assert np.sum(np.array(n_clusters) == 6) >= 4, n_clusters  # measured: 5 of 5 each time
    assert max(gaps) <= 0.02, gaps  # 0.006
    assert np.mean(gaps) <= 0.008, gaps  # 0.003; the frozen labels are 0.002 to 0.017 off
