"""`FedMerDel`: the rows of many sites, or random batches, in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score, homogeneity_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedmerdel import (
    ConstantColumnWarning,
    DataError,
    Federation,
    FedMerDel,
    GlobalModel,
    OptionError,
    simulate,
)
from fedmerdel.estimators import federated
from fedmerdel.fitting.passes import Workers, label_rows, responsibilities
from fedmerdel.site.assign import assign
from fedmerdel.site.assign import score_samples as score_under
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from tests.continuous import needs_continuous_data

TABLE = simulate(1500, 30, 4, beta=(0.3, 0.3), random_state=3)
HOSPITALS = np.array(["york", "hull", "leeds"])[np.arange(1500) % 3]


@pytest.fixture(scope="module")
def fitted() -> FedMerDel:
    return FedMerDel(8, random_state=1).fit(TABLE.X, groups=HOSPITALS)


@pytest.mark.filterwarnings(f"ignore::{ConstantColumnWarning.__module__}.ConstantColumnWarning")
@parametrize_with_checks(
    [FedMerDel(), FedMerDel(n_batches=2, recipe="paper", search="greedy", absolute_tol=1e-2)],
    expected_failed_checks=needs_continuous_data,
)
def test_scikit_learn_check(estimator: FedMerDel, check: Any) -> None:
    check(estimator)


def test_sites_find_the_clusters(fitted: FedMerDel) -> None:
    assert fitted.n_clusters_ == 4
    assert adjusted_rand_score(fitted.labels_, TABLE.labels) > 0.99
    assert adjusted_rand_score(fitted.frozen_labels_, TABLE.labels) > 0.98
    assert fitted.labels_.dtype == fitted.frozen_labels_.dtype == np.int64
    assert fitted.federation_.sites == ("hull", "leeds", "york")
    assert fitted.model_ is fitted.federation_.model
    assert (fitted.model_.n_sites, fitted.model_.n_rounds, fitted.record_) == (3, 0, ())
    assert fitted.n_features_in_ == 30


def test_labels_are_what_each_site_would_assign(fitted: FedMerDel) -> None:
    for site in fitted.federation_.sites:
        at = site == HOSPITALS
        labels = assign(fitted.model_, TABLE.X[at]).labels
        np.testing.assert_array_equal(fitted.labels_[at], labels)


def test_frozen_labels_follow_the_lineage(fitted: FedMerDel) -> None:
    rows = {(a.site, a.cluster): 0.0 for a in fitted.lineage_}
    for ancestor in fitted.lineage_:
        rows[ancestor.site, ancestor.cluster] += ancestor.rows
    for (site, cluster), expected in rows.items():
        found = np.sum(fitted.frozen_labels_[site == HOSPITALS] == cluster)
        assert abs(found - expected) < 10
    assert fitted.lineage_ == fitted.federation_.lineage


def test_bound_and_sums_are_those_of_the_model(fitted: FedMerDel) -> None:
    model = fitted.model_
    bound = elbo(model.sums, model.prior)
    assert fitted.lower_bound_ == fitted.federation_.lower_bound == model.elbo == bound
    assert model.prior.n_components == 3 * 8
    assert model.sums.T.sum() == pytest.approx(1500)


def test_predictions_are_of_the_global_model(fitted: FedMerDel) -> None:
    """With everyone's weights: which site the rows are of is not known."""
    model = fitted.model_
    rows, theta = study_rows(model.study, TABLE.X), expectations(model.sums, model.row_prior)
    with Workers() as workers:
        labels, shares = label_rows(rows, theta, workers), responsibilities(rows, theta, workers)
    np.testing.assert_array_equal(fitted.predict(TABLE.X), labels)
    np.testing.assert_array_equal(fitted.predict_proba(TABLE.X), shares)
    np.testing.assert_array_equal(shares.argmax(axis=1), labels)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    scores = fitted.score_samples(TABLE.X)
    np.testing.assert_array_equal(scores, score_under(fitted.model_, TABLE.X))
    assert fitted.score(TABLE.X) == pytest.approx(scores.mean())


def test_its_model_is_saved_like_any_other(fitted: FedMerDel, tmp_path: Path) -> None:
    fitted.federation_.save(tmp_path / "centre")
    again = Federation.load(tmp_path / "centre")
    assert again.lower_bound == fitted.lower_bound_
    fitted.model_.save(tmp_path / "model")
    model = GlobalModel.load(tmp_path / "model")
    assert model.elbo == fitted.lower_bound_
    for site in again.sites:
        at = site == HOSPITALS
        np.testing.assert_array_equal(assign(model, TABLE.X[at]).labels, fitted.labels_[at])
    np.testing.assert_array_equal(score_under(model, TABLE.X), fitted.score_samples(TABLE.X))


@pytest.mark.parametrize("options", [{}, {"groups": HOSPITALS}])
def test_same_seed_same_result_on_any_number_of_threads(options: dict[str, Any]) -> None:
    one, two = (FedMerDel(8, n_jobs=n, random_state=5, n_batches=None) for n in (1, 2))
    one.fit(TABLE.X, **options)
    two.fit(TABLE.X, **options)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.frozen_labels_, two.frozen_labels_)
    assert one.lower_bound_ == two.lower_bound_
    np.testing.assert_array_equal(one.predict_proba(TABLE.X), two.predict_proba(TABLE.X))


@pytest.mark.parametrize("search", ["auto", "exact", "tree", "greedy", "random"])
@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_every_search_and_recipe(search: Any, recipe: Any) -> None:
    model = FedMerDel(8, n_batches=3, search=search, recipe=recipe, random_state=0).fit(TABLE.X)
    assert adjusted_rand_score(model.labels_, TABLE.labels) > 0.85
    assert model.federation_.search == search
    assert model.model_.study.recipe == recipe


@pytest.mark.parametrize("criterion", ["kl", "bhattacharyya", "random"])
def test_criteria_of_the_paper(criterion: Any) -> None:
    model = FedMerDel(
        8, n_batches=3, search="greedy", recipe="paper", merge_criterion=criterion, random_state=0
    ).fit(TABLE.X)
    if criterion == "random":
        # The one pair that is tried is hardly ever the right one: pieces stay, each of one cluster.
        assert homogeneity_score(TABLE.labels, model.labels_) > 0.98
    else:
        assert adjusted_rand_score(model.labels_, TABLE.labels) > 0.8
    assert model.federation_.criterion == criterion
    assert model.model_.study.merge_criterion == criterion


def test_a_criterion_reaches_sites_and_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also "random", by which the paper's search proposes whatever pair."""
    asked = []

    def merge(*given: Any) -> Federation:
        asked.append(given[-1])
        return federated_merge(*given)

    federated_merge = federated.merge_trusted
    monkeypatch.setattr(federated, "merge_trusted", merge)
    for criterion in ("random", "kl"):
        model = FedMerDel(
            4, n_batches=2, search="random", merge_criterion=criterion, random_state=0
        ).fit(TABLE.X[:300])
        assert model.federation_.criterion == criterion
    assert asked == ["random", "kl"]


def test_random_batches() -> None:
    model = FedMerDel(8, n_batches=12, random_state=0).fit(TABLE.X)
    assert model.federation_.sites[0] == "batch 00"
    np.testing.assert_allclose(model.federation_.site_rows.sum(axis=1), 125)
    assert FedMerDel(8).fit(TABLE.X).federation_.sites == ("batch 0",)
    X = np.array([[0, 1], [1, 0], [1, 1], [0, 0], [0, 1], [1, 1], [1, 0]])
    assert len(FedMerDel(8, n_batches=50).fit(X).federation_.sites) == 7


def test_names_of_the_sites_do_not_matter(fitted: FedMerDel) -> None:
    for names in (["1", "2", "10"], [2, 0, 1], ["z", "a", "k"]):
        groups = np.array(names)[np.arange(1500) % 3]
        other = FedMerDel(8, random_state=1).fit(TABLE.X, groups=groups)
        assert other.n_clusters_ == fitted.n_clusters_
        assert adjusted_rand_score(other.labels_, fitted.labels_) > 0.99


def test_groups_may_have_any_names(fitted: FedMerDel, tmp_path: Path) -> None:
    """They need not be names of files, as long as nothing is written."""
    names = np.array(["Family/General Practice", "..", 'C:\\x "y"\n'])
    model = FedMerDel(8, random_state=1).fit(TABLE.X, groups=names[np.arange(1500) % 3])
    assert model.federation_.sites == tuple(sorted(names))
    assert adjusted_rand_score(model.labels_, fitted.labels_) > 0.99
    assert {ancestor.site for ancestor in model.lineage_} == set(names)
    # Its model has no site's name, and goes anywhere; the centre's folder has one for each site.
    model.model_.save(tmp_path / "model")
    labels = assign(GlobalModel.load(tmp_path / "model"), TABLE.X[::3]).labels
    np.testing.assert_array_equal(labels, model.labels_[::3])
    with pytest.raises(DataError, match="give a name that a folder can have"):
        model.federation_.save(tmp_path / "centre")
    assert not (tmp_path / "centre").exists()


def test_groups_of_any_library() -> None:
    first = FedMerDel(8, random_state=1).fit(TABLE.X, groups=HOSPITALS.tolist())
    for groups in (pd.Series(HOSPITALS), pd.Categorical(HOSPITALS), HOSPITALS.astype(object)):
        other = clone(first).fit(TABLE.X, groups=groups)
        np.testing.assert_array_equal(other.labels_, first.labels_)
    np.testing.assert_array_equal(
        clone(first).fit_predict(TABLE.X, groups=HOSPITALS), first.labels_
    )


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, ""])
def test_missing_groups_are_refused(missing: Any) -> None:
    groups = [*HOSPITALS[:-1].tolist(), missing]
    for given in (groups, pd.Series(groups, dtype=object)):
        with pytest.raises(OptionError, match="site of a row is missing"):
            FedMerDel().fit(TABLE.X, groups=given)


def test_unusable_groups_are_refused() -> None:
    for groups in (HOSPITALS[:-1], HOSPITALS[:, None], "york", 3):
        with pytest.raises(OptionError, match="groups: give the site of each row"):
            FedMerDel().fit(TABLE.X, groups=groups)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"n_batches": 0}, "n_batches"),
        ({"search": "best"}, "search"),
        ({"recipe": "other"}, "recipe"),
        ({"max_clusters": 0}, "max_clusters"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, Any], word: str) -> None:
    model = FedMerDel(**options)
    with pytest.raises(OptionError, match=word):
        model.fit(TABLE.X[:50])
    with pytest.raises(NotFittedError):
        model.predict(TABLE.X)


def test_batches_beside_groups_get_a_warning() -> None:
    with pytest.warns(UserWarning, match="n_batches is not used"):
        FedMerDel(n_batches=2).fit(TABLE.X, groups=HOSPITALS)


def test_a_site_of_one_row() -> None:
    groups = HOSPITALS.copy()
    groups[0] = "one"
    model = FedMerDel(8, random_state=0).fit(TABLE.X, groups=groups)
    assert "one" in model.federation_.sites
    assert model.n_clusters_ == 4


def test_weights_count_like_rows() -> None:
    weights = np.full(1500, 2.0)
    twice = FedMerDel(8, random_state=0).fit(TABLE.X, groups=HOSPITALS, sample_weight=weights)
    assert twice.model_.sums.T.sum() == pytest.approx(3000)
    assert twice.n_clusters_ == 4


def test_rows_of_weight_zero_are_labelled_but_have_no_say() -> None:
    weights = (np.arange(1500) < 1200).astype(float)
    silent = FedMerDel(8, random_state=0).fit(TABLE.X, groups=HOSPITALS, sample_weight=weights)
    without = FedMerDel(8, random_state=0).fit(TABLE.X[:1200], groups=HOSPITALS[:1200])
    assert silent.lower_bound_ == pytest.approx(without.lower_bound_, rel=1e-6)
    np.testing.assert_array_equal(silent.labels_[:1200], without.labels_)
    assert adjusted_rand_score(silent.labels_[1200:], TABLE.labels[1200:]) > 0.95


def test_a_site_without_weight_takes_no_part() -> None:
    weights = (HOSPITALS != "hull").astype(float)
    model = FedMerDel(8, random_state=0).fit(TABLE.X, groups=HOSPITALS, sample_weight=weights)
    assert model.federation_.sites == ("leeds", "york")
    at = HOSPITALS == "hull"
    np.testing.assert_array_equal(model.labels_[at], model.frozen_labels_[at])
    assert adjusted_rand_score(model.labels_[at], TABLE.labels[at]) > 0.95


def test_columns_are_known_by_name() -> None:
    frame = pd.DataFrame(TABLE.X[:, :6], columns=list("abcdef"))
    model = FedMerDel(4, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    plain = FedMerDel(4, random_state=0).fit(TABLE.X[:, :6])
    with pytest.raises(ValueError, match="FedMerDel is expecting 6 features"):
        plain.predict(TABLE.X[:, :5])


def test_few_passes_get_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = FedMerDel(8, max_iter=2, recipe="paper").fit(TABLE.X, groups=HOSPITALS)
    assert model.n_iter_ > 0


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(fitted: FedMerDel) -> None:
    model = FedMerDel(8, random_state=1).fit(TABLE.X, groups=HOSPITALS)
    with pytest.raises(DataError):
        model.fit([[0.5, 1.2], [0.1, 0.2]])
    np.testing.assert_array_equal(model.predict(TABLE.X), fitted.predict(TABLE.X))
