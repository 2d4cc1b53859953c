"""The proposals of the paper's recipe: which clusters, and step by step."""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel.fitting.paper import delete_candidate, merge_candidate
from fedmerdel.fitting.passes import Workers, count_labels
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.sums.expectations import Expectations, expectations
from tests import reference
from tests.recipes import fit_of, small_simulation
from tests.reference import PlainSums, packed, statistics_from


def test_candidates_are_the_papers() -> None:
    """Appendix C: a pair among the three most alike; a cluster under 5 %, or of three smallest."""
    table, prior = small_simulation(7)
    problem = Problem(packed(table), prior, Workers(1))
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(6), [150, 120, 60, 35, 19, 16]))
    stats = count_labels(problem.rows, labels, 6, problem.workers)
    solution = em_step(problem, stats, problem.prior)._replace(stats=stats)
    assert {delete_candidate(solution, rng) for _ in range(60)} == {4, 5}
    even = solution._replace(stats=stats._replace(T=np.array([90.0, 70, 80, 60, 100, 100])))
    assert {delete_candidate(even, rng) for _ in range(60)} == {1, 2, 3}
    pairs = {merge_candidate(solution, "kl", rng) for _ in range(60)}
    assert len(pairs) == 3
    anything = {merge_candidate(solution, "random", rng) for _ in range(400)}
    assert len(anything) == 15


@pytest.mark.parametrize("seed", range(6))
def test_proposals_are_made_as_the_paper_says(seed: int) -> None:
    """Appendix C step by step, on dense arrays, from the same start and for the same clusters."""
    table, prior = small_simulation(seed)
    labels = np.random.default_rng(seed).integers(0, 10, 400)
    # With no laps and two passes allowed: a pass, one merge proposal, one delete proposal.
    fit = fit_of(table, prior, "paper", seed, init=labels, laps=0, max_iter=2)
    merge, delete = fit.history.moves[:2]
    assert (merge.kind, delete.kind) == ("merge", "delete")

    def em(sums: PlainSums, weights: np.ndarray = table.weights) -> tuple[np.ndarray, PlainSums]:
        log_r = reference.e_step(table, expectations(statistics_from(sums), prior))
        return log_r, reference.m_step(table._replace(weights=weights), log_r)

    # The first E step knows nothing of the weights, as in VICatMix.
    start = statistics_from(reference.m_step(table, reference.hard(labels, 10)))
    even = Expectations(np.zeros(10), expectations(start, prior).log_levels)
    log_r = reference.e_step(table, even)
    now = reference.m_step(table, log_r)
    assert merge.elbo_before == pytest.approx(reference.seven_term_elbo(now, prior))
    a, b = merge.clusters
    together = np.delete(log_r, b, axis=1)
    together[:, a] = np.logaddexp(log_r[:, a], log_r[:, b])
    merged_log_r, merged = em(reference.m_step(table, together))
    assert merge.elbo_after == pytest.approx(reference.seven_term_elbo(merged, prior))
    if merge.accepted:
        log_r, now = merged_log_r, merged
    (k,) = delete.clusters
    not_its_own = np.where(log_r.argmax(axis=1) == k, 0.0, table.weights)
    without = PlainSums(np.delete(now.T, k), [np.delete(S, k, axis=0) for S in now.S], now.h[:-1])
    _, kept = em(without, not_its_own)
    _, deleted = em(kept)
    assert delete.elbo_before == pytest.approx(reference.seven_term_elbo(now, prior))
    assert delete.elbo_after == pytest.approx(reference.seven_term_elbo(deleted, prior))
