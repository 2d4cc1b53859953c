"""Variables that a cluster's sites never recorded: shown as not measured, wherever clusters are."""

from __future__ import annotations

import csv
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from fedmerdel import MerDel, Missingness, Sums, plot, reply_site
from fedmerdel.centre.federation import Federation
from fedmerdel.centre.filling import told_alone
from fedmerdel.commands import screen
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.pixels import cluster_images
from fedmerdel.release.released import Released
from fedmerdel.release.review_page import review_page
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import local_clusters, merged_sums
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.profile import measured, profile
from tests.federations import binary, made_study, summary_of
from tests.page_tree import parsed
from tests.reported import own_page_of, page_of
from tests.unmeasured import COPD, SITES, YES, made_unmeasured, without


@pytest.mark.parametrize("policy", ["none", "opensafely", "ons"])
def test_a_cluster_of_sites_that_never_recorded_a_variable(policy: str) -> None:
    federation = made_unmeasured(policy)
    clusters = federation.describe()
    for cluster in clusters:
        for level in cluster.levels:
            unknown = cluster.number == 2 and level.variable == "v2"
            numbers = [level.prevalence, level.ratio, level.exclusivity]
            assert np.isnan(numbers).all() if unknown else np.isfinite(numbers).all()
    assert [cluster.not_measured for cluster in clusters] == [(), (), ("v2",)]
    assert [level.variable for level in clusters[2].levels[-2:]] == ["v2", "v2"]
    assert [np.isnan(cluster.mean_conditions) for cluster in clusters] == [False, False, True]
    # All rows are those of the clusters where it was measured: york's third has no say.
    rows, found = federation.sums.T[:2], federation.model.profile
    shares = [found.prevalence[k, 5] for k in (0, 1)]
    assert found.overall[5] == pytest.approx(np.average(shares, weights=rows + 0.01))
    assert found.exclusivity[:2, 5].sum() == pytest.approx(1)
    assert np.isfinite(found.information(federation.study.codebook.level_offsets)).all()
    assert sorted(found.alike().tolist()) == [0, 1, 2]


def test_a_rare_level_that_is_hidden_is_measured() -> None:
    """v3 has 1 % of the first cluster: six rows at each site, told as none."""
    federation = made_unmeasured("opensafely")
    assert all(summary.sums.S[0, 7] == 0 for summary in federation.summaries[:2])
    level = next(c for c in federation.describe()[0].levels if (c.variable, c.level) == ("v3", "1"))
    assert 0 < level.prevalence < 0.1
    assert federation.describe()[0].not_measured == ()
    assert federation.missingness.never_recorded == (("york", "v2"),)


def test_a_few_rows_are_no_measurement_and_half_of_a_small_cluster_is() -> None:
    offsets = np.array([0, 2])
    T = np.array([500.0, 500.0, 500.0, 500.0, 6.0, 6.0, 0.0])
    entries = np.array([0.0, 0.4, 4.0, 8.0, 3.5, 2.0, 0.0])
    stats = Sums(T, np.column_stack([entries, 0 * entries]), np.zeros(7))
    assert measured(stats, offsets)[:, 0].tolist() == [False, False, True, True, True, True, False]


@pytest.mark.parametrize("york_tells", [True, False])
def test_rows_filled_in_where_nothing_is_told_of_a_cluster_measure_nothing(
    york_tells: bool,
) -> None:
    """In a round, york has the cluster, without copd; hull, with copd, tells nothing of it.

    Where no site tells anything of a cluster, all of it is as it was sent out.
    """
    first = made_unmeasured("opensafely")
    hull, york = first.summaries[0], first.summaries[2].sums
    offsets = first.study.codebook.level_offsets
    told = [np.vstack([hull.sums.S, np.zeros(8)]), np.vstack([np.zeros(8), york.S])]
    rows = [np.append(hull.sums.T, 0.0), np.append(0.0, york.T)]
    if not york_tells:
        told[1][2], rows[1][2] = 0.0, 0.0
    sums = [Sums(T, S, np.zeros(3), np.zeros((3, 3))) for T, S in zip(rows, told, strict=True)]
    theta = expectations(first.sums, first.prior)
    filled = [
        hull.mechanism.expected(Released(each, rest), theta, offsets)
        for each, rest in zip(sums, (0, 1), strict=True)
    ]
    groups = tuple(np.array([k, 3 + k]) for k in range(3))
    merged = merged_sums(local_clusters(filled), list(groups))
    assert merged.S[2, 4:6].sum() > 1
    sent: Any = tuple(SimpleNamespace(codebook=hull.codebook, sums=each) for each in sums)
    found = told_alone(merged, sent, groups)
    seen = profile(found, first.prior).measured
    assert seen[2].tolist() == [True] * 4 + [not york_tells] * 2 + [True] * 2
    assert seen[:2].all()
    others = [0, 1, 2, 3, 6, 7]
    np.testing.assert_array_equal(found.S[:, others], merged.S[:, others])
    assert (found is merged) == (not york_tells)


def test_a_round_measures_nothing_that_no_site_tells() -> None:
    """York has the third cluster, and never recorded copd; the others have three rows of it."""
    rng = np.random.default_rng(0)
    yes = np.full((3, 12), 0.03)
    for k in range(3):
        yes[k, 4 * k : 4 * k + 4] = 0.97
    study = made_study(np.full(12, 2), policy=POLICIES["opensafely"])
    tables, sent = {}, []
    for site, counts in zip(SITES, ([300, 200, 3], [300, 200, 3], [0, 200, 250]), strict=True):
        label = np.repeat([0, 1, 2], counts)
        X = (rng.random((len(label), 12)) < yes[label]).astype(float)
        # A cluster of three rows is in the largest at first.
        clusters = [label == 1, label == 2] if site == "york" else [label != 1, label == 1]
        if site == "york":
            X[:, COPD] = np.nan
        S = [[(X[own] == level).sum(axis=0) for level in (0, 1)] for own in clusters]
        T = np.array([own.sum() for own in clusters], dtype=float)
        counted = np.array(S, dtype=float).transpose(0, 2, 1).reshape(2, -1)
        sent.append(summary_of(study, site, Sums(T, counted, np.zeros(2))))
        tables[site] = X
    groups = (np.array([0, 2]), np.array([1, 3, 4]), np.array([5]))
    first = Federation(study, tuple(sent), groups, "exact", "correlation")
    replies = [reply_site(study, first.broadcast, X, site) for site, X in tables.items()]
    assert [bool(reply.sums.T[2] > 0) for reply in replies] == [False, False, True]
    federation, _ = first.step(replies)
    local = merged_sums(federation.local, list(federation.groups))
    (third,) = np.flatnonzero(local.T < 300)
    assert local.S[third, 2 * COPD : 2 * COPD + 2].sum() > 1
    assert federation.describe()[third].not_measured == ("v2",)
    assert not any(c.not_measured for c in federation.describe() if c.number != third)


def test_the_sheet_for_people_has_no_number(tmp_path: Any) -> None:
    federation = made_unmeasured("opensafely")
    federation.model.save(tmp_path / "model")
    lines = list(csv.reader((tmp_path / "model" / "clusters.csv").read_text().splitlines()))
    told = {tuple(line[:2]): line[2:] for line in lines[1:]}
    assert [row[2] == "NA" for row in told.values()] == [key[0] == "v2" for key in told]
    assert all("NA" not in row[:2] for row in told.values())
    back = GlobalModel.load(tmp_path / "model")
    np.testing.assert_array_equal(back.profile.prevalence, federation.model.profile.prevalence)
    assert back.to_files() == federation.model.to_files()


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_pages_say_so(policy: str) -> None:
    federation = made_unmeasured(policy)
    for page in map(parsed, (page_of(federation), own_page_of(federation.model))):
        cards = page.all("article")
        lines = [card.all("p", "unknown") for card in cards]
        assert [[each.text for each in line] for line in lines] == [
            [], [], ["Not measured Chronic lung disease"],
        ]  # fmt: skip
        assert "conditions a row" in cards[1].text
        assert "conditions a row" not in cards[2].text
        assert "Hatched: not measured" in page.one(id="heatmap").text
    plain = parsed(page_of(federation.remove("york")))
    assert "Hatched: not measured" not in plain.one(id="heatmap").text
    site = review_page(federation.summaries[2])
    assert "Hatched: not measured" in parsed(site).one(id="heatmap").text


def test_the_terminal_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    federation = made_unmeasured()
    screen.show_clusters(federation.model, federation.describe())
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("not measured Chronic lung disease") == 1
    assert "nan" not in told


def test_the_figure_hatches_it() -> None:
    ax = plot.heatmap(made_unmeasured(), first="study")
    hatched = [each for each in ax.patches if isinstance(each, Rectangle) and each.get_hatch()]
    assert [(each.get_x(), each.get_y()) for each in hatched] == [(1.5, 1.5)]
    assert "hatched: not measured" in ax.child_axes[0].get_title(loc="left")
    plain = plot.heatmap(made_unmeasured().remove("york"))
    assert not [each for each in plain.patches if each.get_hatch()]
    assert "hatched" not in plain.child_axes[0].get_title(loc="left")


def test_of_one_table_too() -> None:
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1], 150)
    X = (rng.random((300, 8)) < np.where(label == 0, 0.9, 0.1)[:, None]).astype(float)
    X[label == 1, 3] = np.nan
    model = MerDel(random_state=0).fit(X)
    assert model.n_clusters_ == 2
    hatched = [each for each in plot.heatmap(model).patches if each.get_hatch()]
    assert len(hatched) == 1


def test_a_pixel_that_was_not_measured_is_white() -> None:
    images = cluster_images(made_unmeasured().model, (2, 2), 50)
    assert (images[2][:, 1, 0] == 0).all()
    assert images[1][1:, 1, 0].any()


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("missing", ["ignore", "level"])
def test_missing_entries_by_site_and_variable(policy: str, missing: str) -> None:
    federation = made_unmeasured(policy, missing=missing)
    found = federation.missingness
    assert isinstance(found, Missingness)
    assert (found.sites, found.variables) == (SITES, ("v0", "v1", "v2", "v3"))
    assert found.rows.tolist() == [900.0, 900.0 if policy == "opensafely" else 901.0, 450.0]
    expected = np.zeros((3, 4))
    expected[2, 2] = 1.0
    np.testing.assert_array_equal(found.shares, expected)
    assert found.overall == pytest.approx([0, 0, 450 / found.rows.sum(), 0])
    assert found.never_recorded == (("york", "v2"),)
    table = parsed(page_of(federation)).one(id="sites").tables()[-1]
    share = f"{45000 / found.rows.sum():.1f} %"
    assert table == [
        ["variable", *SITES, "all rows"],
        ["Chronic lung disease", "", "", "all", share],
    ]
    assert not parsed(own_page_of(federation.model)).all(id="missing-table")


def test_shares_of_missing_entries_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    study = made_study(np.array([2, 3]))
    summaries, expected = [], []
    for site, lacking in (("a", (0.0, 0.3)), ("b", (0.8, 0.1))):
        X = np.column_stack([rng.integers(0, 2, 400), rng.integers(0, 3, 400)])
        X[rng.random(X.shape) < lacking] = -1
        label = rng.integers(0, 2, 400)
        S = np.array(
            [
                [((X[:, j] == level) & (label == k)).sum() for j, L in ((0, 2), (1, 3))
                 for level in range(L)]
                for k in range(2)
            ],
            dtype=float,
        )  # fmt: skip
        T = np.bincount(label).astype(float)
        summaries.append(summary_of(study, site, Sums(T, S, np.zeros(2))))
        expected.append((X == -1).mean(axis=0))
    groups = (np.array([0, 2]), np.array([1, 3]))
    federation = Federation(study, tuple(summaries), groups, "exact", "correlation")
    np.testing.assert_allclose(federation.missingness.shares, expected, atol=1e-12)
    np.testing.assert_allclose(federation.missingness.overall, np.mean(expected, axis=0))


def test_a_variable_that_nobody_recorded() -> None:
    study = made_study(np.full(2, 2))
    sums = without(binary([[0.9, 0.5], [0.1, 0.5]], [60.0, 40.0]), 1)
    groups = (np.array([0]), np.array([1]))
    federation = Federation(study, (summary_of(study, "a", sums),), groups, "exact", "correlation")
    found = federation.model.profile
    assert np.isnan(found.overall[2:]).all()
    assert found.information(study.codebook.level_offsets)[1] == 0
    page = page_of(federation)
    assert '"overall":null' in page
    assert "NaN" not in page
    assert [cluster.not_measured for cluster in federation.describe()] == [("v1",), ("v1",)]


def test_everything_is_measured_where_there_is_an_entry_in_every_cluster() -> None:
    prior = uniform_prior(np.full(4, 2), 0.01, 6)
    stats = binary(YES.tolist(), [300.0, 20.0, 2.0])
    assert profile(stats, prior).measured.all()
