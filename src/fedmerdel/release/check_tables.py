"""Released tables of a whole site with which a model is checked: what they may be, and not."""

from __future__ import annotations

import numpy as np

from fedmerdel.inference.check_counts import N_BINS, CheckCounts, cell_offsets, pair_blocks
from fedmerdel.release.cells import DUST, checked_totals
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums


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
