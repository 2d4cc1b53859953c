"""A site's sums, protected, with the account that leaves and the one that stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.release.account import Account, Changes, release_cost
from fedmerdel.release.cells import DUST, all_cells
from fedmerdel.release.mechanism import People, Released
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.study.policy import Policy
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Protected(NamedTuple):
    """What `protect` returns: all but `changes` may leave.

    Attributes
    ----------
    released : Released
        Sums that may leave.
    account : Account
        The account to release.
    changes : Changes
        The exact account, which stays at the site.
    """

    released: Released
    account: Account
    changes: Changes


def protect(
    sums: Sums,
    people: Callable[[], People],
    prior: Prior,
    policy: Policy,
    *,
    absorbed: int = 0,
    drop_silent: bool = False,
    cost_so_far: float = 0.0,
) -> Protected:
    """Return the numbers that may leave.

    Parameters
    ----------
    sums : Sums
        Of the site's clusters.
    people : callable
        Counts the people behind them, if the policy asks for that.
    prior : Prior
        Prior of the fit: cuts S into variables, and states the cost.
    policy : Policy
        The study's.
    absorbed : int
        Clusters that were too small, whose rows were given to others.
    drop_silent : bool
        Leave out clusters of which nothing is told; they count as absorbed.
    cost_so_far : float
        Nats of ELBO that this cost.

    Raises
    ------
    DataError
        If no cluster is large enough to be released.
    """
    mechanism = mechanism_for(policy)
    if sums.n_clusters == 0 or mechanism.too_small(sums.T, people).all():
        raise DataError(
            f"no cluster of this site has {policy.smallest} rows, the least that policy "
            f"{policy.name!r} releases: the site is too small to take part alone"
        )
    leaves = mechanism.protect(sums, people, prior.offsets)
    released = leaves.sums
    cost = release_cost(sums, released, prior) + cost_so_far
    before, after = (all_cells(each, prior.offsets) for each in (sums, released))
    changed = np.abs(before - after)
    zeroed = int(((before > DUST) & (after == 0)).sum())
    if drop_silent:
        told = np.flatnonzero(released.T > 0)
        absorbed += released.n_clusters - len(told)
        leaves = leaves.take(told)
        after = all_cells(leaves.sums, prior.offsets)
    account = Account(
        policy=policy.name,
        threshold=policy.threshold,
        rounding=policy.rounding,
        smallest=mechanism.smallest,
        n_cells=after.size,
        n_zero=int((after == 0).sum()),
        smallest_cell=float(after[after > 0].min()),
    )
    changes = Changes(
        absorbed=absorbed,
        zeroed=zeroed,
        changed=int((changed > DUST).sum()),
        largest_change=float(changed.max()),
        elbo=elbo(sums, prior),
        cost=cost,
        cost_per_row=cost / float(sums.T.sum()),
    )
    return Protected(leaves, account, changes)
