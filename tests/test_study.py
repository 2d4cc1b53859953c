"""The study: what it refuses, and its hash."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from fedmerdel.errors import DataError, OptionError
from fedmerdel.study import POLICIES, Codebook, Policy, Study, Variable, custom_policy
from fedmerdel.study.outcome import Outcome, checked_covariates
from fedmerdel.study.priors import study_prior
from fedmerdel.study.promise import Promise

SMOKING = Variable("smoking", ("never", "former", "current"), "text")
DIABETES = Variable("diabetes", ("false", "true"), "boolean")
COPD = Variable("copd", ("0", "1"), "integer")
BOOK = Codebook((SMOKING, DIABETES, COPD))
STUDY = Study("frailty", BOOK)


# The object


def test_defaults() -> None:
    assert (STUDY.max_clusters, STUDY.recipe, STUDY.laps, STUDY.alpha) == (
        "auto",
        "default",
        5,
        0.01,
    )
    assert STUDY.policy is POLICIES["opensafely"]
    assert (STUDY.prior, STUDY.variable_selection) == ("learned", False)
    assert (STUDY.outcomes, STUDY.row_id, STUDY.labels) == ((), None, ())
    assert (STUDY.merge_criterion, STUDY.rounds) == ("correlation", 0)
    assert STUDY.site_shares is False
    assert STUDY.seed == 0


def test_it_can_not_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        STUDY.seed = 1  # type: ignore[misc]


def test_lists_and_numpy_numbers_become_plain() -> None:
    given: dict[str, Any] = {
        "max_clusters": np.int32(7),
        "laps": np.uint8(3),
        "alpha": np.float32(0.5),
        "prior": np.full(7, 0.25),
        "outcomes": ["death"],
        "seed": np.int64(4),
        "labels": {"copd": "COPD", "smoking": "Smoking"},
    }
    study = Study("frailty", BOOK, **given)
    assert [type(getattr(study, name)) for name in given] == [int, int, float] + [tuple] * 2 + [
        int,
        tuple,
    ]
    assert study.labels == (("smoking", "Smoking"), ("copd", "COPD"))
    assert replace(study) == study
    assert len({study, replace(study)}) == 1


def test_labels() -> None:
    study = replace(STUDY, labels={"copd": "COPD"})
    assert (study.label("copd"), study.label("diabetes")) == ("COPD", "diabetes")


@pytest.mark.parametrize("way", ["fixed", "learned"])
def test_the_prior_of_each_level_before_anything_is_learned(way: str) -> None:
    prior = study_prior(replace(STUDY, prior=way), 30)
    np.testing.assert_array_equal(prior.eps, (1 / 3, 1 / 3, 1 / 3, 0.5, 0.5, 0.5, 0.5))
    assert (prior.alpha, prior.n_components, prior.constant) == (0.01, 30, 0.0)
    given = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    np.testing.assert_array_equal(study_prior(replace(STUDY, prior=given), 5).eps, given)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["", "  ", None, 3]),
        ("codebook", [None, {"variables": []}]),
        ("max_clusters", [0, 2.0, True, "20", None]),
        ("seed", [-1, 2**32, 1.0, False, None]),
        ("laps", [-1, "never", 1.5]),
        ("recipe", ["papers", None, 1]),
        ("merge_criterion", ["cosine", None, ("kl",)]),
        ("rounds", [-1, 1001, 1.5, True, "3", None]),
        ("site_shares", [None, 1, "true"]),
        ("alpha", [0, -1.0, float("nan"), float("inf"), "0.01", True, None, 10**400]),
        ("prior", ["Fixed", 0.0, True, {}, (1.0,) * 6, (0.0,) * 7, (True,) * 7, ("a",) * 7]),
        ("prior", [[1e-10] * 7, (1.0, 2.0), ((1, 1, 1), (1, 1)), float("nan"), 10**400]),
        ("variable_selection", [None, 1, "true"]),
        ("missing", [None, "drop", ["level"]]),
        ("weight", ["", " ", 1]),
        ("policy", ["opensafely", None, Policy("ons", 3, 0, "x"), Policy("ours", 3, 0, "x")]),
        ("outcomes", ["death", None, [3], ("",), ("death", "death")]),
        ("row_id", ["", 3]),
        ("labels", [{"age": "Age"}, {"copd": ""}, {"copd": None}, 3, "abc"]),
    ],
)
def test_values_that_a_field_does_not_take(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(OptionError, match=f"^{field}: ") as caught:
            replace(STUDY, **{field: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"outcomes": ("copd",)}, "outcome 'copd' is a variable too"),
        ({"row_id": "copd"}, "row_id 'copd' is a variable too"),
        ({"row_id": "death", "outcomes": ("death",)}, "row_id 'death' is an outcome too"),
        ({"weight": "copd"}, "weight 'copd' is a variable too"),
        ({"weight": "w", "row_id": "w"}, "weight 'w' is the row_id too"),
        ({"name": "\x1b[2Jlungs"}, "name: .* holds control characters"),
        ({"name": "a\u202eb"}, "name: .* holds control characters"),
        ({"outcomes": ("died\r",)}, "outcomes: .* holds control characters"),
        ({"row_id": "id\x9b"}, "row_id: .* holds control characters"),
        ({"weight": "w\t"}, "weight: .* holds control characters"),
        ({"labels": {"copd": "x\ny"}}, "labels: .* holds control characters"),
        ({"codebook": Codebook((Variable("x\x07", ("0",), "text"),))}, "level of variable 'x"),
        ({"codebook": Codebook((Variable("x", ("\x1b",), "text"),))}, "level of variable 'x'"),
        ({"rounds": 1}, "^rounds: .*'opensafely' hides.* trusts_centre = true .*'sums'"),
        ({"rounds": 1, "policy": POLICIES["datashield"]}, "^rounds: "),
        ({"name": "\ud800"}, "half a character"),
        ({"row_id": "\udfff"}, "half a character"),
        ({"labels": {"copd": "x\ud800"}}, "half a character"),
        ({"codebook": Codebook((Variable("x", ("\ud800",), "text"),))}, "half a character"),
    ],
)
def test_fields_that_do_not_fit_each_other(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        replace(STUDY, **fields)


def test_rounds_under_a_policy_are_of_those_who_trust_the_centre() -> None:
    """Nobody needs to be trusted where nothing is hidden, or where only totals are known."""
    for fields in (
        {"promise": Promise(trusts_centre=True)},
        {"promise": Promise("sums")},
        {"policy": POLICIES["none"]},
        {"policy": custom_policy(1)},
    ):
        assert replace(STUDY, rounds=1, **fields).rounds == 1
    for given in (1, "true", None):
        with pytest.raises(OptionError, match=r"^promise: trusts_centre: give true or false"):
            Promise(trusts_centre=given)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="'trusts_centre' is not for 'sums': leave it out"):
        Promise("sums", trusts_centre=True)


# The hash


def test_the_hash_of_a_study_stays_what_it_is() -> None:
    # If this fails, outputs of earlier versions no longer fit their studies: raise FORMAT.
    assert STUDY.hash == "33e9f39e62e0dc75687d250ae55ec496fbfa54aed5657697750d060c0b99e8cd"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"codebook": Codebook((DIABETES, SMOKING, COPD))},
        {"codebook": Codebook((SMOKING, DIABETES, Variable("copd", ("1", "0"), "integer")))},
        {"codebook": Codebook((SMOKING, DIABETES, Variable("copd", ("0", "1"), "text")))},
        {"max_clusters": 21},
        {"recipe": "paper"},
        {"laps": None},
        {"merge_criterion": "kl"},
        {"alpha": 0.02},
        {"prior": (1.0,) * 7},
        {"prior": "fixed"},
        {"prior": "fixed", "variable_selection": True},
        {"policy": POLICIES["nhs"]},
        {"policy": custom_policy(8, 5)},
        {"rounds": 3, "policy": POLICIES["none"]},
        {"promise": Promise(trusts_centre=True)},
        {"promise": Promise("sums")},
        {"site_shares": True},
        {"outcomes": ("death",)},
        {"seed": 1},
        {"missing": "level"},
        {"missing": "error"},
        {"weight": "w"},
    ],
    ids=str,
)
def test_the_hash_changes_with_what_changes_results(change: dict[str, Any]) -> None:
    assert replace(STUDY, **change).hash != STUDY.hash


def test_the_hash_leaves_out_what_a_site_may_call_as_it_likes() -> None:
    assert replace(STUDY, labels={"copd": "COPD"}, row_id="nhs_number").hash == STUDY.hash
    ours, theirs = (replace(STUDY, policy=custom_policy(8, 5, s)) for s in ("a", "b"))
    assert ours.hash == theirs.hash


def test_the_hash_is_the_same_in_another_process() -> None:
    code = (
        "from fedmerdel.study import Codebook, Study, Variable\n"
        "print(Study('ü', Codebook((Variable('ß', ('0', '1'), 'integer'),)), alpha=0.1).hash)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = Study("ü", Codebook((Variable("ß", ("0", "1"), "integer"),)), alpha=0.1)
    assert ran.stdout.strip() == here.hash


def test_very_many_patterns_are_refused_before_they_are_listed() -> None:
    """Of a hostile file they would fill the memory."""
    many = [Variable(f"c{j}", tuple(map(str, range(200))), "integer") for j in range(40)]
    with pytest.raises(OptionError, match="patterns, and at most 64 are told"):
        checked_covariates(many)
    with pytest.raises(OptionError, match="cells in all strata"):
        Outcome("died", strata=tuple(many))
