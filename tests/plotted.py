"""Federations to draw, and every figure of one, for the tests of `fedmerdel.plot`."""

from __future__ import annotations

from functools import cache

from matplotlib.figure import Figure

from fedmerdel import Federation
from tests.figures import FIGURES
from tests.reported import made_federation

N_VARIABLES = 12


@cache
def made(n_clusters: int = 3, n_sites: int = 3) -> Federation:
    """A federation with an outcome; where there are several sites each has some of the clusters."""
    here = n_clusters if n_sites == 1 else 2 * n_clusters // 3
    return made_federation(
        n_clusters, N_VARIABLES, n_sites, here=here, outcomes=("death",), max_clusters=n_clusters
    )


def every_figure(federation: Federation) -> dict[str, Figure]:
    return {name: draw(federation) for name, draw in FIGURES.items()}
