"""Figures and Axes that a notebook shows when they are the last expression of a cell.

A notebook asks an object for ``_repr_png_``, which matplotlib's own don't have: it shows the
figures that pyplot keeps, and pyplot keeps each until somebody closes it. These it shows without
pyplot, and only once where pyplot is in use. This module needs matplotlib, so it is imported
where a figure is made.
"""

from __future__ import annotations

from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that belongs to who holds it, and that a notebook shows."""

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        self.savefig(png, format="png", dpi="figure")  # savefig.dpi may be one for print
        return png.getvalue()


class NotebookAxes(Axes):
    """Axes that a notebook shows as the figure that they are on."""

    def _repr_png_(self) -> bytes | None:
        figure = self.figure
        return figure._repr_png_() if isinstance(figure, NotebookFigure) else None
