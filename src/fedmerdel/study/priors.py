"""The prior that a study sets: for its sites and for the centre, before anything is learned."""

from __future__ import annotations

from fedmerdel.study.study import Study
from fedmerdel.sums.learning import Learned, what_is_learned
from fedmerdel.sums.prior import Prior, level_prior


def study_prior(study: Study, n_components: int) -> Prior:
    """Return a study's prior for this many components, before anything is learned of it."""
    book = study.codebook
    return level_prior(study.prior, book.n_levels, study.alpha, n_components, book.guide)


def site_learns(study: Study) -> Learned:
    """Return what a site learns of the prior from its rows."""
    return what_is_learned(study.prior, study.variable_selection, study.recipe)


def centre_learns(study: Study) -> Learned:
    """Return what the centre learns of the prior from the sum of the sites' sums.

    Not a selection of variables: as in the paper, the sites' own count (appendix D.3).
    """
    learned = site_learns(study)
    return learned if learned == "strengths" else None
