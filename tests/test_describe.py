"""What a model and a federation say of themselves, against sums over the rows they came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from fedmerdel.centre.federation import Federation, merge_sites
from fedmerdel.centre.outcomes import common_means, site_sums
from fedmerdel.inference.corrected import effective_rows, of_cells
from fedmerdel.model.describe import Cluster
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.study import Study
from tests.federations import summary_of
from tests.outcome_cells import yes_no
from tests.reference import Dense, hard, m_step, statistics_from

# Two clusters; hull has only the second. Shares of yes for three conditions, ages 0 to 2.
YES = np.array([[0.9, 0.8, 0.05], [0.1, 0.05, 0.7]])
AGE = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
SIZES = {"hull": [0, 300], "leeds": [500, 200], "york": [150, 250]}
NAMES = ["age", "asthma", "copd", "gout"]


class Rows:
    """All rows of all sites: X of level numbers, label, site, death (-1: not known)."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.site = np.repeat(list(SIZES), [sum(n) for n in SIZES.values()])
        self.label = np.concatenate([np.repeat([0, 1], n) for n in SIZES.values()])
        age = (rng.random(len(self.label))[:, None] >= AGE.cumsum(axis=1)[self.label, :2]).sum(1)
        yes = rng.random((len(self.label), 3)) < YES[self.label]
        self.X = np.column_stack([age, yes.astype(int)])
        self.X[rng.random(self.X.shape) < 0.05] = -1
        self.death = (rng.random(len(age)) < np.array([0.3, 0.02])[self.label]).astype(int)
        self.death[rng.random(len(age)) < 0.1] = -1


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows()


@pytest.fixture(scope="module")
def federation(rows: Rows) -> Federation:
    variables = [Variable("age", ("old", "older", "oldest"), "text")]
    variables += [Variable(name, ("no", "yes"), "text") for name in NAMES[1:3]]
    variables += [Variable("gout", ("false", "true"), "boolean")]
    study = Study(
        "made", Codebook(tuple(variables)), policy=POLICIES["none"], outcomes=("death", "fall"),
        max_clusters=4, prior="fixed",
    )  # fmt: skip
    summaries = []
    for site in SIZES:
        at = rows.site == site
        _, label = np.unique(rows.label[at], return_inverse=True)
        K = label.max() + 1
        table = Dense(rows.X[at], np.ones(at.sum()), study.codebook.n_levels)
        positive, observed = (
            np.bincount(label[chosen], minlength=K).astype(float)
            for chosen in (rows.death[at] == 1, rows.death[at] >= 0)
        )
        counts = {
            "death": yes_no(positive, observed),
            "fall": yes_no(np.zeros(K), np.zeros(K)),
        }
        stats = statistics_from(m_step(table, hard(label, K)))
        summaries.append(summary_of(study, site, stats, counts))
    merged = merge_sites(study, summaries)
    assert merged.n_clusters == 2
    return merged


@pytest.fixture(scope="module")
def model(federation: Federation) -> GlobalModel:
    return federation.model


@pytest.fixture(scope="module")
def described(federation: Federation) -> tuple[Cluster, ...]:
    return federation.describe()


def own_label(number: int) -> int:
    """The larger cluster comes first: it is the one called 1 in the rows."""
    return 1 - number


def test_sizes_and_shares(rows: Rows, described: tuple[Cluster, ...]) -> None:
    assert [cluster.number for cluster in described] == [0, 1]
    assert [cluster.rows for cluster in described] == pytest.approx([750, 650])
    assert sum(cluster.rows for cluster in described) == pytest.approx(len(rows.label))
    assert sum(cluster.share for cluster in described) == pytest.approx(1)
    assert [cluster.share for cluster in described] == pytest.approx([750 / 1400, 650 / 1400], 1e-4)


def test_levels_against_counting(
    rows: Rows, model: GlobalModel, described: tuple[Cluster, ...]
) -> None:
    """Within what a prior of one row can do to some hundreds; entries missing are left out."""
    for cluster in described:
        inside = rows.label == own_label(cluster.number)
        listed = [(c.variable, c.level) for c in cluster.levels]
        every = [(v.name, level) for v in model.study.codebook.variables for level in v.levels]
        assert sorted(listed) == sorted(every)
        ratios = [c.ratio for c in cluster.levels]
        assert ratios == sorted(ratios, reverse=True)
        for c in cluster.levels:
            j = NAMES.index(c.variable)
            level = model.study.codebook.variables[j].levels.index(c.level)
            shares = [
                np.mean(rows.X[here & (rows.X[:, j] >= 0), j] == level)
                for here in (inside, ~inside)
            ]
            weighed = [shares[0] * inside.mean(), shares[1] * (~inside).mean()]
            assert c.prevalence == pytest.approx(shares[0], abs=0.002)
            assert c.ratio == pytest.approx(shares[0] / sum(weighed), abs=0.005)
            assert c.exclusivity == pytest.approx(weighed[0] / sum(weighed), abs=0.003)


def test_levels_are_the_posterior_means_under_a_learned_prior(federation: Federation) -> None:
    study = replace(federation.study, prior="learned")
    learned = merge_sites(study, [replace(s, study_hash=study.hash) for s in federation.summaries])
    assert learned.prior.strength is not None
    T, S = learned.sums[:2]
    eps = learned.prior.eps + S
    for cluster in learned.describe():
        for c in cluster.levels:
            j = NAMES.index(c.variable)
            start, stop = study.codebook.level_offsets[j : j + 2]
            own = eps[cluster.number, start:stop]
            mean = own[study.codebook.variables[j].levels.index(c.level)] / own.sum()
            assert c.prevalence == pytest.approx(mean, rel=1e-12)
    assert T.sum() == pytest.approx(1400)


def test_levels_are_the_posterior_means(model: GlobalModel, described: tuple[Cluster, ...]) -> None:
    T, S = model.sums[:2]
    share = (T + 0.01) / (T + 0.01).sum()
    for cluster in described:
        for c in cluster.levels:
            j = NAMES.index(c.variable)
            levels = model.study.codebook.variables[j].levels
            start = model.study.codebook.level_offsets[j]
            cells = S[:, start : start + len(levels)]
            mean = ((cells + 1 / len(levels)) / (cells.sum(axis=1, keepdims=True) + 1))[
                :, levels.index(c.level)
            ]  # fmt: skip
            k = cluster.number
            assert c.prevalence == pytest.approx(mean[k], rel=1e-12)
            assert c.ratio == pytest.approx(mean[k] / (share @ mean), rel=1e-12)
            assert c.exclusivity == pytest.approx(share[k] * mean[k] / (share @ mean), rel=1e-12)


def test_mean_number_of_conditions(rows: Rows, described: tuple[Cluster, ...]) -> None:
    """Yes/no variables only: age has three levels."""
    for cluster in described:
        X = rows.X[rows.label == own_label(cluster.number), 1:]
        count = sum(np.mean(X[X[:, j] >= 0, j]) for j in range(3))
        assert cluster.mean_conditions == pytest.approx(count, abs=0.01)


def test_without_a_yes_no_variable_there_are_no_conditions_to_count() -> None:
    study = Study(
        "ages", Codebook((Variable("age", ("0", "1", "2"), "integer"),)), policy=POLICIES["none"]
    )
    table = Dense(np.array([[0], [1], [2]]), np.ones(3), np.array([3]))
    stats = statistics_from(m_step(table, hard(np.zeros(3, dtype=int), 1)))
    (cluster,) = merge_sites(study, [summary_of(study, "leeds", stats)]).describe()
    assert cluster.mean_conditions is None
    assert cluster.sites == {"leeds": 1.0}
    assert cluster.outcomes == {}


def counted(*variables: Variable) -> float | None:
    """Mean conditions of one cluster of four rows, three of which are at each first level."""
    study = Study("s", Codebook(variables), policy=POLICIES["none"], prior="fixed")
    X = np.tile([[0], [0], [0], [1]], len(variables))
    table = Dense(X, np.ones(4), study.codebook.n_levels)
    stats = statistics_from(m_step(table, hard(np.zeros(4, dtype=int), 1)))
    (cluster,) = merge_sites(study, [summary_of(study, "leeds", stats)]).model.describe()
    return cluster.mean_conditions


@pytest.mark.parametrize(
    "levels",
    [
        ("0", "1"),
        ("no", "yes"),
        ("No", "YES"),
        ("N", "Y"),
        ("FALSE", "True"),
        ("Absent", "present"),
    ],
)
def test_a_condition_is_known_by_the_names_of_its_levels(levels: tuple[str, str]) -> None:
    assert counted(Variable("copd", levels, "text")) == pytest.approx(1.5 / 5)
    # The study may list them the other way round: then the first level is the yes.
    assert counted(Variable("copd", levels[::-1], "text")) == pytest.approx(3.5 / 5)


@pytest.mark.parametrize(
    "levels", [("female", "male"), ("F", "M"), ("1", "2"), ("no", "1"), ("old", "young")]
)
def test_other_variables_of_two_levels_are_no_conditions(levels: tuple[str, str]) -> None:
    assert counted(Variable("sex", levels, "text")) is None
    both = (Variable("copd", ("no", "yes"), "text"), Variable("sex", levels, "text"))
    assert counted(*both) == pytest.approx(1.5 / 5)


def test_outcome_rates_have_beta_intervals(
    rows: Rows, federation: Federation, described: tuple[Cluster, ...]
) -> None:
    """Of as many rows as leave them so open; corrected, so farther from the mean than counted."""
    sites = site_sums(federation.counting, "death")
    estimate = common_means(federation.counting, sites, of_cells)
    counted = np.sum([site.sums for site in sites], axis=0)
    everyone = rows.death[rows.death >= 0].mean()
    for cluster in described:
        k = cluster.number
        inside = rows.label == own_label(k)
        known = inside & (rows.death >= 0)
        dead, total = np.sum(rows.death[known]), np.sum(known)
        np.testing.assert_allclose(counted[k], [dead, total])
        rate = cluster.outcomes["death"]
        assert rate.share == pytest.approx(estimate.mean[k, 0])
        assert rate.share == pytest.approx(dead / total, abs=0.05)
        assert abs(rate.share - everyone) > abs(dead / total - everyone)
        n = effective_rows(estimate.mean[k], estimate.covariance[k, k], estimate.rows[k])[0]
        assert n < total
        interval = beta.interval(0.95, rate.share * n + 0.5, (1 - rate.share) * n + 0.5)
        wanted = (min(interval[0], rate.share), max(interval[1], rate.share))
        assert (rate.low, rate.high) == pytest.approx(wanted, rel=1e-9)
        assert rate.low <= rate.share < rate.high
    # Nobody knows: no share, and an interval of everything.
    unknown = described[0].outcomes["fall"]
    assert np.isnan(unknown.share)
    assert (unknown.low, unknown.high) == (0.0, 1.0)


def test_shares_of_each_site(described: tuple[Cluster, ...]) -> None:
    for site, sizes in SIZES.items():
        shares = [cluster.sites[site] for cluster in described]
        assert sum(shares) == pytest.approx(1)
        assert shares == pytest.approx([sizes[1] / sum(sizes), sizes[0] / sum(sizes)])


def test_a_model_tells_no_site_unless_the_study_says_so(
    federation: Federation, described: tuple[Cluster, ...], tmp_path: Path
) -> None:
    """Of all else it says the same as its federation, also where it was saved and loaded."""
    federation.model.save(tmp_path / "model")
    for model in (federation.model, GlobalModel.load(tmp_path / "model")):
        told = model.describe()
        assert [cluster.sites for cluster in told] == [{}, {}]
        assert without_sites(told) == without_sites(described)
    study = replace(federation.study, site_shares=True)
    shared = merge_sites(study, [replace(s, study_hash=study.hash) for s in federation.summaries])
    shared.model.save(tmp_path / "shared")
    for model in (shared.model, GlobalModel.load(tmp_path / "shared")):
        told = model.describe()
        assert [cluster.sites for cluster in told] == [cluster.sites for cluster in described]
        assert without_sites(told) == without_sites(described)


def without_sites(clusters: tuple[Cluster, ...]) -> str:
    # As text: a rate of which nothing is known is no number, and equals nothing.
    return repr([replace(cluster, sites={}) for cluster in clusters])


def test_sampled_rows_are_like_the_mixture(model: GlobalModel) -> None:
    n = 40_000
    X, clusters = model.sample(n, random_state=3)
    assert X.shape == (n, 4)
    assert set(X[:, 0]) == {"old", "older", "oldest"}
    assert set(X[:, 3]) == {False, True}  # values of the codebook, not texts
    for cluster in model.describe():
        inside = clusters == cluster.number
        assert np.mean(inside) == pytest.approx(cluster.share, abs=5 * 0.5 / np.sqrt(n))
        for c in cluster.levels:
            j = NAMES.index(c.variable)
            wanted = c.level if j < 3 else c.level == "true"
            found = np.mean(X[inside, j] == wanted)
            assert found == pytest.approx(c.prevalence, abs=5 * 0.5 / np.sqrt(inside.sum()))
    # Within a cluster variables are independent.
    inside = clusters == 0
    asthma, copd = X[inside, 1] == "yes", X[inside, 2] == "yes"
    both = np.mean(asthma & copd)
    assert both == pytest.approx(asthma.mean() * copd.mean(), abs=5 * 0.5 / np.sqrt(inside.sum()))


def test_sampling_is_reproducible(model: GlobalModel) -> None:
    (X, clusters), (again, same) = (model.sample(50, random_state=1) for _ in range(2))
    assert np.array_equal(X, again)
    assert np.array_equal(clusters, same)
    assert not np.array_equal(X, model.sample(50, random_state=2)[0])
