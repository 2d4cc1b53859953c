"""Tables of a whole site with which a model is checked: protected, and what they may be.

A table of two variables has lines and columns that sum to the site's released totals of the two.
A histogram sums to the site's rows; of the number of conditions more is known from other counts,
see `known_sums`.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.inference.check_counts import (
    N_BINS,
    CheckCounts,
    cell_offsets,
    condition_places,
    pair_blocks,
)
from fedmerdel.release.cells import DUST, checked_totals
from fedmerdel.release.known_sums import Known
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.released import Released
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums


def protect_checks(
    counts: CheckCounts,
    people: CheckCounts,
    released: Released,
    offsets: IntArray,
    mechanism: Mechanism,
) -> CheckCounts:
    """Return the tables that may leave.

    Parameters
    ----------
    counts, people : CheckCounts
        With the rows' weights, and with each row counted whole.
    released : Released
        The sums that leave with them; nothing is told of clusters that have no rows here.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    mechanism : Mechanism
        How numbers leave.
    """
    sums, rest = released
    N, step = float(sums.T.sum()), mechanism.smallest

    def in_rest(rows: FloatArray) -> FloatArray:
        if rest is None:
            return rows
        told = np.where(sums.T > 0, rows, 0.0)
        told[rest] += rows.sum() - told.sum()
        return told

    totals = checked_totals(sums, offsets, counts.checked)
    cells = cell_offsets(np.diff(offsets), counts.checked)
    pairs = np.zeros_like(counts.pairs)
    for _, _, a, b in pair_blocks(cells):
        pairs[a, b] = mechanism.protect_pair(
            counts.pairs[a, b], people.pairs[a, b], totals[a], totals[b]
        )
    known = _known(counts, pairs, sums, offsets, mechanism)
    own = mechanism.protect_histogram(in_rest(counts.own), in_rest(people.own), N)
    belonging = in_rest(counts.belonging)
    belonging = np.rint(belonging / step) * step if step else belonging
    return counts._replace(
        pairs=pairs,
        conditions=mechanism.protect_histogram(counts.conditions, people.conditions, N, known),
        certainty=mechanism.protect_histogram(counts.certainty, people.certainty, N),
        own=own,
        belonging=np.minimum(belonging, own),
    )


def _known(
    counts: CheckCounts, pairs: FloatArray, sums: Sums, offsets: IntArray, mechanism: Mechanism
) -> list[Known]:
    """Return what totals, and tables of pairs, tell of how many conditions rows have."""
    number = np.arange(len(counts.present) + 1, dtype=np.float64)
    positive = sums.S.sum(axis=0)[list(counts.present)]
    found = [mechanism.known_sum(number, positive)]
    at = condition_places(counts, cell_offsets(np.diff(offsets), counts.checked), offsets)
    if at is not None:
        both = (pairs + pairs.T)[np.ix_(at, at)][np.triu_indices(len(at), 1)]
        found.append(mechanism.known_sum(number * (number - 1) / 2, both))
    return found


def check_cells(checks: CheckCounts) -> FloatArray:
    """Return every count that is told."""
    parts = (checks.pairs.ravel(), checks.conditions, checks.certainty, checks.own)
    return np.concatenate(parts)


def impossible_checks(
    checks: CheckCounts, sums: Sums, offsets: IntArray, present: tuple[int, ...]
) -> str | None:
    """Return the first thing that can't be, or None."""
    cells = cell_offsets(np.diff(offsets), checks.checked)
    shapes = {
        "tables of pairs": (checks.pairs, (int(cells[-1]),) * 2),
        "numbers of conditions": (checks.conditions, (len(present) + 1,)),
        "certainty": (checks.certainty, (N_BINS,)),
        "own rows": (checks.own, (sums.n_clusters,)),
        "belonging": (checks.belonging, (sums.n_clusters,)),
    }
    for name, (array, shape) in shapes.items():
        if np.shape(array) != shape:
            return f"{name}: not as many counts as the study asks for"
        if array.size and not (np.isfinite(array).all() and array.min() >= 0):
            return f"{name}: a count is negative or not finite"
    if checks.present != present:
        return "numbers of conditions: not of the codebook's conditions"
    N = float(sums.T.sum())
    slack = DUST * max(N, 1.0)
    for name in ("numbers of conditions", "certainty", "own rows"):
        told = float(shapes[name][0].sum())
        # Of numbers of conditions it may be that none can be told.
        if abs(told - N) > slack and (told or name != "numbers of conditions"):
            return f"{name}: they don't sum to the site's rows"
    if np.any(checks.belonging > checks.own + slack):
        return "rows belong to a cluster by more than they are"
    totals = checked_totals(sums, offsets, checks.checked)
    for _, _, first, second in pair_blocks(cells):
        table = checks.pairs[first, second]
        wrong = np.abs(table.sum(axis=1) - totals[first]).max() > slack
        wrong |= np.abs(table.sum(axis=0) - totals[second]).max() > slack
        if table.any() and wrong:
            return "a table of two variables does not sum to the site's rows at each level"
    return None
