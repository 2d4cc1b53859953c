"""A model checked against counts of the rows that it was made from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.inference.check_counts import (
    CheckCounts,
    cell_offsets,
    condition_places,
    pair_blocks,
)
from fedmerdel.inference.conditions import conditions_test, expected_conditions
from fedmerdel.inference.residuals import Residual, expected_pairs, pair_residuals
from fedmerdel.inference.separation import mean_posterior, relative_entropy
from fedmerdel.model.certainty import N_DRAWN
from fedmerdel.model.checks import N_PAIRS, Checks, PairResidual
from fedmerdel.model.made_up import MadeUp, made_up, observed_shares
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.conditions import condition_levels
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Checked(NamedTuple):
    """What the rows say, over all sites, for `make_checks`.

    Attributes
    ----------
    counts : CheckCounts
        Sums over sites; own rows and belonging are of the model's clusters.
    pairs_noise, conditions_noise : float64 arrays
        Variance of what disclosure control has done to these.
    weighted : bool
        Whether rows have weights, so that chances are not known.
    """

    counts: CheckCounts
    pairs_noise: FloatArray
    conditions_noise: FloatArray
    weighted: bool


def cell_shares(stats: Sums, prior: Prior, checked: tuple[int, ...]) -> FloatArray:
    """Return the share of each cluster's rows in the cells of the paired variables: (K, C)."""
    levels, entries = mean_levels(stats, prior), _entries(stats, prior)
    parts = [np.zeros((stats.n_clusters, 0))]
    for j in checked:
        at = slice(int(prior.offsets[j]), int(prior.offsets[j + 1]))
        parts += [levels[:, at] * entries[:, [j]], 1.0 - entries[:, [j]]]
    return np.concatenate(parts, axis=1)


def _entries(stats: Sums, prior: Prior) -> FloatArray:
    return observed_shares(stats, prior.offsets).clip(max=1.0)


def present_shares(stats: Sums, prior: Prior, codebook: Codebook) -> FloatArray:
    """Return the share of each cluster's rows that have each condition: (K, C)."""
    present = condition_levels(codebook)
    entries = np.repeat(_entries(stats, prior), codebook.n_levels, axis=1)
    return np.asarray((mean_levels(stats, prior) * entries)[:, present])


def make_checks(
    checked: Checked, stats: Sums, prior: Prior, row_prior: Prior, codebook: Codebook
) -> Checks:
    """Check a model against counts of the rows.

    Parameters
    ----------
    checked : Checked
        What the rows say.
    stats : Sums
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    codebook : Codebook
        Variables and levels.
    """
    counts = checked.counts
    cells = cell_offsets(codebook.n_levels, counts.checked)
    expected = expected_pairs(stats.T, cell_shares(stats, prior, counts.checked))
    found = pair_residuals(counts.pairs, expected, checked.pairs_noise, cells)
    present = present_shares(stats, prior, codebook)
    shares = expected_conditions(mean_weights(stats, prior), present)
    p_value = distance = None
    if present.shape[1] > 1 and not checked.weighted and counts.conditions.any():
        drawn = made_up(stats, prior, row_prior, stats.T, N_DRAWN, np.random.default_rng(0))
        number = _number(drawn, codebook)
        test = conditions_test(
            counts.conditions,
            shares,
            checked.conditions_noise,
            number,
            drawn.r,
            _both(checked, cells, codebook),
        )
        p_value, distance = test
    return Checks(
        p_value=p_value,
        distance=distance,
        conditions=_listing(counts.conditions / max(float(counts.conditions.sum()), 1.0)),
        expected_conditions=_listing(shares / shares.sum()),
        pairs=tuple(_named(each, len(found), counts.checked, codebook) for each in found[:N_PAIRS]),
        n_pairs=len(found),
        certainty=_listing(counts.certainty / counts.certainty.sum()),
        relative_entropy=relative_entropy(stats.T, stats.h),
        mean_posterior=_listing(mean_posterior(counts.own, counts.belonging)),
    )


def _both(checked: Checked, cells: IntArray, codebook: Codebook) -> tuple[float, float] | None:
    """Return the rows with each two conditions, summed, and its variance; None if not all told."""
    places = condition_places(checked.counts, cells, codebook.level_offsets)
    if places is None:
        return None
    counts, at = checked.counts, np.ix_(places, places)
    if not all(counts.pairs[a, b].any() for _, _, a, b in pair_blocks(cells)):
        return None
    return float(counts.pairs[at].sum()), float(checked.pairs_noise[at].sum())


def _number(rows: MadeUp, codebook: Codebook) -> IntArray:
    """Return how many conditions rows have."""
    number = np.zeros(len(rows.X), dtype=np.int64)
    starts = codebook.level_offsets
    for level in condition_levels(codebook):
        j = int(np.searchsorted(starts, level, side="right")) - 1
        number += rows.X[:, j] == level - starts[j]
    return number


def _named(
    found: Residual, n_pairs: int, checked: tuple[int, ...], codebook: Codebook
) -> PairResidual:
    first, second = (codebook.variables[checked[at]] for at in (found.first, found.second))
    return PairResidual(
        first=first.name,
        second=second.name,
        residual=found.residual,
        degrees=found.degrees,
        p_value=min(found.p_value * n_pairs, 1.0),
        first_level=first.levels[found.cell[0]],
        second_level=second.levels[found.cell[1]],
        observed=found.observed,
        expected=found.expected,
    )


def _listing(numbers: FloatArray) -> tuple[float, ...]:
    return tuple(float(n) for n in numbers)
