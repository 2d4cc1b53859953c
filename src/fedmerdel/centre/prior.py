"""The centre's prior, and what is learned of it from the sum of the sites' sums."""

from __future__ import annotations

from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.learning import learning_of, settled
from fedmerdel.sums.prior import Prior


def centre_prior(study: Study, n_components: int, S: FloatArray) -> Prior:
    """Return the prior for this many components, with what clusters of these counts teach.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    n_components : int
        As many as all sites have together (appendix E.3).
    S : float64 array (K, M)
        Counts of the global clusters.
    """
    prior = study_prior(study, n_components)
    learning = learning_of(centre_learns(study), S, prior)
    if learning is None:
        return prior
    if len(S) == 1:  # it can't tell how much clusters differ
        return learning.start(prior)
    return settled(learning, S, learning.start(prior))
