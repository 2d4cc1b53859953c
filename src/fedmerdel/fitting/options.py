"""How to fit: by which recipe, from where, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.similarity import MergeCriterion

Recipe = Literal["default", "paper"]
Init = Literal["divide", "kmodes", "random"] | IntArray


@dataclass(frozen=True)
class Options:
    """How to fit.

    Attributes
    ----------
    recipe : {"default", "paper"}
        Which search.
    init : {"divide", "kmodes", "random"} or int64 array (N,)
        Where each start begins; "divide" is the default recipe's own.
    laps, merge_criterion
        Of the paper's recipe.
    tol : float
        Nats, in all, that a pass may still add at the end.
    max_iter : int or None
        Most passes over all rows; None bounds the work.
    n_init : int or None
        Starts; None is several where that costs little, and one for the paper's recipe.
    grows : bool
        Whether a search of the default recipe begins with room for few clusters, and makes more
        as it is used up.
    thorough : bool
        Of the default recipe: try merges that need passes to pay. A site does not: what
        its few rows can't tell apart, all sites' rows together may.
    """

    recipe: Recipe
    init: Init
    laps: int | None
    merge_criterion: MergeCriterion
    tol: float
    max_iter: int | None
    n_init: int | None
    grows: bool = False
    thorough: bool = True
