"""Variables of which a study asks to be told each two together."""

from __future__ import annotations

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.study.codebook import Codebook

FIRST_CELLS = 20_000
"""Cells of the tables of pairs that a study asks for which names no variables."""

MOST_CELLS = 200_000
"""Cells that a study may ask for: more than anyone looks through."""


def paired_names(codebook: Codebook, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that are paired: those named, or the first ones."""
    if named:
        return named
    # Adding a variable adds its cells times those of all before it.
    sizes = codebook.n_levels.astype(np.float64) + 1
    cells = np.cumsum(sizes * (np.cumsum(sizes) - sizes))
    return codebook.names[: int((cells <= FIRST_CELLS).sum())]


def check_paired(codebook: Codebook, checks: bool, named: tuple[str, ...]) -> None:
    """Refuse names of variables to pair that can't be."""
    if not named:
        return
    if not checks:
        raise OptionError("check_pairs: it is for checks = true only: leave it out")
    places = dict(zip(codebook.names, codebook.n_levels, strict=True))
    for name in named:
        if name not in places:
            raise OptionError(f"check_pairs: the codebook has no variable {name!r}")
    sizes = np.array([places[name] + 1.0 for name in named])
    if len(named) < 2:
        raise OptionError("check_pairs: name two variables at least")
    if (sizes.sum() ** 2 - (sizes**2).sum()) / 2 > MOST_CELLS:
        raise OptionError(f"check_pairs: more than {MOST_CELLS:,} cells: name fewer variables")
