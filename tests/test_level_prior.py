"""The ways to say what is expected of the levels: all that are taken, all that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import FedMerDel, MerDel, simulate
from fedmerdel.errors import OptionError
from fedmerdel.study import Codebook, Study, Variable
from fedmerdel.study.level_prior import checked_prior, chosen_way
from fedmerdel.sums.learning import what_is_learned
from fedmerdel.sums.prior import SMALLEST, level_prior

BOOK = Codebook(
    (
        Variable("smoking", ("never", "former", "current"), "text"),
        Variable("diabetes", ("false", "true"), "boolean"),
        Variable("copd", ("0", "1"), "integer"),
    )
)
EACH = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)

TAKEN: list[tuple[Any, Any]] = [
    ("fixed", "fixed"),
    ("learned", "learned"),
    (0.5, (0.5,) * 7),
    (2, (2.0,) * 7),
    (np.float32(0.25), (0.25,) * 7),
    (np.array(0.25), (0.25,) * 7),
    (SMALLEST, (SMALLEST,) * 7),
    ([1, 2, 3], (1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0)),
    (np.array([1.0, 2.0, 3.0]), (1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0)),
    (EACH, EACH),
    (list(EACH), EACH),
    (np.array(EACH), EACH),
    (np.arange(1, 8), EACH),
    ([[1, 2, 3], (4, 5), np.array([6.0, 7.0])], EACH),
    ([np.array([1, 2, 3]), [4, 5], [6, 7]], EACH),
]


@pytest.mark.parametrize(("given", "expected"), TAKEN, ids=lambda value: repr(value)[:40])
def test_ways_that_are_taken(given: Any, expected: Any) -> None:
    found = checked_prior(given, BOOK)
    assert found == expected
    assert isinstance(found, str) or all(type(number) is float for number in found)
    study = Study("frailty", BOOK, prior=given)
    assert study.prior == expected
    assert checked_prior(study.prior, BOOK) == expected  # what it became says the same
    prior = level_prior(found, BOOK.n_levels, 0.01, 9)
    named = np.repeat(1 / BOOK.n_levels, BOOK.n_levels)
    np.testing.assert_array_equal(prior.eps, named if isinstance(expected, str) else expected)


def test_a_table_of_numbers_has_a_line_for_each_variable() -> None:
    even = Codebook(BOOK.variables[1:])
    assert checked_prior(np.array([[1, 2], [3, 4]]), even) == (1.0, 2.0, 3.0, 4.0)
    assert checked_prior([5, 6], even) == (5.0, 5.0, 6.0, 6.0)
    # Where every variable has one level, a number a variable is a number a level.
    single = Codebook((Variable("a", ("0",), "integer"), Variable("b", ("0",), "integer")))
    assert checked_prior([5, 6], single) == (5.0, 6.0)


REFUSED: list[Any] = [
    "Fixed",
    "",
    "0.5",
    None,
    True,
    np.True_,
    np.array(True),
    0,
    0.0,
    -1.0,
    SMALLEST / 2,
    float("nan"),
    float("inf"),
    10**400,
    1j,
    print,
    {},
    {"smoking": 1.0, "diabetes": 1.0, "copd": 1.0},
    [],
    [1.0],
    [1.0] * 4,
    [1.0] * 6,
    [1.0] * 8,
    [0.0] * 7,
    [1.0] * 6 + [-1.0],
    [1.0] * 6 + [float("nan")],
    [True] * 7,
    ["a"] * 7,
    ["a", "b", "c"],
    [None] * 3,
    [1.0, 2.0, 0.0],
    [[1, 1, 1], [1, 1]],
    [[1, 1], [1, 1, 1], [1, 1]],
    [[1, 1, 1], [1, 1], 1],
    [[1, 1, 1], [1, 1], "ab"],
    [[1, 1, 1], [1, 1], [1, "b"]],
    [[1, 1, 1], [1, 1], [1, True]],
    [[1, 1, 1], [1, 1], {"0": 1, "1": 1}],
    [[[1], [1], [1]], [[1], [1]], [[1], [1]]],
    np.ones((7, 1)),
    np.ones((3, 2)),
]


@pytest.mark.parametrize("given", REFUSED, ids=lambda value: repr(value)[:40])
def test_all_else_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(OptionError, match=r"^prior: ") as caught:
        checked_prior(given, BOOK)
    assert "\n" not in str(caught.value)
    if given is not None:
        with pytest.raises(OptionError, match=r"^prior: "):
            Study("frailty", BOOK, prior=given)


@pytest.mark.parametrize(
    ("recipe", "selection", "chosen", "learned"),
    [
        ("default", False, "learned", "strengths"),
        ("default", True, "fixed", "selection"),
        ("paper", False, "fixed", None),
        ("paper", True, "fixed", "paper's selection"),
    ],
)
def test_what_is_meant_where_nothing_is_said(
    recipe: Any, selection: bool, chosen: str, learned: str | None
) -> None:
    assert chosen_way(None, recipe, selection) == chosen
    assert what_is_learned(checked_prior(chosen, BOOK), selection, recipe) == learned
    study = Study("frailty", BOOK, recipe=recipe, variable_selection=selection)
    assert study.prior == chosen
    for said in ("fixed", 0.5, EACH):
        assert chosen_way(said, recipe, selection) == said


def test_learned_and_selected_are_one_too_many() -> None:
    X = simulate(60, 4, 2, beta=(2, 2), random_state=0).X
    for kind in (MerDel, FedMerDel):
        with pytest.raises(OptionError, match=r"^prior: 'learned' tells noise .* variable_sel"):
            kind(prior="learned", variable_selection=True).fit(X)
    with pytest.raises(OptionError, match=r"^prior: 'learned'"):
        Study("frailty", BOOK, prior="learned", variable_selection=True)
    # The paper's recipe may learn a prior, if it is told to.
    assert MerDel(recipe="paper", prior="learned").fit(X).strengths_ is not None


numbers = st.floats(SMALLEST, 1e9)


@settings(max_examples=60, deadline=None)
@given(
    prior=st.one_of(
        st.sampled_from(["fixed", "learned", None]),
        numbers,
        st.lists(numbers, min_size=3, max_size=3),
        st.lists(numbers, min_size=7, max_size=7),
    ),
    selection=st.booleans(),
)
def test_a_study_file_keeps_the_prior(
    prior: Any, selection: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if selection and isinstance(prior, str):
        prior = "fixed"
    study = Study("frailty", BOOK, prior=prior, variable_selection=selection)
    path = tmp_path_factory.mktemp("studies") / "study.toml"
    study.save(path)
    again = Study.load(path)
    assert again == study
    assert again.hash == study.hash
    assert (again.prior, again.variable_selection) == (study.prior, selection)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('prior = "learned"', "learned"),
        ('recipe = "paper"', "fixed"),
        ("variable_selection = true", "fixed"),
        ("prior = 2", (2.0,) * 7),
        ("prior = 0.5", (0.5,) * 7),
        ("prior = [1, 2.5, 3]", (1.0, 1.0, 1.0, 2.5, 2.5, 3.0, 3.0)),
    ],
)
def test_spellings_in_a_study_file(line: str, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    Study("frailty", BOOK).save(path)
    head, _, variables = path.read_text("utf-8").partition("[[variable]]")
    name = head.split("[model]")[0]
    path.write_text(f"{name}\n[model]\n{line}\n[[variable]]{variables}", encoding="utf-8")
    assert Study.load(path).prior == expected


def test_the_hash_tells_priors_apart() -> None:
    study = Study("frailty", BOOK)
    others = [
        replace(study, prior="fixed"),
        replace(study, prior="fixed", variable_selection=True),
        replace(study, prior=np.repeat(1 / BOOK.n_levels, BOOK.n_levels)),
        replace(study, prior=0.5),
        replace(study, prior=0.5, variable_selection=True),
        replace(study, prior=(0.5,) * 6 + (0.51,)),
    ]
    assert len({study.hash, *(other.hash for other in others)}) == 7
    # Another way to say the same is the same.
    assert replace(study, prior=[0.5] * 3).hash == replace(study, prior=0.5).hash
