"""Tables and figures of the results pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

# Okabe and Ito's colours, which colour-blind people can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")


def markdown(header: list[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as Markdown."""
    lines = [header, ["---"] * len(header), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def median_range(values: ArrayLike, digits: int = 3) -> str:
    """Return median [lower, upper quartile], as the paper writes it."""
    low, middle, high = np.quantile(np.asarray(values, dtype=np.float64), (0.25, 0.5, 0.75))
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def mean(values: ArrayLike, digits: int = 3) -> str:
    """Return a mean."""
    return f"{np.mean(np.asarray(values, dtype=np.float64)):.{digits}f}"


def by(rows: pd.DataFrame, *columns: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the rows of each combination of some columns, in the order that they come in."""
    for key, part in rows.groupby(list(columns), sort=False):
        yield (key if isinstance(key, tuple) else (key,)), part


@contextmanager
def figure(
    folder: Path, name: str, draw: Callable[..., Any] | None = None, **options: Any
) -> Iterator[Any]:
    """Give axes to draw on, and write them as ``name.svg``; the same rows give the same file."""
    mpl.use("svg")
    with mpl.rc_context({"svg.hashsalt": "fedmerdel", "font.size": 10}):
        from matplotlib import pyplot as plt

        options = {"figsize": (7, 4), **options}
        drawn, axes = plt.subplots(layout="constrained", **options)
        for each in np.atleast_1d(axes).ravel():
            each.spines[["top", "right"]].set_visible(False)
        yield axes
        drawn.savefig(folder / f"{name}.svg", metadata={"Date": None}, dpi=160)
        plt.close(drawn)
