"""Federations to draw, and every figure of one, for the tests of `fedmerdel.plot`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from matplotlib.figure import Figure

from fedmerdel import Federation, plot
from tests.reported import made_federation

N_VARIABLES = 12


@cache
def made(n_clusters: int = 3, n_sites: int = 3) -> Federation:
    """A federation with an outcome; where there are several sites each has some of the clusters."""
    here = n_clusters if n_sites == 1 else 2 * n_clusters // 3
    return made_federation(
        n_clusters, N_VARIABLES, n_sites, here=here, outcomes=("death",), max_clusters=n_clusters
    )


FIGURES: dict[str, Callable[[Any], Figure]] = {
    "heatmap": lambda model: plot.heatmap(model).figure,
    "ratio": lambda model: plot.heatmap(model, "ratio").figure,
    "sites": lambda model: plot.sites(model).figure,
    "outcomes": lambda model: plot.outcomes(model, "death").figure,
    "lineage": lambda model: plot.lineage(model).figure,
    "certainty": lambda model: plot.certainty(model).figure,
    "variables": lambda model: plot.variables(model).figure,
    "elbo": lambda model: plot.elbo(model).figure,
    "images": lambda model: plot.images(model, (3, 4), n_drawn=2),
}

OF_SITES = ("sites", "lineage", "elbo")
"""Figures that need what sites sent, and so a federation."""


def every_figure(federation: Federation) -> dict[str, Figure]:
    return {name: draw(federation) for name, draw in FIGURES.items()}
