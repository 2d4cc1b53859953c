"""What each cluster is worth: by how much the ELBO would fall without it.

Without a row, the only way to do without a cluster is to merge it with another. Of all merges
the one that loses least is taken, at the responsibilities and with the prior as they are. Passes
over the rows, or a prior learned anew, could only raise what is left, and what several sites'
overlaps are bounded by counts as lost (proposition 4): so a cluster is worth so much *at most*.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.merging import Merging


def worth_by_merging(merging: Merging) -> FloatArray:
    """Return the nats that each group loses at most by the merge that loses least: (K,).

    Below 0 where a merge would even gain, and was not made because its clusters overlap.
    There are at least two groups.
    """
    n = len(merging.T)
    return np.array([-merging.gains(k, np.delete(np.arange(n), k)).max() for k in range(n)])
