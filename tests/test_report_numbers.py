"""The numbers behind the report, each against a slow way to the same one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from fedmerdel import Federation, assign, merge_sites
from fedmerdel.centre.lineage import Round
from fedmerdel.centre.merge import MOST_SITES
from fedmerdel.centre.origins import elbo_over_merges, elbo_over_rounds
from fedmerdel.centre.outcomes import common_means, rates_at_sites, site_sums
from fedmerdel.errors import OptionError
from fedmerdel.fitting.passes import Workers, label_rows, responsibilities
from fedmerdel.inference.corrected import corrected, effective_rows, of_cells
from fedmerdel.model.certainty import N_BINS, N_DRAWN, SURE, expected_certainty
from fedmerdel.model.pixels import as_images
from fedmerdel.site.site_table import study_rows
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.conditions import condition_levels, level_texts, shown_levels
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations, expected_log_weights
from fedmerdel.sums.merging import merged_sums
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.profile import counted_profile, mixed, profile
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.federations import Federation as AllRows
from tests.federations import federations
from tests.page_tree import parsed
from tests.reported import conditions, made_federation, own_page_of, page_of
from tests.round_trips import made as made_rows
from tests.round_trips import play

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


MIXED = (
    *conditions(3),
    Variable("age", ("young", "middle", "old"), "text"),
    Variable("sex", ("female", "male"), "text"),
)
# Profiles.


@st.composite
def counted(draw: st.DrawFn) -> tuple[Sums, np.ndarray]:
    """Clusters of any sizes, some levels empty, some entries missing; and the levels."""
    levels = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    K = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(seeds))
    empty = draw(st.sampled_from([0.0, 0.3]))
    parts = [rng.gamma(0.5, 20.0, (K, L)) * (rng.random((K, L)) >= empty) for L in levels]
    T = np.max([part.sum(axis=1) for part in parts], axis=0) + rng.exponential(3.0, K) + 0.1
    return Sums(T, np.hstack(parts), np.zeros(K)), levels


def was_measured(stats: Sums, start: int, end: int) -> np.ndarray:
    """Clusters with entries of a variable: a row of them, or half of the rows that there are."""
    return np.array(
        [
            0 < sum(line[start:end]) and (sum(line[start:end]) >= min(1.0, rows / 2))
            for line, rows in zip(stats.S, stats.T, strict=True)
        ]
    )


@settings(deadline=None)
@given(drawn=counted(), alpha=st.sampled_from([0.01, 1.0]))
def test_a_profile_is_that_of_the_joint_distribution_of_cluster_and_level(
    drawn: tuple[Sums, np.ndarray], alpha: float
) -> None:
    """Every measure from a table of probabilities of cluster and level, one variable at a time.

    Of the clusters that have entries of it: in others it is not measured.
    """
    stats, levels = drawn
    prior = uniform_prior(levels, alpha, 10)
    found, offsets = profile(stats, prior), prior.offsets
    informed = found.information(offsets)
    size = alpha + stats.T
    for j, (start, end) in enumerate(pairwise(offsets)):
        told = 0.0
        cells = stats.S[:, start:end] + prior.eps[start:end]
        seen = was_measured(stats, start, end)
        assert np.isnan(found.overall[start:end]).all() == (not seen.any())
        for measure in (found.prevalence, found.ratio, found.exclusivity):
            assert np.isnan(measure[~seen, start:end]).all()
        joint = cells / cells.sum(axis=1, keepdims=True) * size[:, None]
        joint[~seen] = 0.0
        joint /= max(joint.sum(), 1e-300)
        for k in np.flatnonzero(seen):
            for at in range(end - start):
                here, cluster, level = joint[k, at], joint[k].sum(), joint[:, at].sum()
                m = start + at
                assert found.prevalence[k, m] == pytest.approx(here / cluster)
                assert found.overall[m] == pytest.approx(level)
                assert found.ratio[k, m] == pytest.approx(here / (cluster * level))
                assert found.exclusivity[k, m] == pytest.approx(here / level)
                told += here * np.log(here / (cluster * level))
        assert informed[j] == pytest.approx(told, abs=1e-12)
        assert informed[j] >= 0


@settings(deadline=None)
@given(drawn=counted())
def test_a_counted_profile_is_of_the_rows_with_an_entry(
    drawn: tuple[Sums, np.ndarray],
) -> None:
    stats, levels = drawn
    offsets = np.concatenate([[0], np.cumsum(levels)])
    found = counted_profile(stats, offsets)
    assert found.weights == pytest.approx(stats.T / stats.T.sum())
    for start, end in pairwise(offsets):
        seen = was_measured(stats, start, end)
        for k in range(stats.n_clusters):
            known = sum(stats.S[k, start:end])
            for m in range(start, end):
                share = stats.S[k, m] / known if seen[k] else np.nan
                assert found.prevalence[k, m] == pytest.approx(share, nan_ok=True)
                assert found.measured[k, m] == seen[k]
        known = sum(stats.S[seen, start:end].ravel())
        for m in range(start, end):
            whole = sum(stats.S[seen, m])
            overall = whole / known if known > 0 else np.nan
            assert found.overall[m] == pytest.approx(overall, nan_ok=True)
            for k in range(stats.n_clusters):
                part = (stats.S[k, m] / whole if whole > 0 else 0.0) if seen[k] else np.nan
                assert found.exclusivity[k, m] == pytest.approx(part, nan_ok=True)
                if seen[k] and whole == 0:
                    assert found.ratio[k, m] == 1
    assert (np.isfinite(found.ratio) == found.measured).all()
    assert np.isfinite(found.information(offsets)).all()


def test_clusters_that_are_alike_stand_side_by_side() -> None:
    a, b = np.full(6, 0.9), np.full(6, 0.1)
    levels = np.array([a, b, a - 0.02, b + 0.02, a - 0.04])
    found = mixed(np.full(5, 0.2), levels).alike().tolist()
    assert sorted(found) == [0, 1, 2, 3, 4]
    places = sorted(found.index(k) for k in (0, 2, 4))
    assert places[2] - places[0] == 2
    assert mixed(np.full(2, 0.5), levels[:2]).alike().tolist() == [0, 1]


# How sure rows are.


class Made(NamedTuple):
    """Rows that a model makes up, and how they are given to its clusters again."""

    drawn: np.ndarray
    labels: np.ndarray
    most: np.ndarray

    @classmethod
    def together(cls, parts: list[Made]) -> Made:
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def given_again(federation: Federation, seed: int) -> tuple[Made, Made]:
    """Rows of all sites, given with the site's own shares of the clusters, and as `assign` does."""
    model, codebook = federation.model, federation.study.codebook
    rng, known_shares, assigned = np.random.default_rng(seed), [], []
    entries = np.add.reduceat(model.sums.S, model.prior.offsets[:-1], axis=1)
    for in_clusters in federation.site_rows:
        n_rows = round(N_DRAWN * in_clusters.sum() / federation.site_rows.sum())
        own = model.sums._replace(T=in_clusters)
        levels, drawn_from = draw(own, model.prior, n_rows, rng)
        known = rng.random(levels.shape) < (entries / model.sums.T[:, None])[drawn_from]
        values = [
            pd.Series(np.array(v.values)[levels[:, j]]).where(known[:, j])
            for j, v in enumerate(codebook.variables)
        ]
        table = pd.DataFrame(dict(zip(codebook.names, values, strict=True)))
        theta = expectations(model.sums, model.row_prior)
        theta = theta._replace(log_weights=expected_log_weights(in_clusters, model.row_prior))
        with Workers(1) as workers:
            rows = study_rows(model.study, table)
            labels = label_rows(rows, theta, workers)
            most = responsibilities(rows, theta, workers).max(axis=1)
        known_shares.append(Made(drawn_from, labels, most))
        found = assign(model, table)
        assigned.append(Made(drawn_from, found.labels, found.probabilities.max(axis=1)))
    return Made.together(known_shares), Made.together(assigned)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("selecting", [False, True])
def test_expected_certainty_is_that_of_assigned_rows(seed: int, selecting: bool) -> None:
    """Rows made up by the model and given to its clusters as a site gives its own.

    Shares of two samples differ by five standard errors at most, each with a variance under a
    quarter of a row's.
    """
    federation = made_federation(
        4, variables=MIXED, n_sites=3, seed=seed, variable_selection=selecting
    )
    if selecting:
        votes = [("v0", "v1", "age"), ("v0", "v1", "age"), ("v0", "age", "sex")]
        parts = zip(federation.summaries, votes, strict=True)
        federation = replace(federation, summaries=tuple(replace(s, selected=v) for s, v in parts))
        assert federation.selected == ("v0", "v1", "age")
    model = federation.model
    found = expected_certainty(model.sums, model.prior, model.row_prior, federation.site_rows)
    (drawn, labels, most), assigned = given_again(federation, 100 + seed)
    assert 0.05 < found.sure < 0.999  # else little is tested

    def near(n_rows: int) -> float:
        return float(5 * 0.5 * np.sqrt(2 / max(n_rows, 1)))

    assert found.sure == pytest.approx((most > SURE).mean(), abs=near(N_DRAWN))
    shares = np.histogram(most, N_BINS, (0, 1))[0] / len(most)
    assert found.histogram == pytest.approx(shares, abs=near(N_DRAWN))
    assert found.histogram.sum() == pytest.approx(1)
    for k in range(model.n_clusters):
        own = drawn == k
        given_to = np.bincount(labels[own], minlength=4) / own.sum()
        assert found.given[k] == pytest.approx(given_to, abs=near(own.sum()))
        assert found.given[k].sum() == pytest.approx(1)
        inside = labels == k
        if inside.sum() > 50:
            assert found.sure_of[k] == pytest.approx(
                (most[inside] > SURE).mean(), abs=near(inside.sum())
            )
    # A site does not know its shares, and finds them from its rows: nearly the same.
    assert found.sure == pytest.approx((assigned.most > SURE).mean(), abs=near(N_DRAWN))
    assert np.abs(assigned.most - most).max() < 0.05
    assert np.abs(assigned.most - most).mean() < 0.015
    again, wanted = ((each == drawn).mean() for each in (assigned.labels, labels))
    assert again == pytest.approx(wanted, abs=0.01)


def test_replies_that_were_taken_back_are_not_part_of_the_course() -> None:
    record = (
        Round(1, -100.0, None, 3, 0.1, ()),
        Round(2, -120.0, None, 3, 0.1, (), "taken back"),
        Round(3, None, None, 3, 0.1, ("site 000",)),
        Round(4, -90.0, 10.0, 3, 0.1, ()),
    )
    assert elbo_over_rounds(record) == ([1, 4], [-100.0, -90.0])
    federation = made_federation(3, n_sites=2)
    found = federation.joins()
    numbers, bounds = elbo_over_merges(federation.lower_bound, found)
    assert numbers == list(range(len(found) + 1))
    assert bounds[-1] == pytest.approx(federation.lower_bound)
    assert np.diff(bounds) == pytest.approx([join.gain for join in found])


def test_one_cluster_is_certain_and_a_twin_is_not() -> None:
    one = made_federation(1, 3, 1)
    found = expected_certainty(one.sums, one.prior, one.row_prior, one.site_rows)
    assert (found.sure, found.sure_of.tolist(), found.given.tolist()) == (1.0, [1.0], [[1.0]])
    T, S, h = one.sums[:3]
    twins = Sums(np.tile(T, 2), np.tile(S, (2, 1)), np.tile(h, 2))
    found = expected_certainty(twins, one.prior, one.row_prior, twins.T[None, :])
    assert found.sure == 0
    # Rows that are as much in one as in the other all go to the first; none is in the second.
    assert found.given.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert np.isnan(found.sure_of[1])


# Where clusters come from.


@settings(deadline=None, max_examples=60)
@given(
    rows=federations(),
    learned=st.booleans(),
    search=st.sampled_from(["exact", "tree", "greedy", "random"]),
)
def test_each_merge_gains_what_the_elbo_rises_by(rows: AllRows, learned: bool, search: Any) -> None:
    """In the order of the list, from all local clusters apart to the model."""
    rows = rows.learned() if learned else rows
    federation = merge_sites(rows.study, rows.summaries(), search)
    local = federation.local
    groups = [frozenset([i]) for i in range(local.stats.n_clusters)]

    def bound() -> float:
        listed = [np.array(sorted(group)) for group in groups]
        return elbo(merged_sums(local, listed), federation.prior)

    before = apart = bound()
    found = federation.joins()
    scale = abs(federation.lower_bound)
    for join in found:
        first, second = frozenset(join.first), frozenset(join.second)
        groups.remove(first)
        groups.remove(second)
        groups.append(first | second)
        after = bound()
        assert join.gain == pytest.approx(after - before, abs=1e-9 * scale + 1e-9)
        assert first | second <= set(federation.groups[join.cluster].tolist())
        before = after
    assert set(groups) == {frozenset(group.tolist()) for group in federation.groups}
    whole = apart + sum(join.gain for join in found)
    assert whole == pytest.approx(federation.lower_bound, rel=1e-6)


def test_clusters_of_one_site_that_overlap_more_than_can_be_still_add_up() -> None:
    """Bounds of Q may add up to more than all of h: the model says 0 then, and so do the gains."""
    federation = made_federation(4, 6, 2, policy="opensafely", here=3)
    many = replace(federation, groups=(np.arange(3), np.arange(3, 6)))
    local = many.local
    assert local.stats.h[:3].sum() + np.triu(local.overlaps[0]).sum() > 0
    found = many.joins()
    assert len(found) == 4
    apart = elbo(local.stats, many.prior)
    assert apart + sum(join.gain for join in found) == pytest.approx(many.lower_bound, rel=1e-12)


def test_the_greatest_gain_comes_first_where_there_is_a_choice() -> None:
    found = made_federation(5, 12, 6, seed=3).joins()
    assert len(found) == 5 * 5
    made: set[frozenset[int]] = {frozenset([i]) for i in range(30)}
    for at, join in enumerate(found):
        # Of what could be done now, nothing later in the list would gain more.
        possible = [
            later.gain for later in found[at:]
            if {frozenset(later.first), frozenset(later.second)} <= made
        ]  # fmt: skip
        assert join.gain == max(possible)
        made.add(frozenset((*join.first, *join.second)))


@pytest.mark.parametrize("seed", range(3))
def test_leaving_out_a_site_is_merging_the_others(seed: int) -> None:
    full = made_federation(4, 8, 5, here=2, seed=seed)
    federation = merge_sites(full.study, full.summaries)
    found = federation.left_out
    assert [each.site for each in found] == list(federation.sites)
    for each in found:
        others = merge_sites(full.study, [s for s in full.summaries if s.site != each.site])
        assert each.n_clusters == others.n_clusters
        rows = {(a.site, a.local_cluster): a.rows for a in others.lineage}
        for k in range(federation.n_clusters):
            own = {
                (a.site, a.local_cluster) for a in federation.lineage
                if a.cluster == k and a.site != each.site
            }  # fmt: skip
            if not own:
                assert np.isnan(each.likeness[k])
                continue
            likeness = 0.0
            for m in range(others.n_clusters):
                new = {(a.site, a.local_cluster) for a in others.lineage if a.cluster == m}
                both, either = (sum(rows[at] for at in part) for part in (own & new, own | new))
                likeness = max(likeness, both / either)
            assert each.likeness[k] == pytest.approx(likeness)
        # What is together with the site, and of that what is together without it too.
        both = {(a.site, a.local_cluster): a.cluster for a in others.lineage}
        mixed, apart = ({}, {})
        for at, a in enumerate(a for a in federation.lineage if a.site != each.site):
            mixed.setdefault(a.cluster, []).append(at)
            apart.setdefault((a.cluster, both[a.site, a.local_cluster]), []).append(at)
        bounds = [
            elbo(
                replace(others, groups=tuple(map(np.array, groups.values()))).released_sums,
                others.released_prior,
            )
            for groups in (apart, mixed)
        ]
        assert each.loss == pytest.approx((bounds[0] - bounds[1]) / sum(rows.values()), abs=1e-9)


def test_a_cluster_of_one_site_has_no_likeness_without_it() -> None:
    alone = made_federation(3, 8, 3, here=1)
    for b, each in enumerate(alone.left_out):
        own = {a.cluster for a in alone.lineage if a.site == alone.sites[b]}
        assert {k for k in range(3) if np.isnan(each.likeness[k])} == own


def test_what_only_rows_could_tell_is_not_told() -> None:
    for n_sites in (1, 2, MOST_SITES + 1):
        assert made_federation(2, 3, n_sites).left_out == ()
    rows = made_rows(1, n_rows=300, n_sites=3, n_clusters=2)
    federation = rows.begun(rows.labels)
    assert federation.joins()
    assert federation.left_out
    assert "Without one site" in parsed(page_of(federation)).one(id="certainty").text
    later = play(federation, rows.tables)
    assert later.joins() == []
    assert "Without one site" not in parsed(page_of(later)).one(id="certainty").text


# Outcomes.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_rates_at_sites_are_those_of_each_site_alone(policy: str) -> None:
    federation = made_federation(4, 5, 4, here=3, policy=policy, outcomes=("died", "fell"))
    counting = federation.counting
    at_sites = rates_at_sites(counting, federation.study)
    n_sites, K = len(federation.sites), federation.n_clusters
    for name in ("died", "fell"):
        total = np.zeros((n_sites, K, 2))
        for a in federation.lineage:
            b = federation.sites.index(a.site)
            counts = federation.summaries[b].sums.outcomes[name]
            at = a.local_cluster
            total[b, a.cluster] += counts[at, 1], counts[at].sum()
        sites = site_sums(counting, name)
        for b, site in enumerate(sites):
            if policy == "none":
                np.testing.assert_allclose(site.sums, total[b], atol=1e-9)
            alone = corrected([site], counting.weights)
            rows = effective_rows(alone.mean[:, 0], np.diag(alone.covariance), alone.rows)
            for k, rate in enumerate(at_sites[name][b]):
                if alone.rows[k] < 0.5:
                    assert np.isnan(rate.share)
                    assert (rate.low, rate.high) == (0.0, 1.0)
                    continue
                share = alone.mean[k, 0]
                assert rate.share == pytest.approx(share)
                assert 0 <= rate.low <= rate.share <= rate.high <= 1
                ends = beta.interval(0.95, share * rows[k] + 0.5, (1 - share) * rows[k] + 0.5)
                wanted = (min(ends[0], share), max(ends[1], share))
                assert (rate.low, rate.high) == pytest.approx(wanted)
        assert np.isnan([[rate.share for rate in line] for line in at_sites[name]]).any()
        assert repr(federation.outcomes[name]) == repr(federation.model.outcomes[name])
        of_clusters, of_all, covariance, *_ = federation.outcomes[name]
        together = common_means(counting, sites, of_cells)
        np.testing.assert_allclose([rate.share for rate in of_clusters], together.mean[:, 0])
        np.testing.assert_allclose(covariance, together.covariance)
        positive, observed = np.sum([site.sums.sum(axis=0) for site in sites], axis=0)
        assert of_all.share == pytest.approx(positive / observed)


# What is shown, and as what.

CODEBOOK = Codebook(
    (
        Variable("copd", ("no", "yes"), "text"),
        Variable("gout", ("Y", "n"), "text"),
        Variable("sex", ("f", "m"), "text"),
        Variable("age", ("0", "1", "2"), "integer"),
        Variable("only", ("x",), "text"),
        Variable("fall", ("0", "1", "(missing)"), "integer", missing_level=True),
        Variable("died", ("false", "true"), "boolean"),
    )
)


def test_a_picture_shows_what_is_there_and_of_two_levels_one() -> None:
    names = [(v.name, level) for v in CODEBOOK.variables for level in v.levels]
    assert [names[at] for at in shown_levels(CODEBOOK)] == [
        ("copd", "yes"), ("gout", "Y"), ("sex", "m"), ("age", "0"), ("age", "1"), ("age", "2"),
        ("only", "x"), ("fall", "0"), ("fall", "1"), ("fall", "(missing)"), ("died", "true"),
    ]  # fmt: skip
    assert [names[at] for at in condition_levels(CODEBOOK)] == [
        ("copd", "yes"), ("gout", "Y"), ("fall", "1"), ("died", "true"),
    ]  # fmt: skip
    texts = level_texts(CODEBOOK, {"copd": "COPD", "sex": "Sex at birth"})
    assert texts == [
        "COPD = no", "COPD", "gout", "gout = n", "Sex at birth = f", "Sex at birth = m",
        "age = 0", "age = 1", "age = 2", "only = x", "fall = 0", "fall", "fall = (missing)",
        "died = false", "died",
    ]  # fmt: skip


levels = st.lists(
    st.sampled_from(["0", "1", "no", "yes", "Yes", "N", "y", "x", "z"]),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip


@given(listed=st.lists(levels, min_size=1, max_size=5))
def test_every_variable_is_shown_and_every_text_is_its_own(listed: list[list[str]]) -> None:
    codebook = Codebook(
        tuple(Variable(f"v{j}", tuple(own), "text") for j, own in enumerate(listed))
    )
    shown = shown_levels(codebook)
    assert shown == sorted(set(shown))
    owner = np.searchsorted(codebook.level_offsets, shown, side="right") - 1
    counts = np.bincount(owner, minlength=len(listed))
    assert counts.tolist() == [1 if len(own) == 2 else len(own) for own in listed]
    texts = level_texts(codebook, {})
    assert len(set(texts)) == len(texts) == sum(map(len, listed))
    assert set(condition_levels(codebook)) <= set(shown)


# Images.


@given(shape=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=seeds, part=st.floats(0.1, 1.0))
def test_pixels_are_where_their_numbers_say(shape: tuple[int, int], seed: int, part: float) -> None:
    rng = np.random.default_rng(seed)
    n_pixels = shape[0] * shape[1]
    at = rng.permutation(n_pixels)[: max(1, int(part * n_pixels))]
    rows = rng.random((3, len(at)))
    images = as_images(rows, tuple(f"pixel_{place}" for place in at), shape)
    assert images.shape == (3, *shape)
    for n in range(3):
        for line in range(shape[0]):
            for column in range(shape[1]):
                place = line * shape[1] + column
                wanted = rows[n, list(at).index(place)] if place in at else 0.0
                assert images[n, line, column] == wanted


def test_pixels_without_numbers_come_line_by_line() -> None:
    rows = np.arange(6.0)[None, :]
    for names in (tuple("abcdef"), ("a1", "b1", "c", "d", "e", "f"), ("a1", "b1", "c2") * 2):
        assert as_images(rows, names, (2, 3))[0].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("names", "shape", "words"),
    [
        (("a", "b", "c"), (2, 2), "3 variables"),
        (("p0", "p4"), (2, 2), "pixel 4 of 4"),
        (("p0", "p0x"), (2, 2), "2 variables"),
        (("p1", "p2"), (0, 2), "pixel 2 of 0"),
    ],
)
def test_pixels_that_do_not_fit_are_refused(
    names: tuple[str, ...], shape: tuple[int, int], words: str
) -> None:
    with pytest.raises(OptionError, match=words) as refusal:
        as_images(np.zeros((1, len(names))), names, shape)
    assert "\n" not in str(refusal.value)


def test_the_model_and_not_its_names_or_date_makes_the_numbers() -> None:
    federation = made_federation(3, 4, 2)
    named = federation.named({0: "Stroke"})
    assert named.joins() == federation.joins()
    for page, other in (
        (page_of(named), page_of(federation, date="2027-01-01")),
        (own_page_of(named.model), own_page_of(federation.model, date="2027-01-01")),
    ):
        assert page != other
        plain = page.replace("Stroke", "cluster 0").replace('"name":"cluster 0"', '"name":""')
        assert plain.replace("2026-02-03", "2027-01-01") == other
