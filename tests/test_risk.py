"""How well membership of a release can be guessed: predicted, by brute force, and by attack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.membership import MARGIN, attacked_site, simulated
from scipy.stats import norm

from fedmerdel import DataError, SiteSummary, fit_site, policy_named
from fedmerdel.release.exact import Exact
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.review_page import review_page
from fedmerdel.release.risk import check_risk, in_words, membership_risk, release_risks
from tests.command_line import INIT, Run, agree, done, refused, words
from tests.seeds import Record, over
from tests.site_tables import frame_of, level_numbers, study


def by_brute_force(
    n: float, tables: list[np.ndarray], noise: float, rng: np.random.Generator
) -> float:
    """Draw rows, take their distance with a full covariance, and average over pairs."""
    draws, parts = 4000, []
    for cells in tables:
        p = cells / n
        X = np.eye(len(p))[rng.choice(len(p), 2 * draws, p=p)]
        keep = np.delete(np.arange(len(p)), p.argmax())  # the others tell the largest
        covariance = (np.diag(p) - np.outer(p, p))[np.ix_(keep, keep)]
        A = np.linalg.inv(n * covariance + noise * np.eye(len(keep)))
        v = (X - p)[:, keep]
        parts.append(np.einsum("ij,jk,ik->i", v, A, v))
    d2 = np.sum(parts, axis=0)
    return float(norm.cdf(np.sqrt(d2[:draws] + d2[draws:]) / 2).mean())


@pytest.mark.parametrize("rounding", [0, 5])
def test_the_formula_is_the_mean_over_drawn_pairs(rounding: int) -> None:
    rng = np.random.default_rng(3)
    n = 200.0
    tables = [5.0 * rng.multinomial(40, rng.dirichlet(np.full(L, 2.0))) for L in (2, 3, 5) * 8]
    tables = [cells for cells in tables if cells.min() > 0]
    policy = policy_named("opensafely") if rounding else policy_named("none")
    told = membership_risk(
        np.array([n]), [cells[None] for cells in tables], mechanism_for(policy), None
    )
    np.testing.assert_allclose(
        told, by_brute_force(n, tables, rounding**2 / 12, rng), atol=0.008, rtol=0
    )


def test_certain_impossible_and_nothing_told() -> None:
    """One row alone is seen for certain; a cluster whose cells are all hidden tells nothing."""
    lone = [np.array([[1.0, 1.0]])] * 60
    assert membership_risk(np.array([2.0]), lone, Exact(), None)[0] > 0.99
    none = [np.array([[50.0, 0.0]])] * 60
    np.testing.assert_allclose(membership_risk(np.array([50.0]), none, Exact(), None), 0.5)


def test_more_variables_fewer_rows_and_weaker_policies_are_worse() -> None:
    def risk(n: float, P: int, policy: str) -> float:
        cells = [np.array([[n / 5, 4 * n / 5]])] * P
        return float(
            membership_risk(np.array([n]), cells, mechanism_for(policy_named(policy)), None)[0]
        )

    assert risk(50, 100, "none") > risk(50, 100, "opensafely") > risk(50, 30, "opensafely") > 0.5
    assert risk(50, 100, "none") > risk(500, 100, "none") > 0.5


@over(range(1), range(50, 58))
@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_attack_measures_what_is_predicted(
    policy: str, seeds: range, record_property: Record
) -> None:
    """Formulas were compared on seed 1 of other sizes. Of a site of 4 x 60 rows, 480 people."""
    found = [
        each
        for seed in seeds
        for each in attacked_site(simulated(100, 60, 20 + seed, 4, 3000), policy_named(policy))
    ]
    rows, predicted, measured = np.array(found).T
    gap = float(np.average(measured - predicted, weights=rows))
    # The chance of one site's few people is a standard error of 0.02.
    most = MARGIN + 2 * 0.02 / np.sqrt(len(seeds))
    record_property("gap", f"{gap:.3f}, at most {most:.3f} either way")
    assert abs(gap) <= most
    assert np.average(measured, weights=rows) > 0.6


def test_a_release_tells_its_risk() -> None:
    first = fit_site(
        study(policy=policy_named("opensafely")), frame_of(level_numbers(300, 1)), "york"
    )
    risks = release_risks(first)
    assert [each.risk for each in risks] == sorted((each.risk for each in risks), reverse=True)
    assert {each.cluster for each in risks} == set(np.flatnonzero(first.sums.T > 0).tolist())
    for each in risks:
        assert 0.5 <= each.risk <= 1
        least = [e.rows for e in each.rare]
        assert least == sorted(least)
        assert min(least) >= 10
    assert SiteSummary.from_bytes(first.to_bytes()).n_rows == first.n_rows
    assert len(in_words(risks, 1.0)) == 1
    assert "Warning" in in_words(risks, 0.5)[1]
    assert in_words(risks)[0] in review_page(first)
    check_risk(first, risks[0].risk)
    with pytest.raises(DataError, match="most_risk"):
        check_risk(first, risks[0].risk - 1e-9)


def test_a_sites_limit_refuses_before_anything_is_written(run: Run) -> None:
    done(run(*INIT))
    file = agree(run)
    text = file.read_text()
    assert "# most_risk = 0.7\n" in text
    file.write_text(text.replace("# most_risk = 0.7\n", "most_risk = 0.5\n"))
    refused(run("fit", str(file), "-o", "x"), "membership of cluster", "most_risk")
    assert not Path("x").exists()
    assert not Path(file.parent, "ledger.jsonl").exists()
    file.write_text(text.replace("# most_risk = 0.7\n", "most_risk = 0.9\n"))
    done(run("fit", str(file), "-o", "x"))
    said = words(run("review", "x", "--site-file", str(file)))
    assert "Of 100 pairs of patients" in said
    assert "Warning" not in said
    assert "left before" not in said
    file.write_text(text.replace("# most_risk = 0.7\n", "most_risk = 0.5\n"))
    assert "Warning: above 50 of 100" in words(run("review", "x", "--site-file", str(file)))
    for wrong in ("0.4", "true", '"much"', "nan"):
        file.write_text(text.replace("# most_risk = 0.7\n", f"most_risk = {wrong}\n"))
        refused(run("fit", str(file), "-o", "y"), "most_risk: give a number")
