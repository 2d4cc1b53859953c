"""What a learned prior is worth: claims over fixed seeds, with margins, as in test_recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, f1_score

from fedmerdel import FedMerDel, MerDel, bayes_labels, simulate
from fedmerdel.records.simulate import SimulatedTable
from tests.seeds import Record, over


def ari(table: SimulatedTable, labels: Any) -> float:
    return float(adjusted_rand_score(table.labels, labels))


@pytest.mark.filterwarnings("ignore::fedmerdel.ConstantColumnWarning")
@over(range(4), range(100, 130))
def test_a_learned_prior_tells_noise_and_finds_more(seeds: range, record_property: Record) -> None:
    """Simulation 1.4 of the paper: few rows for each cluster, a quarter of noise."""
    found: dict[str, list[float]] = {"fixed": [], "learned": []}
    f1, stronger = [], []
    for seed in seeds:
        table = simulate(1000, n_clusters=10, size_range=(50, 200), noisy=0.25, random_state=seed)
        for prior, aris in found.items():
            model = MerDel(prior=prior, random_state=seed).fit(table.X)
            aris.append(ari(table, model.labels_))
            if model.strengths_ is not None:
                f1.append(f1_score(table.relevant, model.selected_))
                noise = ~table.relevant
                strengths = (np.median(model.strengths_[part]) for part in (noise, ~noise))
                stronger.append(next(strengths) > 2 * next(strengths))
    gain = np.mean(found["learned"]) - np.mean(found["fixed"])
    record_property("ARI, learned less fixed prior", f"{gain:.3f}, at least 0.04")
    record_property("F1 of variables that tell", f"{np.mean(f1):.3f}, at least 0.96")
    share = float(np.mean(stronger))
    record_property("tables where noise is held twice as strongly", f"{share:.3f}, at least 0.9")
    assert share >= 0.9
    assert gain >= 0.04
    assert len(f1) == len(seeds)
    assert np.mean(f1) >= 0.96


@over(range(1), range(100, 110))
def test_sites_of_few_rows_need_a_learned_prior(seeds: range, record_property: Record) -> None:
    """Ten sites of 400 rows, 33 for each cluster: a fixed prior can't tell them, nor merge them."""
    gaps, fixed_gaps = [], []
    for seed in seeds:
        table = simulate(4000, 100, 12, random_state=seed)
        site, best = np.arange(4000) % 10, ari(table, bayes_labels(table))
        model = FedMerDel(n_init=2, random_state=seed).fit(table.X, groups=site)
        assert 11 <= model.n_clusters_ <= 13  # measured: 12 each time
        assert model.model_.prior.strength is not None
        gaps.append(best - ari(table, model.labels_))
        fixed = FedMerDel(prior="fixed", n_init=1, random_state=seed).fit(table.X, groups=site)
        fixed_gaps.append(best - ari(table, fixed.labels_))
    learned, fixed_gap = float(np.mean(gaps)), float(np.mean(fixed_gaps))
    record_property("ARI below the best possible, learned", f"{learned:.3f}, at most 0.05")
    record_property("the same with a fixed prior", f"{fixed_gap:.3f}, 0.1 more at least")
    assert learned <= 0.05
    assert fixed_gap >= learned + 0.1


@over(range(2), range(100, 120))
def test_with_many_rows_both_priors_find_the_same(seeds: range) -> None:
    """A learned prior contains the fixed one: where rows say all, it takes nothing away."""
    for seed in seeds:
        table = simulate(3000, 30, 4, levels=(2, 3, 4) * 10, beta=(1, 1), random_state=seed)
        fixed, learned = (
            MerDel(prior=prior, random_state=seed).fit(table.X) for prior in ("fixed", "learned")
        )
        assert fixed.n_clusters_ == learned.n_clusters_ == 4
        assert adjusted_rand_score(fixed.labels_, learned.labels_) > 0.99
        assert ari(table, learned.labels_) > ari(table, bayes_labels(table)) - 0.015
        assert learned.lower_bound_ > fixed.lower_bound_
