"""Which variables tell the clusters apart, from what the sites released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from fedmerdel.centre.centre_prior import centre_prior
from fedmerdel.centre.summaries import side_by_side
from fedmerdel.release.disclosure import releases_exactly
from fedmerdel.release.hidden import filled_alike
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.strengths import log_odds

if TYPE_CHECKING:
    from fedmerdel.model.global_model import GlobalModel


def selection_probability(model: GlobalModel) -> FloatArray:
    """Return how surely each variable tells clusters apart; see `GlobalModel`."""
    names = model.study.codebook.names
    if model.study.variable_selection:
        votes = [[name in (s.selected or ()) for name in names] for s in model.summaries]
        return np.asarray(np.mean(votes, axis=0))
    S, prior, policy = model.statistics.S, model.prior, model.study.policy
    if not releases_exactly(policy):
        local = side_by_side(model.summaries).stats
        told = filled_alike(local, prior.offsets, policy).S
        S = np.array([told[group].sum(axis=0) for group in model.groups])
        prior = centre_prior(model.study, prior.n_components, S)
    return np.asarray(expit(log_odds(S, prior)))


def selected(model: GlobalModel) -> tuple[str, ...]:
    """Return the variables that tell clusters apart; see `GlobalModel`."""
    least = 0.5
    if model.study.variable_selection:
        n_sites = len(model.summaries)
        least = (n_sites - 1.5) / n_sites if n_sites > 2 else 1 - 0.5 / n_sites
    chosen = zip(model.study.codebook.names, model.selection_probability, strict=True)
    return tuple(name for name, share in chosen if share > least)
