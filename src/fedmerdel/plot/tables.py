"""Tables as shades: clusters by conditions, sites by clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.plot.canvas import (
    FAINT,
    INK,
    LINE,
    axes,
    columns,
    fitting,
    lines,
    text_width,
)
from fedmerdel.plot.shades import scale, shades
from fedmerdel.plot.subject import Clusters, clusters_of, names_of, needed_federation
from fedmerdel.report.colours import RATIO_STOPS, SHARE_STOPS, on, share_colour
from fedmerdel.study.conditions import shown_levels
from fedmerdel.sums.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measure = Literal["prevalence", "ratio", "exclusivity"]
First = Literal["prevalent", "distinguishing", "study"]

RATIO_ENDS = (1 / 8, 8.0)
"""Ratios beyond these have the colour of the end."""

RATIO_TICKS = {
    1 / 8: "≤ 1/8",
    1 / 4: "1/4",
    1 / 2: "1/2",
    1.0: "1",
    2.0: "2",
    4.0: "4",
    8.0: "≥ 8",
}

MOST_NUMBERS = 25
"""Sites, or clusters, that leave room for a number in each cell."""

HATCHED = "; hatched: not measured"

MEANING = {
    "prevalence": "share of the cluster's rows",
    "ratio": "observed / expected",
    "exclusivity": "share of all rows with the condition",
}


def heatmap(
    model: Any,
    measure: Measure = "prevalence",
    *,
    first: First = "prevalent",
    most: int = 30,
    clusters: Literal["size", "alike"] | Sequence[int] = "size",
    ax: Axes | None = None,
) -> Axes:
    """Draw clusters by conditions: a line for each cluster, shades for how many have what.

    Parameters
    ----------
    model : GlobalModel, Federation, FedMerDel or MerDel
        A model, a federation or a fitted estimator.
    measure : {"prevalence", "ratio", "exclusivity"}, default="prevalence"
        Share of the cluster's rows that have the condition, this over the share of all rows, or
        share of all rows with the condition that are in the cluster.
    first : {"prevalent", "distinguishing", "study"}, default="prevalent"
        Order of the columns: the most frequent first, those that tell most of a row's cluster, or
        as in the study.
    most : int, default=30
        Columns at most.
    clusters : {"size", "alike"} or sequence of int, default="size"
        Order of the lines: the largest first, those that are alike beside each other, or the
        clusters of these numbers.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Names at the left, rows at the right. A condition that was not measured in a cluster is
        hatched there.
    """
    _check("measure", measure, get_args(Measure))
    _check("first", first, get_args(First))
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise OptionError("most: give a whole number of at least 1")
    found = clusters_of(model)
    chosen = _order(found, clusters)
    shown = _columns(found, first)[:most]
    values: FloatArray = getattr(found.profile, measure)[np.ix_(chosen, shown)]
    texts, names = [found.texts[at] for at in shown], [found.names[k] for k in chosen]
    ax = axes(
        ax,
        max(0.24 * len(shown), 2.4) + text_width(names) + 1.2,
        LINE * len(chosen) + 0.72 * text_width(texts) + 0.9,
    )
    from matplotlib.colors import LogNorm, Normalize

    norm = LogNorm(*RATIO_ENDS, clip=True) if measure == "ratio" else Normalize(0.0, 1.0)
    mesh = shades(ax, values, norm, RATIO_STOPS if measure == "ratio" else SHARE_STOPS)
    unmeasured = np.isnan(values)
    _hatch(ax, unmeasured)
    lines(ax, names)
    columns(ax, texts)
    _at_right(ax, found.size, [found.sizes[k] for k in chosen])
    meaning = MEANING[measure] + (HATCHED if unmeasured.any() else "")
    scale(ax, mesh, meaning, RATIO_TICKS if measure == "ratio" else None)
    return ax


def sites(model: Any, ax: Axes | None = None) -> Axes:
    """Draw sites by clusters: the share of each site's rows that are in each cluster.

    Parameters
    ----------
    model : Federation or FedMerDel
        A federation or a fitted estimator.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        Rows of each site at the right.
    """
    found = needed_federation(model)
    names, shares = names_of(found), np.array(list(found.site_shares.values()))
    numbered = max(shares.shape) <= MOST_NUMBERS
    ax = axes(
        ax,
        max((0.34 if numbered else LINE) * len(names), 2.4) + text_width(found.sites) + 1.2,
        LINE * len(shares) + 0.72 * text_width(names) + 0.9,
    )
    greatest = float(shares.max())
    from matplotlib.colors import Normalize

    mesh = shades(ax, shares, Normalize(0.0, greatest or 1.0), SHARE_STOPS)
    lines(ax, found.sites)
    columns(ax, names)
    _at_right(ax, "rows", [f"{rows:,.0f}" for rows in found.site_rows.sum(axis=1)])
    if numbered:
        _numbers(ax, shares, greatest)
    scale(ax, mesh, "share of the site's rows")
    return ax


def _hatch(ax: Axes, cells: BoolArray) -> None:
    """Hatch cells that have no number: blank, they would look like 0."""
    from matplotlib.patches import Rectangle

    for line, column in np.argwhere(cells):
        place = (column - 0.5, line - 0.5)
        ax.add_patch(
            Rectangle(place, 1.0, 1.0, fill=False, hatch="/////", edgecolor=FAINT, linewidth=0.0)
        )


def _numbers(ax: Axes, shares: FloatArray, greatest: float) -> None:
    """Write the share into each cell, in per cent; nothing where there are no rows."""
    size = min(fitting(ax, len(shares)), fitting(ax, 2 * shares.shape[1], "x"))
    for (line, column), share in np.ndenumerate(shares):
        if share > 0:
            text = f"{100 * share:.0f}" if share >= 0.005 else "<1"
            ink = on(share_colour(float(share), greatest))
            ax.text(column, line, text, ha="center", va="center", fontsize=size, color=ink)


def _at_right(ax: Axes, heading: str, texts: list[str]) -> None:
    """Write a number at the end of each line, flush right."""
    size = fitting(ax, len(texts))
    wide = 0.64 * size * max(map(len, (heading, *texts))) + 4
    for line, text in enumerate((heading, *texts), start=-1):
        ax.annotate(
            text, (1.0, line), (wide, 0), xycoords=ax.get_yaxis_transform(),
            textcoords="offset points", ha="right", va="center", fontsize=size, color=INK,
            annotation_clip=False,
        )  # fmt: skip


def _order(found: Clusters, clusters: Any) -> list[int]:
    n_clusters = len(found.names)
    if isinstance(clusters, str):
        _check("clusters", clusters, ("size", "alike"))
        by_size = np.argsort(-found.profile.weights, kind="stable")
        return [int(k) for k in (by_size if clusters == "size" else found.profile.alike())]
    numbers = np.asarray(clusters)
    whole = numbers.ndim == 1 and len(numbers) and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 0 or numbers.max() >= n_clusters:
        raise OptionError(
            f"clusters: give 'size', 'alike' or a list of numbers from 0 to {n_clusters - 1}"
        )
    return [int(k) for k in numbers]


def _columns(found: Clusters, first: First) -> list[int]:
    """Return the levels to show in their order, as in the report."""
    shown = np.array(shown_levels(found.codebook))
    if first == "prevalent":
        shown = shown[np.argsort(-found.profile.overall[shown], kind="stable")]  # nan is last
    elif first == "distinguishing":
        offsets = found.codebook.level_offsets
        told = found.profile.information(offsets)
        variable = np.searchsorted(offsets, shown, side="right") - 1
        shown = shown[np.argsort(-told[variable], kind="stable")]
    return [int(at) for at in shown]


def _check(option: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(f"{option}: give one of {', '.join(map(repr, choices))}")
