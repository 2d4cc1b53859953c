"""Shares as bars: how sure rows are of their cluster, and which variables tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.inference.check_counts import SURE
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.plot.canvas import (
    INK,
    LINE,
    TEXT,
    axes,
    bare,
    fitting,
    lines,
    percent,
    text_width,
)
from fedmerdel.plot.subject import either, federation_of, global_model
from fedmerdel.report.colours import CYCLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def certainty(model: Any, ax: Axes | None = None) -> Axes:
    """Draw how sure rows are expected to be of their cluster.

    Parameters
    ----------
    model : GlobalModel, Federation or FedMerDel
        A model, a federation or a fitted estimator.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Share of rows drawn from the model by the probability of the cluster given to them.
    """
    found, federation = global_model(model), federation_of(model)
    # Where what each site sent is at hand, each has its own shares of the clusters.
    rows = found.rows[None, :] if federation is None else federation.site_rows
    sure = expected_certainty(found.sums, found.prior, found.row_prior, rows)
    edges = np.linspace(0.0, 1.0, len(sure.histogram) + 1)
    ax = axes(ax, 4.6, 2.6)
    ax.bar(
        edges[:-1], sure.histogram, width=np.diff(edges), align="edge",
        color=CYCLE[0], edgecolor="white", linewidth=0.8,
    )  # fmt: skip
    ax.axvline(SURE, color=INK, linestyle=(0, (4, 3)), linewidth=0.8)
    ax.annotate(
        f"{100 * sure.sure:.0f} % above {SURE}", (SURE, 1.0), (-4, 0), ha="right", va="top",
        xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=TEXT, color=INK,
    )  # fmt: skip
    bare(ax, "bottom", "left")
    ax.set_xlim(0.0, 1.0)
    percent(ax, "y")
    ax.set_xlabel("probability of the row's cluster", fontsize=TEXT)
    ax.set_ylabel("share of rows, expected", fontsize=TEXT)
    return ax


def variables(model: Any, most: int = 30, ax: Axes | None = None) -> Axes:
    """Draw how surely each variable tells clusters apart.

    Parameters
    ----------
    model : GlobalModel, Federation, FedMerDel or MerDel
        A model, a federation or a fitted estimator.
    most : int, default=30
        Variables at most, the surest first.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        A bar for each variable.
    """
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise OptionError("most: give a whole number of at least 1")
    found = either(model)
    meaning = "probability that it tells clusters apart"
    if found is None:
        names = tuple(v.called(v.name) for v in model.codebook_.variables)
        each = model.selection_probability_
    else:
        names = tuple(found.study.label(name) for name in found.study.codebook.names)
        each = found.selection_probability
        if found.study.variable_selection:
            meaning = "sites that selected it"
    order = np.argsort(-each, kind="stable")[:most]
    texts, values = [names[j] for j in order], each[order]
    ax = axes(ax, 4.0 + text_width(texts), LINE * len(texts) + 0.6)
    ax.barh(np.arange(len(texts)), values, height=0.7, color=CYCLE[0])
    bare(ax, "bottom")
    lines(ax, texts)
    ax.set_xlim(0.0, 1.0)
    percent(ax, "x")
    ax.set_xlabel(meaning, fontsize=TEXT)
    size = fitting(ax, len(texts))
    for line, value in enumerate(values):
        ax.annotate(
            f"{100 * value:.0f} %", (float(value), line), (3, 0), textcoords="offset points",
            va="center", fontsize=min(size, 7.0), color=INK, annotation_clip=False,
        )  # fmt: skip
    return ax
