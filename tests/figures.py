"""Every figure of `fedmerdel.plot`; this imports little, for processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure

from fedmerdel import plot

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
