"""A site's sums, protected, with the account that leaves and the one that stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.inference.check_counts import CheckCounts
from fedmerdel.release.account import Account, Changes, release_cost, told_share
from fedmerdel.release.cells import DUST, all_cells
from fedmerdel.release.check_tables import check_cells, protect_checks
from fedmerdel.release.mechanism import People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.released import Released
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
    checks : CheckCounts or None
        Tables of the whole site that may leave, where the study asks for them.
    """

    released: Released
    account: Account
    changes: Changes
    checks: CheckCounts | None = None


def protect(
    sums: Sums,
    people: Callable[[], People],
    prior: Prior,
    policy: Policy,
    *,
    absorbed: int = 0,
    drop_silent: bool = False,
    cost_so_far: float = 0.0,
    checks: tuple[CheckCounts, Callable[[], CheckCounts]] | None = None,
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
    checks : tuple of CheckCounts and callable, optional
        Tables of the whole site, where the study asks for them, and who counts the people there.

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
    tables = None
    if checks is not None:
        counts, in_people = checks
        tables = protect_checks(counts, in_people(), leaves, prior.offsets, mechanism)
    cost = release_cost(sums, released, prior) + cost_so_far
    before, after = (all_cells(each, prior.offsets) for each in (sums, released))
    changed = np.abs(before - after)
    zeroed = int(((before > DUST) & (after == 0)).sum())
    if drop_silent:
        told = np.flatnonzero(released.T > 0)
        absorbed += released.n_clusters - len(told)
        leaves = leaves.take(told)
        after = all_cells(leaves.sums, prior.offsets)
        if tables is not None:
            tables = tables._replace(own=tables.own[told], belonging=tables.belonging[told])
    if tables is not None:
        after = np.concatenate([after, check_cells(tables)])
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
        told=told_share(sums.S, released.S, prior.offsets),
    )
    return Protected(leaves, account, changes, tables)
