"""A saved estimator keeps what it learned of its prior, and refuses what none can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import MerDel, simulate
from fedmerdel.errors import FileError

X = simulate(400, 8, 3, levels=(2, 3, 2, 2, 4, 2, 2, 3), beta=(1, 1), random_state=1).X
WAYS: list[dict[str, Any]] = [
    {},
    {"prior": "learned"},
    {"prior": "fixed"},
    {"prior": 0.5},
    {"prior": np.full(8, 0.5)},
    {"variable_selection": True},
    {"variable_selection": True, "prior": 0.5},
    {"variable_selection": True, "recipe": "paper"},
]


@pytest.fixture(params=WAYS, ids=str)
def model(request: pytest.FixtureRequest) -> MerDel:
    return MerDel(6, random_state=0, **request.param).fit(X)


def test_a_loaded_model_is_the_same_to_the_last_bit(model: MerDel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    for name in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(model, name)(X))
    for name in ("selection_probability_", "selected_", "weights_", "strengths_", "floor_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    for one, other in zip(loaded.credible_intervals(), model.credible_intervals(), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(loaded.sample(50)[0], model.sample(50)[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert loaded.lower_bound_ == model.lower_bound_
    assert loaded._prior.constant == model._prior.constant
    assert loaded.variable_selection == model.variable_selection
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_a_loaded_model_can_be_fitted_again(model: MerDel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    again = MerDel.load(tmp_path / "model.json").fit(X)
    assert again.lower_bound_ == model.lower_bound_
    np.testing.assert_array_equal(again.labels_, model.labels_)


@pytest.mark.parametrize(
    ("options", "part", "value"),
    [
        ({}, "strength", [1.0] * 7),
        ({}, "strength", ["a"] * 8),
        ({}, "strength", [float("nan")] * 8),
        ({}, "constant", "much"),
        ({}, "constant", None),
        ({}, "eps", [0.0] * 20),
        ({"variable_selection": True}, "inclusion", [0.5] * 9),
        ({"variable_selection": True}, "background", [0.5] * 8),
        ({"variable_selection": True}, "background", [[0.5] * 20]),
    ],
)
def test_damaged_priors_are_refused(
    options: dict[str, Any], part: str, value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    MerDel(4, random_state=0, **options).fit(X).save(path)
    content = json.loads(path.read_text("utf-8"))
    assert part in content["prior"]
    content["prior"][part] = value
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FileError, match=r"is damaged|can't be read"):
        MerDel.load(path)
    del content["prior"][part]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FileError, match="is damaged"):
        MerDel.load(path)
