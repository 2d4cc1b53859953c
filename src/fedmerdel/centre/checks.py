"""The model checked against what the sites tell of all their rows."""

from __future__ import annotations

import numpy as np

from fedmerdel.inference.check_counts import CheckCounts, cell_offsets, pair_blocks
from fedmerdel.inference.conditions import expected_conditions
from fedmerdel.inference.residuals import expected_pairs
from fedmerdel.model.checking import Checked, cell_shares, make_checks, present_shares
from fedmerdel.model.checks import Checks
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.predictive import mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def federation_checks(
    study: Study,
    summaries: tuple[SiteSummary, ...],
    cluster: IntArray,
    site_rows: FloatArray,
    sums: Sums,
    prior: Prior,
    row_prior: Prior,
) -> Checks | None:
    """Check the clusters of a federation; None if its study asks for no checks.

    Cells that a site has hidden are taken as the clusters make them expected there.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    summaries : tuple of SiteSummary
        What they sent.
    cluster : int64 array (C,)
        Where each local cluster, numbered through all sites, belongs.
    site_rows : float64 array (sites, K)
        Rows of each site in each cluster.
    sums, prior, row_prior
        The clusters; see `make_checks`.
    """
    told = [summary.checks for summary in summaries if summary.checks is not None]
    if not told:
        return None
    checked, book = told[0].checked, study.codebook
    shares, present = cell_shares(sums, prior, checked), present_shares(sums, prior, book)
    cells = cell_offsets(book.n_levels, checked)
    pairs, conditions = np.zeros((2, *told[0].pairs.shape)), np.zeros((2, len(present.T) + 1))
    for summary, counted, rows in zip(summaries, told, site_rows, strict=True):
        mechanism = summary.mechanism
        at_site = sums._replace(T=rows)
        mean = expected_conditions(mean_weights(at_site, prior), present) * rows.sum()
        conditions += mechanism.expected_cells(counted.conditions, mean, coarse=True)
        expected = expected_pairs(rows, shares)
        for _, _, first, second in pair_blocks(cells):
            table = counted.pairs[first, second]
            pairs[:, first, second] += mechanism.expected_cells(
                table, expected[first, second], coarse=False
            )
    # What no site has told is not known, and not as expected.
    conditions *= any(each.conditions.any() for each in told)
    for _, _, first, second in pair_blocks(cells):
        pairs[:, first, second] *= any(each.pairs[first, second].any() for each in told)
    own, belonging = (np.zeros(sums.n_clusters) for _ in range(2))
    np.add.at(own, cluster, np.concatenate([each.own for each in told]))
    np.add.at(belonging, cluster, np.concatenate([each.belonging for each in told]))
    certainty = np.sum([each.certainty for each in told], axis=0)
    counts = CheckCounts(
        checked, told[0].present, pairs[0], conditions[0], certainty, own, belonging
    )
    found = Checked(counts, pairs[1], conditions[1], study.weight is not None)
    return make_checks(found, sums, prior, row_prior, book)
