"""Two sites in the clusters that both have: the variables that are the same, and the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.centre.comparison import compare_sites
from fedmerdel.errors import OptionError
from fedmerdel.plot.canvas import LINE, axes, columns, lines, text_width
from fedmerdel.plot.shades import scale, shades
from fedmerdel.plot.subject import needed_federation
from fedmerdel.report.colours import RATIO_STOPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

END = 10.0
"""Nats beyond which a cell has the colour of the end."""

TICKS = {-END: "≤ −10", -5.0: "−5", 0.0: "0", 5.0: "5", END: "≥ 10"}


def site_comparison(
    model: Any, site: str, other: str, *, most: int = 30, ax: Axes | None = None
) -> Axes:
    """Draw in which variables two sites differ, in each cluster that both have.

    A line for each variable, the most different first; a column for each cluster. Orange: the two
    sites have different levels of the variable there; purple: the same; white: too few rows to
    tell. Before the first round clusters may differ by their borders alone.

    Parameters
    ----------
    model : Federation or FedMerDel
        A federation or a fitted estimator.
    site, other : str
        Names of the two sites.
    most : int, default=30
        Variables at most.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Variables at the left, clusters below.
    """
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise OptionError("most: give a whole number of at least 1")
    federation = needed_federation(model)
    found = compare_sites(federation, site, other)
    if not found.clusters:
        raise OptionError(f"other: {site!r} and {other!r} have no cluster in common")
    shown = np.argsort(found.log_bayes_factors.min(axis=1), kind="stable")[:most]
    texts = [federation.study.label(found.variables[j]) for j in shown]
    names = [federation.name(k) for k in found.clusters]
    ax = axes(
        ax,
        max(0.34 * len(names), 3.2) + text_width(texts) + 0.6,
        LINE * len(texts) + 0.72 * text_width(names) + 0.9,
    )
    from matplotlib.colors import Normalize

    mesh = shades(ax, found.log_bayes_factors[shown], Normalize(-END, END, clip=True), RATIO_STOPS)
    lines(ax, texts)
    columns(ax, names)
    borders = "" if found.same_clusters else ", or borders"
    scale(ax, mesh, f"ln odds: below 0 the sites differ{borders}", TICKS)
    return ax
