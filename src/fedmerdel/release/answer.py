"""What a summary holds besides, if it answers clusters that the centre has sent out."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedmerdel.release.cells import DUST, wrong_arrays
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import FirstHalves
from fedmerdel.sums.sums import Sums


class Prospects(NamedTuple):
    """What splits and deletions would bring. Told only where counts leave as they are.

    Attributes
    ----------
    halves : FirstHalves
        Of each cluster: along the cut that was sent with it, or as the site proposes.
    cost : float64 array (K,)
        ``sum_n w_n ln(1 - r_nk)``, what the site's rows would lose without the cluster.
    """

    halves: FirstHalves
    cost: FloatArray


class Answer(NamedTuple):
    """The part of a reply that tells what was answered, and serves the next moves.

    Attributes
    ----------
    broadcast : str
        Hash of what was sent out: the clusters of the summary are those, in their order.
    evidence : float
        ``sum_n w_n ln sum_k rho_nk``, how well the clusters that were sent explain the site's
        rows, or a lower bound of it. Summed over sites, and less the divergence of what was
        sent from the prior, it is the ELBO, whatever disclosure control did to the counts.
    prospects : Prospects or None
        None under a policy that changes counts: halves have smaller cells than their clusters,
        and a gain computed from changed counts would be another table's.
    """

    broadcast: str
    evidence: float
    prospects: Prospects | None = None


def impossible_answer(answer: Answer, stats: Sums, offsets: IntArray) -> str | None:
    """Return why no table can have given these numbers, or None."""
    if not isinstance(answer.broadcast, str) or not answer.broadcast:
        return "it does not say which clusters it answers"
    if not np.isfinite(answer.evidence):
        return "evidence is not finite"
    if answer.prospects is None:
        return None
    (K, M), (halves, cost) = stats.S.shape, answer.prospects
    shapes = {
        "rows of the halves": (halves.T, (K,)),
        "counts of the halves": (halves.S, (K, M)),
        "blur": (halves.blur, (K,)),
        "cost": (cost, (K,)),
    }
    wrong = wrong_arrays(shapes)
    if wrong is not None:
        return wrong
    if cost.max() > 0:
        return "cost is above 0, and no logarithm of a share is"
    slack = DUST * np.maximum(stats.T, 1.0)
    if np.any(halves.T > stats.T + slack) or np.any(halves.S > stats.S + slack[:, None]):
        return "a half has more rows than its cluster"
    for start, end in pairwise(offsets):
        if np.any(halves.S[:, start:end].sum(axis=1) > halves.T + slack):
            return "the levels of a variable sum to more than the half's rows"
    return None
