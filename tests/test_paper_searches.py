"""The paper's searches, "greedy" and "random": in which order, and when they stop."""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel.sums.prior import uniform_prior
from tests.federations import Recorder, as_sets, binary, hard_sites, many_sites

ONE, TWO, THREE = [0.9, 0.9, 0.1, 0.1] * 4, [0.1, 0.1, 0.9, 0.9] * 4, [0.5, 0.1, 0.9, 0.1] * 4
PRIOR = uniform_prior(np.full(16, 2), 0.01, 20)


@pytest.mark.parametrize("criterion", ["correlation", "kl", "bhattacharyya"])
def test_greedy_goes_cluster_by_cluster_through_the_later_sites(criterion: str) -> None:
    near = [0.85, 0.9, 0.1, 0.15] * 4
    local = hard_sites(
        [
            binary([ONE, TWO], [100, 100]),  # 0, 1
            binary([TWO, near, THREE], [100, 100, 100]),  # 2, 3, 4
            binary([THREE, ONE], [100, 100]),  # 5, 6
            binary([TWO], [100]),  # 7
        ]
    )
    recorder = Recorder()
    groups = recorder.run("greedy", local, PRIOR, criterion)
    merges = [(a.tolist(), b.tolist()) for a, b in recorder.merges]
    assert merges == [([0], [3]), ([0, 3], [6]), ([1], [2]), ([1, 2], [7]), ([4], [5])]
    assert as_sets(groups) == {frozenset(g) for g in [(0, 3, 6), (1, 2, 7), (4, 5)]}
    # Only later sites are looked at, one proposal for each, of the most alike cluster there.
    asked = [(sorted(a), sorted(b)) for a, b, _ in recorder.proposals]
    assert asked[:2] == [([0], [3]), ([0, 3], [6])]
    assert all(max(local.site[a]) < min(local.site[b]) for a, b in asked)


def test_greedy_proposes_only_the_most_alike_cluster_of_a_site() -> None:
    """By correlation 0.6, 0.6, 0.4, 0.4 is more like ONE than its noisy copy: rejected."""
    paler, noisy = [0.6, 0.6, 0.4, 0.4] * 4, [0.9, 0.88, 0.12, 0.1] * 4
    local = hard_sites([binary([ONE], [900]), binary([noisy, paler], [900, 900])])
    recorder = Recorder()
    recorder.run("greedy", local, PRIOR, "correlation")
    assert [(set(a), set(b)) for a, b, _ in recorder.proposals] == [({0}, {2})]
    assert recorder.merges == []
    recorder.run("greedy", local, PRIOR, "kl")
    assert [(a.tolist(), b.tolist()) for a, b in recorder.merges] == [([0], [1])]


@pytest.mark.parametrize("search", ["greedy", "random"])
def test_clusters_that_do_not_correlate_are_not_proposed(search: str) -> None:
    """Two rows each: a merge would gain, but the correlation is -1."""
    local = hard_sites([binary([[0.6, 0.4] * 8], [2]), binary([[0.4, 0.6] * 8], [2])])
    recorder = Recorder()
    assert len(recorder.run(search, local, PRIOR, "correlation")) == 2
    assert recorder.proposals == []
    assert len(recorder.run(search, local, PRIOR, "kl")) == 1


def rejected(recorder: Recorder) -> str:
    """One letter for each proposal: accepted or rejected."""
    return "".join("a" if gain > 0 else "r" for *_, gain in recorder.proposals)


def test_random_stops_after_ten_rejections_in_a_row() -> None:
    local = hard_sites([binary([ONE], [900]), binary([TWO], [900])])
    recorder = Recorder()
    assert len(recorder.run("random", local, PRIOR, "kl")) == 2
    assert rejected(recorder) == "r" * 10


def test_random_counts_rejections_anew_after_an_accepted_merge() -> None:
    local, kind, prior = many_sites(4)
    runs = []
    for seed in range(20):
        recorder = Recorder()
        groups = recorder.run("random", local, prior, "bhattacharyya", seed)
        story = rejected(recorder)
        assert story.endswith("a" + "r" * 10)
        assert "r" * 10 not in story[:-1]
        assert story.count("a") == len(kind) - len(groups)
        runs.append(story)
    assert len(set(runs)) > 1
    # Ten in all would have been another rule.
    assert max(story.count("r") for story in runs) > 10


def test_random_draws_from_the_three_most_alike_pairs() -> None:
    """Four pairs of sites, ever less alike: the first draw is one of three, each at times."""
    bases = np.random.default_rng(3).uniform(0.2, 0.8, (4, 30))
    shifted = [(base + step).tolist() for base, step in zip(bases, [0.0, 0.02, 0.04, 0.1],
                                                           strict=True)]  # fmt: skip
    local = hard_sites([binary(bases.tolist(), [500] * 4), binary(shifted, [500] * 4)])
    prior = uniform_prior(np.full(30, 2), 0.01, 12)
    first = set()
    for seed in range(60):
        recorder = Recorder()
        recorder.run("random", local, prior, "kl", seed)
        a, b, _ = recorder.proposals[0]
        first.add((*a, *b))
    assert first == {(0, 4), (1, 5), (2, 6)}
