"""Halves of clusters that sites propose, put together to one proposal of the centre."""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.halves import FirstHalves, second_halves
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def agreed_halves(proposals: list[tuple[Sums, FirstHalves]], prior: Prior) -> FirstHalves:
    """Add up the halves that sites propose, each site's the better way round.

    For each cluster the site whose halves gain most is first. The others' halves are added
    to its own in turn, first to first or first to second, whichever has the higher evidence.

    Parameters
    ----------
    proposals : list of (Sums, FirstHalves)
        Each site's clusters, and their first halves.
    prior : Prior
        The centre's.
    """
    seconds = [second_halves(own, first) for own, first in proposals]
    firsts = [first for _, first in proposals]
    site_T = np.stack([[first.T for first in firsts], [T for T, _ in seconds]], axis=1)
    site_S = np.stack([[first.S for first in firsts], [S for _, S in seconds]], axis=1)
    gains = np.stack([split_gains(own, first, prior) for own, first in proposals])
    T, S = np.zeros(site_T.shape[1:]), np.zeros(site_S.shape[1:])
    clusters = np.arange(len(proposals[0][1].T))
    for site in np.argsort(-gains, axis=0, kind="stable"):  # for each cluster, the next site
        more_T = site_T[site, :, clusters].T
        more_S = site_S[site, :, clusters].swapaxes(0, 1)
        straight = cluster_evidence(T + more_T, S + more_S, prior).sum(axis=0)
        turned = cluster_evidence(T + more_T[::-1], S + more_S[::-1], prior).sum(axis=0)
        turn = turned > straight
        T += np.where(turn, more_T[::-1], more_T)
        S += np.where(turn[:, None], more_S[::-1], more_S)
    return FirstHalves(T[0], S[0], np.zeros(len(clusters)))
