"""Saving and loading: JSON that holds the model, no row and no label, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel import Codebook, MerDel, Variable, simulate

LEVELS = (2, 3, 4, 2, 3) * 3
N = 613
X = simulate(N, 15, 3, levels=LEVELS, beta=(0.3, 0.3), random_state=1).X
NAMES = [f"Größe {j}" for j in range(15)]
FRAME = pd.DataFrame(X, columns=NAMES).astype("str").map(lambda level: f"Stufe {level}")

HIDDEN = np.random.default_rng(0).random(X.shape) < 0.1


@pytest.fixture(scope="module")
def model() -> MerDel:
    return MerDel(8, random_state=0).fit(FRAME)


@pytest.fixture
def path(model: MerDel, tmp_path: Path) -> Path:
    model.save(tmp_path / "model.json")
    return tmp_path / "model.json"


# Round trips


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize(
    "table",
    [X, X[:, :4].astype(bool), FRAME, FRAME.mask(HIDDEN), pd.DataFrame(X, columns=NAMES)],
    ids=["integers", "booleans", "texts", "missing", "named integers"],
)
def test_a_loaded_model_predicts_the_same_to_the_last_bit(
    recipe: Any, table: Any, tmp_path: Path
) -> None:
    saved = MerDel(6, recipe=recipe, random_state=1, absolute_tol=1e-2).fit(table)
    saved.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(table), saved.predict(table))
    np.testing.assert_array_equal(loaded.predict_proba(table), saved.predict_proba(table))
    np.testing.assert_array_equal(loaded.score_samples(table), saved.score_samples(table))
    for new, old in zip(loaded.sample(50, 3), saved.sample(50, 3), strict=True):
        np.testing.assert_array_equal(new, old)
        assert new.dtype == old.dtype


def test_the_model_is_kept_and_the_fit_is_not(model: MerDel, path: Path) -> None:
    loaded = MerDel.load(path)
    of_the_fit = {"labels_", "lower_bounds_", "lower_bound_seconds_", "history_"}
    kept = set(vars(model)) - of_the_fit
    assert set(vars(loaded)) == kept
    assert loaded.get_params() == model.get_params()
    assert loaded.codebook_ == model.codebook_
    for name in ("lower_bound_", "n_iter_", "converged_", "n_clusters_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
        assert type(getattr(loaded, name)) is type(getattr(model, name))
    for name in ("weights_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for new, old in (
        (loaded.level_probabilities_, model.level_probabilities_),
        (loaded.credible_intervals(), model.credible_intervals()),
    ):
        for p, q in zip(new, old, strict=True):
            np.testing.assert_array_equal(p, q)


def test_a_loaded_model_checks_columns_as_before(path: Path) -> None:
    loaded = MerDel.load(path)
    with pytest.raises(ValueError, match="must be in the same order"):
        loaded.predict(FRAME[NAMES[::-1]])


def test_a_loaded_model_can_be_saved_and_fitted_again(
    model: MerDel, path: Path, tmp_path: Path
) -> None:
    loaded = MerDel.load(str(path))
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    loaded.fit(FRAME)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert loaded.lower_bound_ == model.lower_bound_


@pytest.mark.parametrize(
    "options",
    [
        {"max_clusters": np.int64(4), "max_iter": np.int16(500)},
        {"alpha": np.float32(0.5), "tol": np.float64(1e-3)},
        {"random_state": np.int64(3), "verbose": False},
        {"random_state": np.random.RandomState(0)},
        {"recipe": "paper", "laps": None, "init": "random", "absolute_tol": 0.1},
        {"init": np.arange(N) % 4},
        {"prior": [np.full(n, 0.7) for n in LEVELS]},
        {"prior": np.full(sum(LEVELS), 0.7)},
    ],
)
def test_options_of_any_type_can_be_saved(options: dict[str, Any], tmp_path: Path) -> None:
    saved = MerDel(**{"max_clusters": 4, **options}).fit(X)
    saved.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), saved.predict_proba(X))
    for name, value in options.items():
        if name == "prior":
            np.testing.assert_array_equal(loaded.prior, np.full(sum(LEVELS), 0.7))
        elif isinstance(value, np.ndarray | np.random.RandomState):
            assert getattr(loaded, name) is None
        else:
            assert getattr(loaded, name) == value


def test_a_given_codebook_is_given_again(tmp_path: Path) -> None:
    codebook = Codebook(tuple(Variable(n, ("0", "1", "2", "3"), "integer") for n in NAMES[::-1]))
    frame = pd.DataFrame(X, columns=NAMES)
    saved = MerDel(4, codebook=codebook, random_state=0).fit(frame)
    saved.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    assert loaded.codebook == loaded.codebook_ == codebook
    np.testing.assert_array_equal(loaded.predict_proba(frame), saved.predict_proba(frame))


# What the file holds


def test_the_file_is_json_of_a_kind_and_version(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    assert list(content)[:3] == ["kind", "version", "estimator"]
    assert content["kind"] == "fedmerdel estimator"
    assert content["version"] == 4
    assert content["estimator"] == "MerDel"
    assert "Größe 3" in text
    assert text.endswith("}\n")


def lengths(content: Any) -> set[int]:
    """Lengths of all lists and texts inside."""
    if isinstance(content, dict):
        return set().union(*(lengths(value) for value in content.values()))
    if isinstance(content, list):
        return {len(content)}.union(*(lengths(value) for value in content))
    return {len(content)} if isinstance(content, str) else set()


@pytest.mark.parametrize("init", [None, np.arange(N) % 4])
def test_nothing_in_the_file_is_as_long_as_the_table(init: Any, tmp_path: Path) -> None:
    model = MerDel(4, init=init, recipe="paper", absolute_tol=1e-2, random_state=0)
    model.fit(X, sample_weight=np.linspace(1, 2, N))
    model.save(tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    found = lengths(content)
    assert max(found) < N
    assert N not in found


def test_the_same_fit_gives_the_same_bytes(tmp_path: Path) -> None:
    for n_jobs in (1, 2):
        MerDel(4, n_jobs=n_jobs, random_state=0).fit(X).save(tmp_path / f"{n_jobs}.json")
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


def test_more_rows_make_no_larger_file(tmp_path: Path) -> None:
    sizes = []
    for n in (200, N):
        model = MerDel(3, init="random", max_iter=500, random_state=0).fit(X[:n])
        model.save(tmp_path / f"{n}.json")
        sizes.append((tmp_path / f"{n}.json").stat().st_size)
    assert sizes[1] < sizes[0] + 500


def test_values_that_are_no_levels_never_appear(tmp_path: Path) -> None:
    codebook = Codebook(tuple(Variable(n, ("0", "1", "2", "3"), "integer") for n in NAMES))
    frame = pd.DataFrame(X, columns=NAMES, index=[f"SECRET {i}" for i in range(N)])
    frame.attrs["who"] = "SECRET"
    MerDel(3, codebook=codebook, random_state=0).fit(frame).save(tmp_path / "model.json")
    assert "SECRET" not in (tmp_path / "model.json").read_text(encoding="utf-8")
