"""The centre's prior, and what is learned of it from the sum of the sites' statistics."""

from __future__ import annotations

from fedmerdel.study.priors import study_prior
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.learning import Learned, learning_of, settled, what_is_learned
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


def centre_learns(study: Study) -> Learned:
    """Return what the centre learns of the prior.

    Not a selection of variables: as in the paper, the sites' own count (appendix D.3).
    """
    learned = what_is_learned(study.prior, study.variable_selection, study.recipe)
    return learned if learned == "strengths" else None
