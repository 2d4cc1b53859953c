"""How many components a prior has, and whether a fit has used them up."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final, Literal

from fedmerdel.errors import OptionError

MaxClusters = int | Literal["auto"]
"""The most clusters that a fit may find: a number, or as many as it takes."""

AUTO: Final = "auto"

AUTO_COMPONENTS = 200
"""Components of the prior where a fit may find as many clusters as it takes."""

PAPER_COMPONENTS = 20
"""Components of the paper's recipe, which starts with all of them, where no number is given."""

MOST_COMPONENTS = 2000
"""More than anyone's table could tell apart. A number is kept for each pair of clusters, and told
by a site: four million are as many as a sheet holds."""

FIRST_ROOM = 20
"""Clusters that a search has room for at first; twice as many once they are used up."""


def checked_max_clusters(value: Any) -> MaxClusters:
    """Return the most clusters that a fit may find, or refuse what is no such number."""
    if isinstance(value, str) and value == AUTO:
        return AUTO
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 1 <= int(value) <= MOST_COMPONENTS:
        raise OptionError(
            f"max_clusters: give 'auto', or a whole number from 1 to {MOST_COMPONENTS:,}: memory "
            "and time grow with the square of it"
        )
    return int(value)


def component_count(max_clusters: MaxClusters, recipe: str) -> int:
    """Return how many components the prior has."""
    if max_clusters == AUTO:
        return PAPER_COMPONENTS if recipe == "paper" else AUTO_COMPONENTS
    return max_clusters


def room_for(n_clusters: int) -> int:
    """Return the room in which a search that grows ends with so many clusters."""
    room = FIRST_ROOM
    while room <= n_clusters and room < AUTO_COMPONENTS:
        room = min(2 * room, AUTO_COMPONENTS)
    return room


def used_up(whose: str, n_components: int) -> str:
    """Return what to tell people whose fit has used all clusters that it may."""
    advice = "raise it" if n_components >= AUTO_COMPONENTS else "raise it, or take 'auto'"
    return (
        f"{whose} used all {n_components} clusters that max_clusters allows, so there may be "
        f"more: {advice}"
    )
