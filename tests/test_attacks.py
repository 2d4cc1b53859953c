"""Attacks on a site by a centre that lies or reads on: each was once seen to work.

Lying sites are in test_lies, forged parcels in the tests of signatures, kills in test_kills.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedmerdel import Broadcast, DataError, fit_site, merge_sites, policy_named, reply_site
from fedmerdel.sums.expectations import Expectations
from tests.site_tables import CODEBOOK, frame_of, level_numbers, study

POLICIES = ("opensafely", "ons", "datashield")


def clusters_of(number: int, seed: int) -> Expectations:
    """Clusters as a centre might make them up, some of which few rows are in."""
    rng = np.random.default_rng(seed)
    levels = [
        np.log(rng.dirichlet(np.full(end - start, 0.5), number))
        for start, end in pairwise(CODEBOOK.level_offsets)
    ]
    return Expectations(np.log(rng.dirichlet(np.full(number, 0.5))), np.hstack(levels))


def asked(broadcast: Broadcast, clusters: Expectations, number: int) -> Broadcast:
    K = clusters.n_clusters
    cuts = broadcast.cuts._replace(offset=np.zeros(K), direction=np.zeros_like(clusters.log_levels))
    return replace(broadcast, clusters=clusters, cuts=cuts, uncut=np.ones(K, bool), number=number)


@pytest.mark.parametrize("name", POLICIES)
def test_a_fit_and_replies_do_not_tell_a_withheld_group(name: str) -> None:
    """Attack: rows told by the fit less rows told by a reply were the withheld ones, exactly."""
    agreed = study(policy=policy_named(name), outcomes=("died",))
    silent = 0
    for seed in range(6):
        table = frame_of(level_numbers(250 + 7 * seed, seed), seed)
        first = fit_site(agreed, table, "york")
        sent = merge_sites(agreed, [first]).broadcast
        releases = [first]
        for number in range(1, 5):
            broadcast = asked(sent, clusters_of(2 + number, 10 * seed + number), number)
            releases.append(reply_site(agreed, broadcast, table, "york"))
        totals = [each.sums.total() for each in releases]
        for total in totals[1:]:
            np.testing.assert_array_equal(total.T, totals[0].T)
            np.testing.assert_array_equal(total.S, totals[0].S)
            np.testing.assert_array_equal(total.outcomes["died"], totals[0].outcomes["died"])
        silent += sum(int((each.sums.T == 0).sum()) for each in releases)
    assert silent > 5  # there were small groups, and something was hidden


def test_a_broadcast_cannot_set_policy_columns_or_outcomes() -> None:
    """Attack: a study inside the broadcast, with policy none and another outcome."""
    agreed = study(policy=policy_named("opensafely"))
    table = frame_of(level_numbers(300, 1))
    federation = merge_sites(agreed, [fit_site(agreed, table, "york")])
    weak = replace(agreed, policy=policy_named("none"), outcomes=("died",))
    theirs = replace(federation.broadcast, study_hash=weak.hash)
    with pytest.raises(DataError, match="another study"):
        reply_site(agreed, theirs, table, "york")
    told = reply_site(agreed, federation.broadcast, table, "york")
    assert not told.sums.outcomes
    assert told.moves is None
    assert "study.toml" not in federation.broadcast.to_files()


def test_one_patient_more_is_seen_only_by_the_step_of_rounding() -> None:
    """Attack: the sum of T moved by one with each patient where a policy rounds."""
    agreed = study(policy=policy_named("opensafely"))
    X = level_numbers(303, 2)
    told = [fit_site(agreed, frame_of(X[:n]), "york").n_rows for n in range(298, 303)]
    assert told == [300.0] * 5


def test_a_reply_whose_totals_differ_is_refused_at_the_centre() -> None:
    """A lie: more rows in a round than the site had at first."""
    agreed = study(policy=policy_named("ons"))
    tables = {site: frame_of(level_numbers(400, seed)) for seed, site in enumerate("ab")}
    federation = merge_sites(agreed, [fit_site(agreed, t, site) for site, t in tables.items()])
    honest = [reply_site(agreed, federation.broadcast, t, site) for site, t in tables.items()]
    assert federation.step(honest)[0].sites == ("a", "b")
    more = frame_of(np.concatenate([level_numbers(400, 0), level_numbers(50, 9)]))
    lie = reply_site(agreed, federation.broadcast, more, "a")
    with pytest.raises(DataError, match="don't sum to those that it sent before"):
        federation.step([lie, honest[1]])
    # One whose rows have changed is taken out, and joins anew.
    without = federation.remove("a")
    anew = [
        reply_site(agreed, without.broadcast, t, s) for s, t in (("a", more), ("b", tables["b"]))
    ]
    assert without.step(anew)[0].sites == ("a", "b")
