"""Release mechanisms: what both promise, at the site, at the centre, to a checker and in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedmerdel
from fedmerdel import fit_site, merge_sites, reply_site
from fedmerdel.release.cells import all_cells, with_missing
from fedmerdel.release.exact import Exact
from fedmerdel.release.mechanism import Mechanism, MoveSums
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.released import Released
from fedmerdel.release.thresholds import Thresholds
from fedmerdel.site import fit_site as fit_site_module
from fedmerdel.site import reply_site as reply_site_module
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.drawn_sites import ACTIVE, Site, sites
from tests.federations import everyone
from tests.site_tables import frame_of, level_numbers, study

SOURCE = Path(fedmerdel.__file__).parent
NONE = POLICIES["none"]
EVERY = [NONE, custom_policy(0, 1), *ACTIVE]

many = settings(max_examples=25, deadline=None)
policies = pytest.mark.parametrize(
    "policy", EVERY, ids=lambda p: f"{p.name}-{p.threshold}-{p.rounding}"
)
active = pytest.mark.parametrize(
    "policy", ACTIVE, ids=lambda p: f"{p.name}-{p.threshold}-{p.rounding}"
)


def never(*_: Any) -> NoReturn:
    raise AssertionError("this is not to be asked for")


def moves_of(sums: Sums) -> MoveSums:
    """Halves of all clusters: a third of each, and what a deletion would cost."""
    halves = FirstHalves(sums.T / 3, sums.S / 3, np.ones_like(sums.T))
    return MoveSums(halves, -sums.T)


def theta_of(site: Site, seed: int) -> Expectations:
    """Anything that might be known of the clusters."""
    rng, K = np.random.default_rng(seed), site.soft.n_clusters
    levels = [rng.dirichlet(np.ones(b - a), K) + 1e-4 for a, b in pairwise(site.prior.offsets)]
    return Expectations(rng.normal(0, 2, K), np.log(np.hstack(levels)))


def in_cells(sums: Sums, offsets: np.ndarray) -> list[np.ndarray]:
    """The cells (K, C) of each variable, missing entries last, and of each outcome."""
    parts = [with_missing(sums.T, sums.S[:, a:b]) for a, b in pairwise(offsets)]
    return [*parts, *(with_missing(sums.T, cells) for cells in sums.outcomes.values())]


# Which one


@pytest.mark.parametrize("rule", [(0, 0), (0, 1)])
def test_no_rule_is_exact(rule: tuple[int, int]) -> None:
    assert isinstance(mechanism_for(custom_policy(*rule)), Exact)


@pytest.mark.parametrize("rule", [(1, 0), (1, 1), (0, 2), (8, 5), (10, 0)])
def test_a_rule_is_kept_by_thresholds(rule: tuple[int, int]) -> None:
    found = mechanism_for(custom_policy(*rule))
    assert isinstance(found, Thresholds)
    assert (found.policy.threshold, found.policy.rounding) == rule


def test_named_policies_but_none_are_kept_by_thresholds() -> None:
    kept = {name: type(mechanism_for(policy)) for name, policy in POLICIES.items()}
    assert kept == {name: Exact if name == "none" else Thresholds for name in POLICIES}


def test_both_have_every_side() -> None:
    asked = Mechanism.__abstractmethods__
    assert {
        "too_small",
        "protect",
        "expected",
        "possible",
        "variance",
        "broken",
        "rule",
        "done",
    } < asked
    for kind in (Exact, Thresholds):
        assert not kind.__abstractmethods__
        # They say themselves what they do: nothing is inherited but what a 0 stands for.
        assert asked <= set(vars(kind))


# At the site


@policies
@many
@given(data=st.data())
def test_what_is_protected_is_not_broken(policy: Policy, data: st.DataObject) -> None:
    site, mechanism = data.draw(sites(policy)), mechanism_for(policy)
    sums, offsets = site.soft, site.prior.offsets
    assert not mechanism.too_small(sums.T, site.people).any()
    out, rest = mechanism.protect(sums, site.people, offsets)
    assert (rest is None) == isinstance(mechanism, Exact)
    moves = mechanism.protect_moves(lambda: moves_of(sums))
    # Also of all clusters together, and where outcomes are not asked for.
    for part in (out, out.total(), out._replace(outcomes={})):
        assert mechanism.broken(all_cells(part, offsets), moves) is None
    assert out.Q.shape == sums.Q.shape
    assert list(out.outcomes) == list(sums.outcomes)


@many
@given(data=st.data())
def test_exact_numbers_leave_as_they_are_and_nobody_is_counted(data: st.DataObject) -> None:
    site, mechanism = data.draw(sites(NONE)), mechanism_for(NONE)
    assert not mechanism.too_small(site.soft.T, never).any()
    assert mechanism.protect(site.soft, never, site.prior.offsets) == (site.soft, None)
    moves = moves_of(site.soft)
    assert mechanism.protect_moves(lambda: moves) is moves


@pytest.mark.parametrize("policy", [NONE, POLICIES["opensafely"]], ids=lambda p: p.name)
def test_sites_count_people_only_where_a_rule_asks_for_it(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def noted(count: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: counted.append(1) or count(*given)

    for module in (fit_site_module, reply_site_module):
        monkeypatch.setattr(module, "count_people", noted(module.count_people))
    agreed, table = study(policy=policy), frame_of(level_numbers(300, 1))
    federation = merge_sites(agreed, [fit_site(agreed, table, "leeds")])
    after_fit = len(counted)
    reply_site(agreed, federation.broadcast, table, "leeds")
    after_reply = len(counted) - after_fit
    assert (after_fit > 0, after_reply) == ((False, 0) if policy is NONE else (True, 1))


@active
def test_thresholds_never_count_what_they_do_not_tell(policy: Policy) -> None:
    assert mechanism_for(policy).protect_moves(never) is None


@pytest.mark.parametrize("policy", [NONE, POLICIES["opensafely"]], ids=lambda p: p.name)
def test_a_reply_tells_of_moves_only_without_a_rule(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed, table = study(policy=policy), frame_of(level_numbers(300, 1))
    federation = merge_sites(agreed, [fit_site(agreed, table, "leeds")])
    if policy is not NONE:
        monkeypatch.setattr(reply_site_module, "_moves", never)
    reply = reply_site(agreed, federation.broadcast, table, "leeds")
    assert (reply.moves is None) == (policy is not NONE)


# At the centre


@many
@given(data=st.data(), seed=seeds)
def test_exact_sums_stand_for_themselves(data: st.DataObject, seed: int) -> None:
    site, mechanism = data.draw(sites(NONE)), mechanism_for(NONE)
    released = Released(site.soft, None)
    found = mechanism.expected(released, theta_of(site, seed), site.prior.offsets)
    assert found is site.soft


@policies
@many
@given(data=st.data(), seed=seeds)
def test_what_is_expected_keeps_totals(policy: Policy, data: st.DataObject, seed: int) -> None:
    site, mechanism = data.draw(sites(policy)), mechanism_for(policy)
    offsets = site.prior.offsets
    released = mechanism.protect(site.soft, site.people, offsets)
    told, found = released.sums, mechanism.expected(released, theta_of(site, seed), offsets)
    np.testing.assert_array_equal(found.h, told.h)
    np.testing.assert_array_equal(found.Q, told.Q)
    assert found.outcomes is told.outcomes
    assert found.T.sum() == pytest.approx(told.T.sum())
    assert found.T.min() >= 0
    assert found.S.min() >= 0
    for a, b in pairwise(offsets):
        assert np.all(found.S[:, a:b].sum(axis=1) <= found.T + 1e-6)
        # What is given to a level is taken from another: rows with an entry stay as many.
        before, after = (each.S[:, a:b].sum() for each in (told, found))
        assert after == pytest.approx(before) or np.any(told.T == 0)


@policies
@many
@given(data=st.data())
def test_the_true_counts_are_among_those_that_are_possible(
    policy: Policy, data: st.DataObject
) -> None:
    """Of rows that are wholly in a cluster, for variables of few levels and for outcomes."""
    site, mechanism = data.draw(sites(policy)), mechanism_for(policy)
    K, offsets = site.hard.n_clusters, site.prior.offsets
    true = site.hard._replace(Q=np.zeros((K, K)))
    told, rest = mechanism.protect(true, everyone(true), offsets)
    here = np.flatnonzero(told.T > 0)  # the others are in the rest
    for behind, cells in zip(in_cells(true, offsets), in_cells(told, offsets), strict=True):
        least, most = mechanism.possible(cells, rest)
        assert np.all(least >= 0)
        assert np.all(least <= cells)
        assert np.all(cells <= most)
        if len(here) == K:
            assert np.all(least <= behind + 1e-9)
            assert np.all(behind <= most + 1e-9)
        if isinstance(mechanism, Exact):
            np.testing.assert_array_equal(least, most)


@policies
def test_what_is_rounded_or_hidden_is_spread_evenly(policy: Policy) -> None:
    mechanism = mechanism_for(policy)
    cells = np.array([[400.0, 0.0], [60.0, 30.0], [0.0, 50.0]])
    found = mechanism.variance(cells, 0)
    if isinstance(mechanism, Exact):
        assert not found.any()
        return
    even = {True: policy.smallest**2 / 12, False: policy.step**2 / 12}
    np.testing.assert_allclose(found[1:], np.vectorize(even.get)(cells[1:] == 0))
    # The rest has what the others lose and gain.
    np.testing.assert_allclose(
        found[0], [even[False] * 2 + even[True], even[True] + 2 * even[False]]
    )


@policies
def test_three_cells_of_any_small_sizes_are_possible(policy: Policy) -> None:
    """With an outcome, without it, not known: of up to 24 rows each, alone and beside others."""
    mechanism = mechanism_for(policy)
    every = np.array(list(product(range(0, 25, 2), repeat=3)), dtype=float)
    every = every[every.sum(axis=1) >= max(policy.smallest, 1)]
    large = np.array([400.0, 60.0, 30.0])
    for part in every:
        for true in (part[None], np.stack([part, large]), np.stack([large, part, part[::-1]])):
            K, T = len(true), true.sum(axis=1)
            sums = Sums(T, true, np.zeros(K), np.zeros((K, K)))
            told, rest = mechanism.protect(sums, everyone(sums), np.array([0, 3]))
            if np.all(told.T > 0):
                least, most = mechanism.possible(told.S, rest)
                assert np.all(least <= true)
                assert np.all(true <= most)


@policies
@given(of_sums=st.floats(-1e9, 0))
def test_only_exact_sums_tell_the_elbo_of_the_rows(policy: Policy, of_sums: float) -> None:
    mechanism = mechanism_for(policy)
    assert mechanism.elbo(of_sums) == (of_sums if isinstance(mechanism, Exact) else None)


@policies
def test_a_round_is_worse_only_if_that_is_sure(policy: Policy) -> None:
    mechanism = mechanism_for(policy)
    for gain in (np.inf, 1.0, 0.0, -1e-8, -1e-14):  # less than rounding of a million nats
        assert not mechanism.is_worse(gain, -1e6)
    for gain in (-1e-5, -1.0, -1e6, -np.inf):
        assert mechanism.is_worse(gain, -1e6) == isinstance(mechanism, Exact)


# For everyone


@active
@many
@given(data=st.data())
def test_a_broken_promise_is_found(policy: Policy, data: st.DataObject) -> None:
    site, mechanism = data.draw(sites(policy)), mechanism_for(policy)
    out = mechanism.protect(site.soft, site.people, site.prior.offsets).sums
    cells = all_cells(out, site.prior.offsets)
    words = mechanism.broken(cells, moves_of(site.soft)) or ""
    assert f"halves, which policy {policy.name!r} does not protect" in words
    at = data.draw(st.integers(0, len(cells) - 1))
    wrong = [*range(1, policy.smallest), 0.5, policy.smallest + 0.5, 1e6 + 0.25]
    if policy.rounding > 1:
        wrong.append(policy.smallest + 1)
    for count in wrong:
        changed = cells.copy()
        changed[at] = count
        assert mechanism.broken(changed, None)
        assert mechanism_for(NONE).broken(changed, moves_of(site.soft)) is None


@pytest.mark.parametrize(
    ("policy", "smallest", "rule", "zero"),
    [
        (NONE, 0, "no rule, counts as they are", "no rows"),
        (custom_policy(0, 1), 0, "no rule, counts as they are", "no rows"),
        (POLICIES["opensafely"], 10, "no count from 1 to 9, rounded to 5", "0 to 9 rows"),
        (POLICIES["ons"], 10, "no count from 1 to 9, whole numbers", "0 to 9 rows"),
        (POLICIES["datashield"], 3, "no count from 1 to 2, whole numbers", "0 to 2 rows"),
        (custom_policy(0, 5), 5, "no count from 1 to 4, rounded to 5", "0 to 4 rows"),
        (custom_policy(1), 1, "whole numbers", "no rows"),
    ],
)
def test_words(policy: Policy, smallest: int, rule: str, zero: str) -> None:
    mechanism = mechanism_for(policy)
    assert (mechanism.smallest, mechanism.rule, mechanism.zero) == (smallest, rule, zero)


@policies
def test_a_checker_reads_what_was_done(policy: Policy) -> None:
    done = mechanism_for(policy).done
    assert done.endswith(".")
    assert "\n" not in done
    if isinstance(mechanism_for(policy), Exact):
        assert done.startswith("None: the study sets no rule")
        assert "simulated and public tables only" in done
    else:
        assert f"Every count is 0 or at least {policy.smallest}," in done
        assert f"Counts below {max(policy.threshold, 1)} were set to 0" in done
        step = f"multiples of {policy.rounding}" if policy.rounding > 1 else "whole numbers"
        assert f"Counts are {step}." in done


# Nobody else asks which one it is

KINDS = ("Exact", "Thresholds")


@cache
def sources() -> dict[str, str]:
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html")]
    return {file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8") for file in files}


def names(source: str) -> Iterator[str]:
    """Every name that code uses or imports; what is said in comments does not count."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_only_one_place_names_a_mechanism() -> None:
    """So none can ask which one it is: isinstance, type and the like need the name."""
    found = {
        path
        for path, source in sources().items()
        if path.endswith(".py") and not {*KINDS, "releases_exactly"}.isdisjoint(names(source))
    }
    assert found == {"release/mechanisms.py"}


@pytest.mark.parametrize(
    "words",
    [
        r"releases_exactly",
        r"isinstance\([^()]*\b(Exact|Thresholds)\b",
        r"threshold\s*(==|<=|!=|>|<)\s*[01]\b",
        r"rounding\s*(==|<=|!=)\s*[01]\b",
        r"not [\w.]*\.threshold",
        r"if [\w.]*\.threshold\b(?!\s*[<>=!])",
        r"(policy|account)\.name\s*(==|!=|in)\s*[(\"']",
    ],
)
def test_no_policy_is_asked_whether_it_is_one(words: str) -> None:
    found = {path for path, source in sources().items() if re.search(words, source)}
    assert found <= {"release/mechanisms.py"}
