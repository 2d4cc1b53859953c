from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel.errors import DataError
from fedmerdel.study.codebook import MAX_LEVELS, Codebook, Variable, level_number, level_text

SMOKING = Variable("smoking", ("never", "former", "current"), "text")
AGE = Variable("age_band", ("-1", "0", "3"), "integer")
DIABETES = Variable("diabetes", ("false", "true"), "boolean")


def test_values_have_the_type_of_the_kind() -> None:
    assert AGE.values == (-1, 0, 3)
    assert DIABETES.values == (False, True)
    assert all(type(value) is bool for value in DIABETES.values)
    assert SMOKING.values == ("never", "former", "current")


def test_levels_are_counted_and_offset() -> None:
    book = Codebook((SMOKING, DIABETES))
    assert book.names == ("smoking", "diabetes")
    np.testing.assert_array_equal(book.n_levels, [3, 2])
    np.testing.assert_array_equal(book.level_offsets, [0, 3, 5])
    assert book.n_levels.dtype == book.level_offsets.dtype == np.int64


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (np.int8(-1), "-1"),
        (3.0, "3"),
        (-0.0, "0"),
        (np.float32(2), "2"),
        (True, "true"),
        (np.False_, "false"),
        ("0", "0"),
        ("True", "True"),
        (0.5, "0.5"),
    ],
)
def test_canonical_text(value: object, text: str) -> None:
    assert level_text(value) == text


@pytest.mark.parametrize("text", ["01", "-0", "+1", "1.0", " 1", "", "-", "١", "9" * 19, "1_0"])
def test_other_texts_are_no_numbers(text: str) -> None:
    assert level_number(text) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_canonical_text_of_numbers_is_read_back(number: int) -> None:
    assert level_number(level_text(number)) == number


@pytest.mark.parametrize(
    ("variable", "value", "level"),
    [
        (AGE, 3, 2),
        (AGE, 3.0, 2),
        (AGE, "3", 2),
        (AGE, "3.0", None),
        (AGE, 1, None),
        (AGE, False, 1),
        (AGE, True, None),
        (DIABETES, 1, 1),
        (DIABETES, 0.0, 0),
        (DIABETES, "true", 1),
        (DIABETES, "0", 0),
        (DIABETES, 2, None),
        (SMOKING, "former", 1),
        (SMOKING, "Former", None),
        (Variable("v", ("0", "1"), "text"), 1, 1),
        (Variable("v", ("0", "1"), "integer"), True, 1),
        (Variable("v", ("0", "1"), "integer"), "true", None),
    ],
)
def test_how_values_fit_levels(variable: Variable, value: object, level: int | None) -> None:
    assert variable.find(value) == level


@pytest.mark.parametrize(
    ("values", "kind", "levels"),
    [
        ([2, 1.0], "integer", ("2", "1")),
        ([True], "boolean", ("true",)),
        (["1", "2"], "text", ("1", "2")),
        ([1, "a"], "text", ("1", "a")),
        ([0.5], "text", ("0.5",)),
        ([True, 2], "text", ("true", "2")),
        ([1, 1.0], "integer", ("1",)),
    ],
)
def test_kind_of_given_values(values: list[object], kind: str, levels: tuple[str, ...]) -> None:
    variable = Variable.from_values("v", values)
    assert (variable.kind, variable.levels) == (kind, levels)


texts = st.text(min_size=1, max_size=5)
variables = st.one_of(
    st.builds(
        lambda name, levels: Variable(name, tuple(levels), "text"),
        texts,
        st.lists(texts, min_size=1, max_size=6, unique=True),
    ),
    st.builds(
        lambda name, levels: Variable(name, tuple(map(str, levels)), "integer"),
        texts,
        st.lists(st.integers(-5, 5), min_size=1, max_size=6, unique=True),
    ),
)


@given(st.lists(variables, min_size=1, max_size=5, unique_by=lambda v: v.name))
def test_survives_json(listed: list[Variable]) -> None:
    book = Codebook(tuple(listed))
    assert Codebook.from_dict(json.loads(json.dumps(book.to_dict()))) == book


@pytest.mark.parametrize(
    ("name", "levels", "kind", "words"),
    [
        ("v", (), "text", "has no levels"),
        ("v", ("a", "a"), "text", "lists a level twice"),
        ("v", tuple(map(str, range(MAX_LEVELS + 1))), "integer", "has 256 levels, and at most 255"),
        ("v", ("a",), "integer", "must be whole numbers"),
        ("v", ("01",), "integer", "must be whole numbers"),
        ("v", (str(2**63),), "integer", "must be whole numbers"),
        ("v", ("0",), "boolean", "'false' and 'true'"),
        ("v", ("",), "text", "empty level"),
        ("v", ("a",), "ordinal", "its kind must be"),
        ("v", ["a"], "text", "must be a tuple of texts"),
        ("v", (1,), "integer", "must be a tuple of texts"),
        (1, ("a",), "text", "name of a variable must be text"),
    ],
)
def test_unusable_variables_are_refused(
    name: object, levels: object, kind: str, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        Variable(name, levels, kind)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_most_levels_are_taken() -> None:
    assert len(Variable("v", tuple(map(str, range(MAX_LEVELS))), "integer").levels) == MAX_LEVELS


@pytest.mark.parametrize(
    ("given_variables", "words"),
    [
        ((), "no variables"),
        ((AGE, AGE), "'age_band' is listed twice"),
        ([AGE], "tuple of Variable"),
        (("age",), "tuple of Variable"),
    ],
)
def test_unusable_codebooks_are_refused(given_variables: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Codebook(given_variables)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "one entry, 'variables'"),
        ({}, "one entry, 'variables'"),
        ({"variables": [], "more": 1}, "one entry, 'variables'"),
        ({"variables": "age"}, "must be a list"),
        ({"variables": []}, "no variables"),
        ({"variables": [{"name": "a", "levels": ["x"]}]}, "entry 1 .* 'name', 'kind' and 'levels'"),
        (
            {"variables": [{"name": "a", "kind": "text", "levels": "xy"}]},
            "entry 1 .* list of texts",
        ),
        ({"variables": [{"name": "a", "kind": "text", "levels": [1]}]}, "entry 1 .* list of texts"),
        ({"variables": [{"name": 1, "kind": "text", "levels": ["x"]}]}, "name of a variable"),
        ({"variables": [{"name": "a", "kind": [], "levels": ["x"]}]}, "its kind must be"),
    ],
)
def test_unusable_files_are_refused(content: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Codebook.from_dict(content)  # type: ignore[arg-type]
