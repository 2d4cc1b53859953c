"""Options: what is refused, in one line that names the option, and what is taken."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fedmerdel import DataError, MerDel, OptionError, simulate
from fedmerdel.options import chosen_tolerance

X = simulate(60, 6, 2, levels=(2, 3, 2, 2, 4, 2), random_state=0).X
N_LEVELS = [2, 3, 2, 2, 4, 2]


def test_signature() -> None:
    parameters = inspect.signature(MerDel).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "max_clusters": "auto",
        "recipe": "default",
        "laps": 5,
        "merge_criterion": "correlation",
        "alpha": 0.01,
        "init": None,
        "tol": None,
        "absolute_tol": None,
        "max_iter": None,
        "n_init": None,
        "prior": None,
        "variable_selection": False,
        "guide": None,
        "missing": "ignore",
        "codebook": None,
        "covariates": None,
        "n_jobs": None,
        "random_state": None,
        "verbose": 0,
    }
    positional = [name for name, p in parameters.items() if p.kind != p.KEYWORD_ONLY]
    assert positional == ["max_clusters"]


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("fit", ["X", "y", "sample_weight"]),
        ("predict", ["X"]),
        ("predict_proba", ["X"]),
        ("score_samples", ["X"]),
        ("score", ["X", "y"]),
        ("sample", ["n_samples", "random_state"]),
        ("credible_intervals", ["level"]),
    ],
)
def test_methods_take_what_scikit_learn_gives(method: str, names: list[str]) -> None:
    assert list(inspect.signature(getattr(MerDel(), method)).parameters) == names


WRONG: list[tuple[str, Any]] = [
    ("covariates", "x1"),
    ("covariates", []),
    ("covariates", [1]),
    ("covariates", ["x1", "x1"]),
    ("max_clusters", 0),
    ("max_clusters", -1),
    ("max_clusters", 2.5),
    ("max_clusters", "20"),
    ("max_clusters", True),
    ("max_clusters", None),
    ("recipe", "Paper"),
    ("recipe", None),
    ("recipe", np.array(["default", "paper"])),
    ("laps", -1),
    ("laps", 2.0),
    ("laps", "5"),
    ("merge_criterion", "cosine"),
    ("merge_criterion", None),
    ("alpha", 0.0),
    ("alpha", -0.1),
    ("alpha", np.nan),
    ("alpha", np.inf),
    ("alpha", "0.01"),
    ("alpha", True),
    ("alpha", None),
    ("init", "kmeans"),
    ("init", 3),
    ("init", np.zeros(59, dtype=int)),
    ("init", np.zeros((60, 1), dtype=int)),
    ("init", np.zeros(60)),
    ("init", np.array(["a"] * 60)),
    ("init", np.full(60, -1)),
    ("init", np.full(60, 200)),
    ("tol", 0.0),
    ("tol", -1e-3),
    ("tol", "1e-3"),
    ("tol", np.nan),
    ("absolute_tol", 0),
    ("absolute_tol", np.inf),
    ("max_iter", 0),
    ("max_iter", 10.0),
    ("n_init", 0),
    ("n_init", "many"),
    ("max_clusters", "all"),
    ("prior", "Learned"),
    ("prior", True),
    ("prior", 0.0),
    ("prior", -0.5),
    ("prior", {"v0": 0.5}),
    ("prior", []),
    ("prior", np.ones(14)),
    ("prior", np.zeros(15)),
    ("prior", np.full(15, np.nan)),
    ("prior", np.full(15, -1.0)),
    ("prior", ["a"] * 15),
    ("prior", [np.ones(n) for n in (3, 2, 2, 2, 4, 2)]),
    ("prior", [np.ones(n) for n in N_LEVELS[:-1]]),
    ("prior", [np.ones(2), np.ones(3), 1.0, 1.0, np.ones(4), np.ones(2)]),
    ("variable_selection", 1),
    ("variable_selection", None),
    ("variable_selection", "true"),
    ("guide", "x0"),
    ("guide", ["x0"]),
    ("guide", {"x0": 0}),
    ("guide", {"x0": 1.5}),
    ("guide", {"x0": True}),
    ("guide", {"x0": None}),
    ("guide", {"no such column": 0.5}),
    ("missing", None),
    ("missing", "drop"),
    ("codebook", "codebook.toml"),
    ("codebook", {"variables": []}),
    ("n_jobs", 0),
    ("n_jobs", 1.5),
    ("n_jobs", "all"),
    ("n_jobs", True),
    ("random_state", "seed"),
    ("random_state", -1),
    ("random_state", 1.5),
    ("random_state", np.random.default_rng(0)),
    ("verbose", "yes"),
    ("verbose", -1),
    ("verbose", None),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_in_one_line_that_names_the_option(name: str, value: Any) -> None:
    model = MerDel(**{name: value})
    with pytest.raises(OptionError) as caught:
        model.fit(X)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert not hasattr(model, "n_features_in_")


def test_every_option_is_checked() -> None:
    assert {name for name, _ in WRONG} == set(MerDel().get_params())


def test_both_tolerances_are_one_too_many() -> None:
    with pytest.raises(OptionError, match=r"^tol, absolute_tol: give one of them$"):
        MerDel(tol=1e-3, absolute_tol=1e-3).fit(X)


def test_the_papers_recipe_does_not_divide() -> None:
    with pytest.raises(OptionError, match=r"^init: "):
        MerDel(recipe="paper", init="divide").fit(X)


def test_wrong_options_are_refused_before_the_table_is_read() -> None:
    with pytest.raises(OptionError, match=r"^alpha: "):
        MerDel(alpha=-1).fit("no-such-file.csv")


@pytest.mark.parametrize(
    "options",
    [
        {"max_clusters": np.int64(3), "max_iter": np.int32(50), "n_init": np.int8(2)},
        {"alpha": np.float32(0.5), "tol": np.float64(1e-3)},
        {"alpha": 1, "absolute_tol": 1},
        {"verbose": False, "n_jobs": np.int64(2), "random_state": np.int64(3)},
        {"laps": None, "recipe": "paper"},
        {"init": "random"},
        {"init": "kmodes"},
        {"init": "divide"},
        {"init": [0, 1] * 30},
        {"init": pd.Series([0, 1] * 30)},
        {"prior": pd.Series([0.5] * 15)},
        {"prior": tuple([1.0] * n for n in N_LEVELS)},
    ],
)
def test_numbers_and_arrays_of_other_types_are_taken(options: dict[str, Any]) -> None:
    model = MerDel(**{"random_state": 0, **options})
    model.fit(X)
    assert model.labels_.shape == (60,)
    for name, value in options.items():
        assert getattr(model, name) is value


def test_clone_and_set_params_keep_every_option() -> None:
    codebook = MerDel().fit(X).codebook_
    given = {
        "max_clusters": 3,
        "recipe": "paper",
        "laps": None,
        "merge_criterion": "kl",
        "alpha": 0.5,
        "init": np.arange(60) % 3,
        "tol": 1e-3,
        "absolute_tol": None,
        "max_iter": 20,
        "n_init": 2,
        "prior": np.ones(15),
        "variable_selection": True,
        "guide": {},
        "missing": "level",
        "codebook": codebook,
        "covariates": None,
        "n_jobs": 2,
        "random_state": 4,
        "verbose": 0,
    }
    original = MerDel(**given)
    assert original.get_params() == given
    assert MerDel().set_params(**given).get_params() == given
    copy = clone(original)
    assert copy.codebook == codebook
    for model in (original, copy):
        model.fit(X)
    np.testing.assert_array_equal(original.labels_, copy.labels_)
    assert original.lower_bound_ == copy.lower_bound_
    with pytest.raises(ValueError, match="Invalid parameter 'k'"):
        copy.set_params(k=3)


def test_tolerance() -> None:
    assert chosen_tolerance(None, None, "default", 1000.0) == pytest.approx(1e-2)
    assert chosen_tolerance(1e-3, None, "default", 1000.0) == pytest.approx(1.0)
    assert chosen_tolerance(1e-3, None, "paper", 1000.0) == pytest.approx(1.0)
    assert chosen_tolerance(None, None, "paper", 1000.0) == 5e-6
    assert chosen_tolerance(None, 0.25, "paper", 1000.0) == 0.25
    assert chosen_tolerance(None, 0.25, "default", 1000.0) == 0.25


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "3", None, True])
def test_sample_refuses_what_is_no_number_of_rows(n_samples: Any) -> None:
    with pytest.raises(OptionError, match=r"^n_samples: give a whole number of at least 1$"):
        MerDel().fit(X).sample(n_samples)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, np.nan, "0.95", None, True])
def test_intervals_refuse_what_is_no_probability(level: Any) -> None:
    with pytest.raises(OptionError, match=r"^level: give a number between 0 and 1$"):
        MerDel().fit(X).credible_intervals(level)


WRONG_WEIGHTS: list[Any] = [
    np.ones(59),
    np.ones((60, 1)),
    np.full(60, -1.0),
    np.full(60, np.nan),
    np.full(60, np.inf),
    np.zeros(60),
    ["heavy"] * 60,
]


@pytest.mark.parametrize("weights", WRONG_WEIGHTS, ids=lambda w: str(np.shape(w)))
def test_wrong_weights_are_refused(weights: Any) -> None:
    with pytest.raises(DataError, match=r"^sample_weight"):
        MerDel().fit(X, sample_weight=weights)
