"""scikit-learn's own checks, and what they check on continuous data checked on categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedmerdel import ConstantColumnWarning, DataError, MerDel, simulate
from tests.continuous import needs_continuous_data


@pytest.mark.filterwarnings(f"ignore::{ConstantColumnWarning.__module__}.ConstantColumnWarning")
@parametrize_with_checks(
    [MerDel(), MerDel(recipe="paper", max_iter=1000, absolute_tol=1e-3)],
    expected_failed_checks=needs_continuous_data,
)
def test_scikit_learn_check(estimator: MerDel, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("shape", [(30, 4), (10, 3)])
def test_the_expected_failures_are_refusals_of_continuous_columns(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    with pytest.raises(DataError, match="column 'x0' holds numbers that are not whole"):
        MerDel().fit(X)


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("readonly", [False, True])
def test_clustering_of_categories(recipe: str, readonly: bool) -> None:
    """What check_clustering asks, of categories."""
    for seed in range(3):
        table = simulate(150, 30, 3, beta=(0.3, 0.3), random_state=seed)
        X = table.X.copy()
        X.flags.writeable = not readonly
        model = MerDel(max_clusters=6, recipe=recipe, random_state=seed)
        labels = clone(model).fit_predict(X)
        assert labels.shape == (150,)
        assert labels.dtype in (np.dtype("int32"), np.dtype("int64"))
        assert adjusted_rand_score(labels, table.labels) > 0.9
        np.testing.assert_array_equal(model.fit(X.tolist()).labels_, labels)
        assert set(labels) <= set(range(model.n_clusters_))


def test_negative_numbers_are_levels_like_others() -> None:
    """What check_positive_only_tag_during_fit asks, of whole numbers."""
    X = simulate(200, 10, 3, levels=3, random_state=0).X.astype(np.int64)
    above, below = (MerDel(random_state=0).fit(X - shift) for shift in (0, 2))
    np.testing.assert_array_equal(above.labels_, below.labels_)
    assert above.lower_bound_ == below.lower_bound_


def test_it_is_a_clusterer_of_categories() -> None:
    model = MerDel()
    assert is_clusterer(model)
    tags = model.__sklearn_tags__().input_tags
    assert tags.categorical
    assert tags.string
    assert tags.allow_nan
    assert not tags.sparse


def test_cross_validation_by_held_out_score() -> None:
    X = simulate(600, 20, 3, beta=(0.3, 0.3), random_state=0).X
    one, many = (
        cross_val_score(MerDel(k, random_state=0), X, cv=3, error_score="raise") for k in (1, 8)
    )
    assert np.all(many > one + 0.5)


def test_grid_search_over_its_options() -> None:
    X = simulate(300, 20, 3, beta=(0.3, 0.3), random_state=0).X
    grid = {"max_clusters": np.arange(1, 4), "alpha": [0.01, 1.0]}
    search = GridSearchCV(MerDel(random_state=0), grid, cv=2, error_score="raise").fit(X)
    assert search.best_params_["max_clusters"] == 3
    assert search.predict(X).shape == (300,)


def test_at_the_end_of_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, size=400)
    X = rng.normal(truth[:, None] * 3.0, 1.0, size=(400, 6))
    bands = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    pipeline = make_pipeline(bands, MerDel(random_state=0))
    assert adjusted_rand_score(pipeline.fit_predict(X), truth) > 0.9
    weighted = pipeline.fit(X, merdel__sample_weight=np.full(400, 2.0))
    assert weighted.predict_proba(X).shape == (400, weighted[-1].n_clusters_)


def test_shown_in_a_notebook_and_in_text() -> None:
    assert repr(MerDel(5, recipe="paper")) == "MerDel(max_clusters=5, recipe='paper')"
    html = MerDel(5)._repr_html_()
    assert "MerDel" in html
    assert "Not fitted" in html
    fitted = MerDel(5).fit([[0, 1], [1, 0], [1, 1]])
    assert "Not fitted" not in fitted._repr_html_()
