"""How the ELBO rose: over merges, rounds, or the passes of one fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.centre.origins import elbo_over_merges, elbo_over_rounds
from fedmerdel.centre.state import FederationState
from fedmerdel.errors import OptionError
from fedmerdel.plot.canvas import TEXT, axes, bare
from fedmerdel.plot.subject import either, needed_federation
from fedmerdel.report.colours import CYCLE
from fedmerdel.sums.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 60
"""Points of a line that are marked."""


def elbo(model: Any, *, seconds: bool = False, ax: Axes | None = None) -> Axes:
    """Draw how the ELBO rose.

    Parameters
    ----------
    model : Federation, FedMerDel or MerDel
        Of a federation: over its rounds; after one shot over its merges, the greatest gain
        first, from all local clusters apart to the model. Of a `MerDel`: over what its fit kept.
    seconds : bool, default=False
        Of a `MerDel`: against time.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        In nats.
    """
    if either(model) is not None:
        if seconds:
            raise OptionError("seconds: of a fitted MerDel only, which takes the time")
        x, y, meaning = _of_federation(needed_federation(model))
    elif hasattr(model, "lower_bounds_"):
        y = np.asarray(model.lower_bounds_)
        x = np.asarray(model.lower_bound_seconds_) if seconds else np.arange(1.0, len(y) + 1)
        meaning = "seconds" if seconds else "passes and moves that were kept"
    else:
        raise OptionError("model: a MerDel that was loaded has no ELBOs of its fit: fit it again")
    ax = axes(ax, 4.8, 2.8)
    ax.plot(
        x, y, color=CYCLE[0], linewidth=1.4, marker="o" if len(y) <= MOST_POINTS else "",
        markersize=3.5, markeredgewidth=0,
    )  # fmt: skip
    if len(y) == 1:  # one site, and nothing to merge
        ax.set_xlim(x[0] - 1, x[0] + 1)
    bare(ax, "bottom", "left")
    _whole_numbers(ax, y, not seconds)
    ax.set_xlabel(meaning, fontsize=TEXT)
    ax.set_ylabel("ELBO in nats", fontsize=TEXT)
    return ax


def _of_federation(federation: FederationState) -> tuple[FloatArray, FloatArray, str]:
    if federation.record:
        meaning, (x, y) = "round", elbo_over_rounds(federation.record)
    else:
        meaning = "merges of local clusters"
        x, y = elbo_over_merges(federation.lower_bound, federation.joins())
    if not y:
        raise OptionError("model: the ELBO is known after none of its rounds")
    return np.array(x, dtype=np.float64), np.array(y), meaning


def _whole_numbers(ax: Axes, y: FloatArray, whole: bool) -> None:
    """Write numbers out: an offset at the end of an axis is easily missed."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    span = float(np.ptp(y))
    digits = 0 if span == 0 or span >= 8 else int(np.ceil(np.log10(8 / span)))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(StrMethodFormatter(f"{{x:,.{digits}f}}"))
    if whole:
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
