"""Figures for papers, one function each, drawn with matplotlib (``pip install fedmerdel[plot]``).

They show the numbers of the HTML report, from the same functions. Each takes a `Federation`
or a fitted `FedMerDel`; all but `sites`, `site_comparison`, `lineage` and `elbo`, which show what
sites sent, also a `GlobalModel`; `heatmap`, `variables` and `elbo` also a fitted `MerDel`. Each
takes Axes to draw on, best of a figure with ``layout="constrained"``, or makes a figure that has
room for its texts, and returns the Axes; `images` returns a figure. To keep one:
``plot.heatmap(model).figure.savefig("heatmap.pdf")``. A notebook shows the figure when what is
returned ends a cell; pyplot does not know of it, so nothing stays open.
"""

from __future__ import annotations

from fedmerdel.plot.bars import certainty, variables
from fedmerdel.plot.comparison import site_comparison
from fedmerdel.plot.elbo_curve import elbo
from fedmerdel.plot.pictures import images
from fedmerdel.plot.rates import outcomes
from fedmerdel.plot.ribbons import lineage
from fedmerdel.plot.tables import heatmap, sites

__all__ = [
    "certainty",
    "elbo",
    "heatmap",
    "images",
    "lineage",
    "outcomes",
    "site_comparison",
    "sites",
    "variables",
]
