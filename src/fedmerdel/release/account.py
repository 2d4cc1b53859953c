"""What disclosure control did: one account that leaves with the numbers, one that stays.

How many cells were hidden, by how much the largest one moved, how many clusters were too small,
what it cost: where one cell only was hidden, each of these gives its count away, and a bound of the
cost in coarse steps tells whether a level occurs at all, by what the site has learned of it. So
the exact account (`Changes`) is for the site's own screen, and the one that is released
(`Account`) holds the policy, and what can be read off the released numbers anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from fedmerdel.errors import DataError
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import expected_log_levels, most_frequent
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta
from fedmerdel.sums.sums import Sums


@dataclass(frozen=True)
class Account:
    """The account that is released. No field tells more than the released counts do.

    Attributes
    ----------
    policy : str
        Name of the policy.
    threshold, rounding : int
        Its numbers; 0 where there is no rule.
    smallest : int
        Smallest count other than zero that can be met under it; a 0 stands for fewer.
        It is 0 where numbers go out as they are.
    n_cells : int
        Counts released or implied: rows, levels and missing entries, outcomes.
    n_zero : int
        How many of them are released as 0.
    smallest_cell : float
        The smallest that is not 0.
    """

    policy: str
    threshold: int
    rounding: int
    smallest: int
    n_cells: int
    n_zero: int
    smallest_cell: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain texts and numbers."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Account:
        """Read what `to_dict` wrote.

        Raises
        ------
        DataError
            If an entry is missing, unknown, of the wrong type or negative.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(content, Mapping) or set(content) != set(names):
            raise DataError(f"account: its entries must be {', '.join(names)}")
        for field in fields(cls):
            value = content[field.name]
            if field.type == "str":
                fits = isinstance(value, str)
            else:
                numbers = (int,) if field.type == "int" else (int, float)
                fits = isinstance(value, numbers) and not isinstance(value, bool)
                fits = fits and 0 <= value <= 2**53
            if not fits:
                raise DataError(f"account: {field.name!r} is not what it should be")
        return cls(**content)


@dataclass(frozen=True)
class Changes:
    """The exact account. For the site's own eyes: it must not leave.

    Attributes
    ----------
    absorbed : int
        Clusters too small to be told, whose rows were given to others.
    zeroed : int
        Cells above 0 that were released as 0.
    changed : int
        Cells released otherwise than they are, the zeroed ones included.
    largest_change : float
        Furthest that a cell was moved, in rows.
    elbo : float
        ELBO of the exact statistics.
    cost : float
        What the ELBO falls if the model is made from the released numbers, in nats.
    cost_per_row : float
        The same for each row.
    told : float
        The share of the table that is told where it is; see `told_share`.
    """

    absorbed: int
    zeroed: int
    changed: int
    largest_change: float
    elbo: float
    cost: float
    cost_per_row: float
    told: float


def told_share(exact: FloatArray, released: FloatArray, offsets: IntArray) -> float:
    """Return which share of counts (..., M) is told where it is; 1 if there are none.

    Of levels but the most frequent one of each variable: the others say what is particular about
    rows, and in a sparse table nearly all entries are at the level "no".
    """
    others = ~most_frequent(exact.reshape(-1, exact.shape[-1]).sum(axis=0), offsets)
    total = float(exact[..., others].sum())
    return float(np.minimum(exact, released)[..., others].sum()) / total if total > 0 else 1.0


def release_cost(exact: Sums, released: Sums, prior: Prior) -> float:
    """Return how much lower the ELBO is with the released numbers in the posterior.

    The difference of the two ELBOs would say nothing: a table with its rare cells emptied
    is another table, and an easier one. What counts is the table that there is, with
    q(pi) and q(phi) set from the released counts. Its ELBO is then lower by the divergence
    KL(released posterior || exact posterior), summed over all Dirichlets, so never
    negative.
    """
    offsets = prior.offsets
    eps, eps_released = prior.posterior(exact.S), prior.posterior(released.S)
    expected = expected_log_levels(eps_released, offsets)
    levels = ln_beta(eps, offsets) - ln_beta(eps_released, offsets)
    levels = levels + ((eps_released - eps) * expected).sum(axis=-1)
    # Emptied components have the same parameter in both, so they count in the total only.
    alpha_total = prior.n_components * prior.alpha
    weights = _ln_beta_of(prior.alpha + exact.T, alpha_total + exact.T.sum())
    weights -= _ln_beta_of(prior.alpha + released.T, alpha_total + released.T.sum())
    expected = digamma(prior.alpha + released.T) - digamma(alpha_total + released.T.sum())
    weights += float(((released.T - exact.T) * expected).sum())
    return max(float(levels.sum()) + weights, 0.0)


def _ln_beta_of(parts: FloatArray, total: float) -> float:
    return float(gammaln(parts).sum() - gammaln(total))
