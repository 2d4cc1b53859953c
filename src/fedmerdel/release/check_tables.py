"""Tables of a whole site with which a model is checked: protected, and told apart from nonsense.

A table of two variables has lines and columns that sum to the site's released totals of the two,
cells that are 0 or at least the smallest count, and is the same in every release, as the totals
are. Histograms are told in steps of the smallest count: how many conditions all rows have together
follows from the totals too, so with finer steps a hidden cell could be worked out.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.inference.check_counts import N_BINS, CheckCounts, cell_offsets, pair_blocks
from fedmerdel.release.cells import DUST, with_missing
from fedmerdel.release.tables import protect_cells, protect_table
from fedmerdel.study.policy import CUSTOM, Policy
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums


def checked_totals(sums: Sums, offsets: IntArray, checked: tuple[int, ...]) -> FloatArray:
    """Return the rows of a site in each cell of the variables that are paired."""
    total = sums.total()
    parts = [with_missing(total.T, total.S[:, offsets[j] : offsets[j + 1]])[0] for j in checked]
    return np.concatenate([np.zeros(0), *parts])


def coarse_policy(policy: Policy) -> Policy:
    """Return the policy of histograms: the same, in steps of its smallest count."""
    return Policy(CUSTOM, policy.threshold, policy.smallest, policy.source)


def protect_check_tables(
    counts: CheckCounts,
    people: CheckCounts,
    sums: Sums,
    rest: int,
    offsets: IntArray,
    policy: Policy,
) -> CheckCounts:
    """Return the tables that may leave.

    Parameters
    ----------
    counts, people : CheckCounts
        With the rows' weights, and with each row counted whole.
    sums : Sums
        As released; nothing is told of clusters that have no rows here.
    rest : int
        The cluster that has what the others leave.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    policy : Policy
        What may be told.
    """
    N, coarse = sums.T.sum(keepdims=True), coarse_policy(policy)

    def histogram(soft: FloatArray, hard: FloatArray) -> FloatArray:
        return np.asarray(protect_cells(soft[None], hard[None], N, coarse)[0])

    def in_rest(rows: FloatArray) -> FloatArray:
        told = np.where(sums.T > 0, rows, 0.0)
        told[rest] += rows.sum() - told.sum()
        return told

    totals = checked_totals(sums, offsets, counts.checked)
    own = histogram(in_rest(counts.own), in_rest(people.own))
    belonging = np.rint(in_rest(counts.belonging) / policy.smallest) * policy.smallest
    return CheckCounts(
        counts.checked,
        _protect_pairs(counts, people, totals, offsets, policy),
        histogram(counts.conditions, people.conditions),
        histogram(counts.certainty, people.certainty),
        own,
        np.minimum(belonging, own),
    )


def _protect_pairs(
    counts: CheckCounts, people: CheckCounts, totals: FloatArray, offsets: IntArray, policy: Policy
) -> FloatArray:
    cells = cell_offsets(np.diff(offsets), counts.checked)
    found = np.zeros_like(counts.pairs)
    for _, _, first, second in pair_blocks(cells):
        soft, hard = counts.pairs[first, second], people.pairs[first, second]
        lines, columns = totals[first], totals[second]
        table = protect_table(soft, hard, lines, columns, int(lines.argmax()), policy)
        if table is None:
            turned = protect_table(soft.T, hard.T, columns, lines, int(columns.argmax()), policy)
            table = None if turned is None else turned.T
        if table is not None:  # else nothing is told of this pair
            found[first, second] = table
    return found


def check_cells(checks: CheckCounts) -> FloatArray:
    """Return every count that is told."""
    parts = (checks.pairs.ravel(), checks.conditions, checks.certainty, checks.own)
    return np.concatenate(parts)


def impossible_checks(
    checks: CheckCounts, sums: Sums, offsets: IntArray, n_conditions: int
) -> str | None:
    """Return the first thing that can't be, or None."""
    cells = cell_offsets(np.diff(offsets), checks.checked)
    shapes = {
        "tables of pairs": (checks.pairs, (int(cells[-1]),) * 2),
        "numbers of conditions": (checks.conditions, (n_conditions + 1,)),
        "certainty": (checks.certainty, (N_BINS,)),
        "own rows": (checks.own, (sums.n_clusters,)),
        "belonging": (checks.belonging, (sums.n_clusters,)),
    }
    for name, (array, shape) in shapes.items():
        if np.shape(array) != shape:
            return f"{name}: not as many counts as the study asks for"
        if array.size and not (np.isfinite(array).all() and array.min() >= 0):
            return f"{name}: a count is negative or not finite"
    N = float(sums.T.sum())
    slack = DUST * max(N, 1.0)
    for name in ("numbers of conditions", "certainty", "own rows"):
        if abs(float(shapes[name][0].sum()) - N) > slack:
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
