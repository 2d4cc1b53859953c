"""The face of every method."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Batch = NDArray[np.integer[Any]]
Labels = NDArray[np.int64]
Info = dict[str, float]


class Method(Protocol):
    """A way to cluster rows that lie in batches, or at sites.

    A method is made with its options, the seed among them, and fitted once. Those that can't
    work on batches put them together first.
    """

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster the rows of all batches.

        Parameters
        ----------
        batches : list of integer arrays (N_b, P)
            The rows; entries are levels, from 0.

        Returns
        -------
        labels : int64 array (N,)
            The cluster of each row, batch after batch.
        info : dict of str to float
            What else there is to tell: "n_clusters" always; of federated methods "rounds", and
            "released", the numbers that a site sends in all of them (a mean over sites); "elbo"
            and so on where there are any.
        """
        ...
