"""What a guide does for the clusters, over seeds; and why its rates are no validation.

The gap between two clusters was chosen on tables of seeds under 10.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2_contingency
from sklearn.metrics import adjusted_rand_score

from fedmerdel import FedMerDel, MerDel
from tests.guides import GUIDE, alike_but_for_the_outcome
from tests.seeds import Record, over

WEIGHTS = (None, 0.25, 0.5, 1.0)


def recovered(
    seed: int, weight: float | None, *, noise: bool = False, sites: int = 1
) -> tuple[float, float]:
    """Return the ARI of a fit's own labels, and of labels found without the outcome."""
    frame, truth = alike_but_for_the_outcome(seed, noise=noise)
    seen = frame.drop(columns=GUIDE)
    guide = None if weight is None else {GUIDE: weight}
    table = seen if weight is None else frame
    model: MerDel | FedMerDel = MerDel(random_state=seed, n_init=1, guide=guide)
    if sites > 1:
        model = FedMerDel(random_state=seed, rounds=3, guide=guide)
        model.fit(table, groups=np.arange(len(table)) % sites)
    else:
        model.fit(table)
    return (
        adjusted_rand_score(truth, model.labels_),
        adjusted_rand_score(truth, model.predict(seen)),
    )


@over(range(100, 103), range(1000, 1100))
def test_clusters_that_differ_in_the_outcome_are_found(
    seeds: range, record_property: Record
) -> None:
    found = {
        weight: np.mean([recovered(seed, weight) for seed in seeds], axis=0) for weight in WEIGHTS
    }
    for weight, (own, new) in found.items():
        record_property(f"ARI with weight {weight or 'none'}", f"{own:.3f}, rising")
        record_property(f"the same, rows given to clusters without it, {weight}", f"{new:.3f}")
    own = [found[weight][0] for weight in WEIGHTS]
    assert own == sorted(own)
    assert own[-1] > own[0] + 0.15
    assert found[1.0][1] > found[None][1] + 0.01


@over(range(100, 101), range(1000, 1050))
def test_across_sites_too(seeds: range, record_property: Record) -> None:
    without, with_it = (
        np.mean([recovered(seed, weight, sites=3)[0] for seed in seeds]) for weight in (None, 1.0)
    )
    record_property("ARI of three sites, weight 1 less none", f"{with_it - without:.3f}, above 0.1")
    assert with_it > without + 0.1


@over(range(100, 103), range(1000, 1100))
def test_noise_that_guides_costs_little(seeds: range, record_property: Record) -> None:
    lost = [recovered(seed, None)[0] - recovered(seed, 1.0, noise=True)[0] for seed in seeds]
    record_property("ARI lost to a guide that is noise", f"{np.mean(lost):.4f}, at most 0.02")
    assert np.mean(lost) <= 0.02


@over(range(100, 106), range(1000, 1200))
def test_rates_of_noise_that_guides_differ_too_often(seeds: range, record_property: Record) -> None:
    """Five in a hundred would be chance: what a fit has used can't be tested with it."""
    below: dict[float | None, list[bool]] = {None: [], 1.0: []}
    for seed in seeds:
        frame, _ = alike_but_for_the_outcome(seed, noise=True, n_rows=600, gap=0.18)
        for weight, found in below.items():
            guide = None if weight is None else {GUIDE: weight}
            model = MerDel(random_state=seed, n_init=1, guide=guide)
            model.fit(frame.drop(columns=GUIDE) if weight is None else frame)
            table = np.zeros((model.n_clusters_, 2))
            np.add.at(table, (model.labels_, frame[GUIDE].to_numpy()), 1.0)
            table = table[table.sum(axis=1) > 0]
            if len(table) > 1:
                found.append(chi2_contingency(table, correction=False)[1] < 0.05)
    chance, guided = (float(np.mean(found)) for found in below.values())
    record_property("tables where noise differs with p < 0.05", f"{chance:.3f}, at most 0.1")
    record_property("the same where it guides", f"{guided:.3f}, above 0.08")
    if len(seeds) >= 100:
        assert chance <= 0.1
        assert guided > 0.08
    assert guided >= chance
