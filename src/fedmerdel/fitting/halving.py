"""Halves of every cluster, found together: good ones to split it into, or those along given cuts.

Each cluster's rows are cut along the leading direction of what its product of independent
variables does not explain (the first axis of a multiple correspondence analysis of the
cluster), and the halves are improved by E and M steps inside the cluster. Its rows are those
labelled with it, which is quick, or all rows by their shares, which is exact. A label is a
share of 1: nothing but the loop over the rows differs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedmerdel.fitting.code_tables import build_table
from fedmerdel.fitting.halving_kernels import labelled_pass, shared_pass
from fedmerdel.fitting.passes import Workers, decode_sums, summed
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import Cuts, cuts_between, split_gains
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.levels import level_totals
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

POWER_STEPS = 4
"""Steps towards the leading direction of each cluster."""

FIRM = 3.0
"""Log odds of the first halves, one standard deviation from the middle."""

RARE = 4.0
"""Rows by which the direction of a level is shrunk: rare levels say little."""

LOCAL_STEPS = 12
"""E and M steps inside each cluster before a site proposes its halves."""

Members = IntArray | Expectations
"""Each row's cluster, or what gives it a share in every one."""


def count_halves(rows: PackedRows, members: Members, cuts: Cuts, workers: Workers) -> FirstHalves:
    """Count the first half of each cluster along its cut: an E and an M step."""
    found = _along(rows, members, cuts, workers, halve=True)
    return FirstHalves(found.T, found.S, found.h)


def propose_halves(
    rows: PackedRows,
    members: Members,
    whole: Sums,
    prior: Prior,
    workers: Workers,
    rng: np.random.Generator,
    *,
    steps: int = LOCAL_STEPS,
    give_up: bool = False,
) -> FirstHalves:
    """Return good halves of every cluster, after some E and M steps inside each.

    Parameters
    ----------
    rows : PackedRows
        The rows.
    members : int64 array (N,) or Expectations
        Which cluster each row is in, or by what share in each.
    whole : Sums
        The clusters that they make.
    prior : Prior
        Their prior.
    workers : Workers
        The threads to work with.
    rng : numpy.random.Generator
        Where the search for directions starts.
    steps : int
        Most steps.
    give_up : bool
        Whether to end once no cluster is on the way to a gain. Not for halves of a site: they
        may gain together with those of others.
    """
    direction = leading_directions(rows, members, whole, workers, rng)
    first = count_halves(rows, members, Cuts(np.zeros(len(whole.T)), FIRM * direction), workers)
    gain = split_gains(whole, first, prior)
    for left in reversed(range(steps - 1)):
        first = count_halves(rows, members, cuts_between(whole, first, prior), workers)
        if give_up:
            last, gain = gain, split_gains(whole, first, prior)
            if not np.any(gain + left * (gain - last) > 0):
                break
    return first


def leading_directions(
    rows: PackedRows, members: Members, whole: Sums, workers: Workers, rng: np.random.Generator
) -> FloatArray:
    """Return for each cluster a direction (K, M) along which its rows vary most.

    Power iteration on the cluster's indicator matrix in the chi-square metric, which
    is what an E and an M step do to halves that hardly differ. Rows projected on the
    result have variance 1.
    """
    offsets = rows.packing.level_offsets
    direction = _centred(rng.standard_normal(whole.S.shape), whole.S, offsets)
    for _ in range(POWER_STEPS):
        cuts = Cuts(np.zeros(whole.n_clusters), direction)
        turned = _along(rows, members, cuts, workers, halve=False)
        scale = np.sqrt(np.maximum(turned.h / np.maximum(whole.T, 1.0), 1e-300))[:, None]
        last = direction / scale
        direction = _centred(turned.S / (whole.S + RARE), whole.S, offsets) / scale
    return last


def _centred(direction: FloatArray, S: FloatArray, offsets: IntArray) -> FloatArray:
    """Take from each variable its mean over the cluster, so that projections have mean 0."""
    totals = np.maximum(level_totals(S, offsets), 1e-300)
    return np.asarray(direction - level_totals(direction * S, offsets) / totals)


def _along(
    rows: PackedRows, members: Members, cuts: Cuts, workers: Workers, *, halve: bool
) -> Sums:
    """Sum the parts of rows along a direction through each cluster; ``h`` is their spread."""
    packing = rows.packing
    table = build_table(*cuts, packing)
    run: Callable[..., None] = labelled_pass
    belongs: IntArray | FloatArray
    if isinstance(members, Expectations):
        run, belongs = shared_pass, build_table(*members, packing)
    else:
        belongs = members

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        counts, spread = np.zeros_like(table), np.zeros(table.shape[1])
        data = rows.codes, rows.weights, packing.state_offsets
        run(*data, belongs, table, halve, start, stop, counts, spread)
        return counts, spread

    return decode_sums(rows, *summed(workers.over_chunks(rows.n_rows, work)))
