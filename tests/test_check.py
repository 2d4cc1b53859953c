"""A rehearsal at a site: how small the counts would be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedmerdel.commands.screen import told_text
from fedmerdel.release.account import told_share
from fedmerdel.site.check import Check, check_site
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import policy_named
from fedmerdel.study.study import Study

CODEBOOK = Codebook((Variable("c", ("0", "1"), "integer"), Variable("d", ("0", "1"), "integer")))


def checked(table: dict[str, list], policy: str = "opensafely", **options: tuple[str]) -> Check:
    study = Study("s", CODEBOOK, policy=policy_named(policy), **options)  # type: ignore[arg-type]
    return check_site(study, pd.DataFrame(table))


def test_check_tells_how_small_the_cells_are() -> None:
    found = checked({"c": [1] * 3 + [0] * 97, "d": [None] * 50 + [0] * 50})
    assert found.problems == ()
    assert found.rare == {"c": 1}
    assert found.rare_outcomes == ()
    assert found.missing == {"d": 0.5}
    assert found.n_rows == 100


def test_check_tells_how_much_of_the_table_survives() -> None:
    """Of the rarer levels: the three of c are hidden, the twenty of d are not."""
    table = {"c": [1] * 3 + [0] * 97, "d": [1] * 20 + [0] * 80}
    assert checked(table).told == pytest.approx(20 / 23)
    assert checked(table, "none").told == 1.0
    assert checked({"c": [0] * 100, "d": [0] * 100}).told == 1.0


@pytest.mark.parametrize(
    ("positive", "negative", "rare"), [(7, 93, True), (92, 3, True), (8, 8, False), (0, 100, False)]
)
def test_check_tells_of_rare_outcomes(positive: int, negative: int, rare: bool) -> None:
    died = [1.0] * positive + [0.0] * negative + [np.nan] * (100 - positive - negative)
    table = {"c": [0] * 100, "d": [0] * 100, "died": died}
    assert checked(table, outcomes=("died",)).rare_outcomes == (("died",) if rare else ())
    assert checked(table, "none", outcomes=("died",)).rare_outcomes == ()


def test_a_site_is_told_what_to_do_where_most_is_hidden() -> None:
    study = Study("s", CODEBOOK, policy=policy_named("opensafely"))
    assert "82% of the entries" in told_text(0.82, study, "Counts of clusters tell")
    assert "sums" not in told_text(0.5, study, "Counts of clusters tell")
    assert "the promise 'sums'" in told_text(0.49, study, "Counts of clusters tell")


def test_told_rows_are_those_in_the_right_place() -> None:
    """Of 10 and 30 rows at rarer levels 30 are told, as 32, and one cluster is told too many."""
    exact = np.array([[90.0, 10, 70, 30], [40.0, 0, 0, 40]])
    released = np.array([[100.0, 0, 68, 32], [35.0, 5, 0, 40]])
    assert told_share(exact, released, np.array([0, 2, 4])) == pytest.approx(30 / 80 + 40 / 80)
    assert told_share(exact, exact, np.array([0, 2, 4])) == 1.0
