"""Rates of outcomes whose counts went through disclosure control: never too sure of themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from fedmerdel.centre.federation import merge_sites
from fedmerdel.model.rates import Rate, Rates
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.sums import OutcomeCounts, Sums
from tests.federations import made_study, summary_of

RULES = [policy for name, policy in POLICIES.items() if name != "none"]
RULES += [custom_policy(6, 5), custom_policy(1, 5), custom_policy(0, 10), custom_policy(1)]


def rate_of(policy: Policy, cells: list[tuple[int, int, int]]) -> Rate:
    """Rate in one cluster; for each site the rows without the outcome, with it, and unknown."""
    study = made_study(np.array([2]), policy=policy, outcomes=("death",))
    summaries = []
    for at, (negative, positive, unknown) in enumerate(cells):
        T = np.array([float(negative + positive + unknown)])
        stats = Sums(T, np.column_stack([T, np.zeros(1)]), np.zeros(1))
        counts = OutcomeCounts(np.array([float(positive)]), T - unknown)
        summaries.append(summary_of(study, f"site {at}", stats, {"death": counts}))
    federation = merge_sites(study, summaries)
    (cluster,) = federation.model.describe()
    rate = cluster.outcomes["death"]
    # One cluster has all rows; and what is kept with the model is what it was.
    assert repr(federation.outcomes) == repr({"death": Rates((rate,), rate)})
    assert repr(Rates.from_dict(federation.outcomes["death"].to_dict()).overall) == repr(rate)
    return rate


def interval(positive: float, negative: float) -> tuple[float, float]:
    ends = beta.interval(0.95, positive + 0.5, negative + 0.5)
    return float(ends[0]), float(ends[1])


def test_a_hidden_count_may_be_all_but_one_of_the_smallest() -> None:
    """Nine deaths of 300 are told as none, at two sites; 10 is the least of policy 'ons'."""
    rate = rate_of(POLICIES["ons"], [(291, 9, 0), (291, 9, 0)])
    assert rate.share == 0.0
    assert rate.low == pytest.approx(interval(0, 601)[0])
    # Of 600 without death, 9 may have died and 9 may be unknown at each site, and T is rounded.
    assert rate.high == pytest.approx(interval(18, 600 - 36 - 1)[1])
    assert rate.high > 18 / 600 > interval(0, 600)[1]


def test_hidden_survivors_lower_the_other_end() -> None:
    rate = rate_of(POLICIES["ons"], [(9, 291, 0)])
    assert rate.share == 1.0
    assert rate.low < 291 / 300 < interval(300, 0)[0]


def test_rounding_widens_both_ends_by_half_a_step() -> None:
    """Of policy 'opensafely': multiples of 5, and none of the three cells is hidden or near."""
    rate = rate_of(POLICIES["opensafely"], [(400, 100, 50)])
    assert rate.share == pytest.approx(0.2)
    assert rate.low == pytest.approx(interval(97.5, 407.5)[0])
    assert rate.high == pytest.approx(interval(102.5, 392.5)[1])


def test_without_a_policy_nothing_is_widened() -> None:
    rate = rate_of(POLICIES["none"], [(100, 0, 3)])
    assert (rate.low, rate.high) == pytest.approx(interval(0, 100))


@settings(deadline=None, max_examples=200)
@given(
    policy=st.sampled_from(RULES),
    cells=st.lists(st.tuples(*[st.integers(0, 60)] * 3), min_size=1, max_size=4),
)
def test_the_interval_holds_that_of_the_rows_themselves(
    policy: Policy, cells: list[tuple[int, int, int]]
) -> None:
    """Whatever the site's counts are, and whatever the policy made of them."""
    enough = [site for site in cells if sum(site) >= policy.smallest]
    if not enough:
        return
    rate = rate_of(policy, enough)
    negative, positive, _ = np.sum(enough, axis=0)
    low, high = interval(positive, negative)
    assert rate.low <= low + 1e-12
    assert rate.high >= high - 1e-12
