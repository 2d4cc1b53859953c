"""Models to draw, and every figure of one, for the tests of `fedmerdel.plot`."""

from __future__ import annotations

from functools import cache

from matplotlib.figure import Figure

from fedmerdel import Federation, plot
from tests.reported import made_federation

N_VARIABLES = 12


@cache
def made(n_clusters: int = 3, n_sites: int = 3) -> Federation:
    """A model with an outcome; where there are several sites each has some of the clusters."""
    here = n_clusters if n_sites == 1 else 2 * n_clusters // 3
    return made_federation(
        n_clusters, N_VARIABLES, n_sites, here=here, outcomes=("death",), max_clusters=n_clusters
    )


def every_figure(model: Federation) -> dict[str, Figure]:
    drawn = {
        "heatmap": plot.heatmap(model),
        "ratio": plot.heatmap(model, "ratio"),
        "sites": plot.sites(model),
        "outcomes": plot.outcomes(model, "death"),
        "lineage": plot.lineage(model),
        "certainty": plot.certainty(model),
        "variables": plot.variables(model),
        "elbo": plot.elbo(model),
    }
    return {name: ax.figure for name, ax in drawn.items()} | {
        "images": plot.images(model, (3, 4), n_drawn=2)
    }
