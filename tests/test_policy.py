"""Disclosure policies: their numbers, and refusals of what is no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel.errors import OptionError
from fedmerdel.study import POLICIES, Policy, custom_policy, policy_named


@pytest.mark.parametrize(
    ("name", "threshold", "rounding", "smallest"),
    [
        ("none", 0, 0, 1),
        ("opensafely", 8, 5, 10),
        ("nhs", 8, 5, 10),
        ("ons", 10, 0, 10),
        ("acro", 10, 0, 10),
        ("datashield", 3, 0, 3),
        ("ohdsi", 5, 0, 5),
        ("pcornet", 11, 0, 11),
    ],
)
def test_the_named_policies(name: str, threshold: int, rounding: int, smallest: int) -> None:
    policy = policy_named(name)
    assert policy is POLICIES[name]
    assert (policy.name, policy.threshold, policy.rounding) == (name, threshold, rounding)
    assert policy.smallest == smallest
    assert policy.source


def test_no_policy_goes_without_a_test() -> None:
    assert list(POLICIES) == [
        "none", "opensafely", "nhs", "ons", "acro", "datashield", "ohdsi", "pcornet",
    ]  # fmt: skip


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_smallest_count_is_found_by_trying(threshold: int, rounding: int) -> None:
    tried = (
        count
        for count in range(1, 200)
        if count >= threshold and (rounding < 2 or count % rounding == 0)
    )
    assert custom_policy(threshold, rounding).smallest == next(tried)


def test_a_custom_policy() -> None:
    policy = custom_policy(np.int64(6), 3, "our ethics board")  # type: ignore[arg-type]
    assert policy == Policy("custom", 6, 3, "our ethics board")
    assert type(policy.threshold) is int
    assert custom_policy(6) == Policy("custom", 6, 0, "set by this study")


@pytest.mark.parametrize("name", ["OpenSAFELY", "", "custom", None, 3, ["ons"]])
def test_an_unknown_name_lists_the_known_ones(name: Any) -> None:
    with pytest.raises(OptionError) as caught:
        policy_named(name)
    message = str(caught.value)
    assert message.startswith("policy: ")
    assert "\n" not in message
    assert all(repr(known) in message for known in POLICIES)
    assert "custom_policy" in message


@pytest.mark.parametrize("number", [-1, 2.0, True, "5", None, float("nan"), 10**24])
@pytest.mark.parametrize("field", ["threshold", "rounding"])
def test_numbers_that_are_no_rule(field: str, number: Any) -> None:
    with pytest.raises(OptionError, match=f"^{field}: give a whole number from 0 to 1,000,000$"):
        custom_policy(**{"threshold": 1, field: number})


@pytest.mark.parametrize("text", ["", None, 3])
def test_a_policy_has_a_name_and_a_source(text: Any) -> None:
    with pytest.raises(OptionError, match=r"^source: "):
        custom_policy(1, 1, text)
    with pytest.raises(OptionError, match=r"^name: "):
        Policy(text, 1, 1, "source")
