"""Tables with which a model is checked, as a CSV sheet, and back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.inference.check_counts import N_BINS, CheckCounts, cell_offsets, pair_blocks
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.release.sheets import MISSING, cluster_columns
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.conditions import condition_levels
from fedmerdel.sums.arrays import FloatArray, IntArray

CHECKS = "checks.csv"

LABELS = ["variable", "level", "with", "at"]

BELONGING = "(belonging)"

HISTOGRAMS = ("(conditions)", "(certainty)", "(own)", BELONGING)
"""What the first lines hold, in this order."""


def checks_sheet(codebook: Codebook, checks: CheckCounts) -> str:
    """Return the tables as a sheet."""
    rows = ([*name, number_text(n)] for name, n in sheet_rows(codebook, checks))
    return write_grid([*LABELS, "rows"], rows)


def sheet_rows(
    codebook: Codebook, checks: CheckCounts
) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    """Return what each row of the sheet counts, and the count."""
    cells = cell_offsets(codebook.n_levels, checks.checked)
    parts = [checks.conditions, checks.certainty, checks.own, checks.belonging]
    parts += [checks.pairs[first, second].ravel() for _, _, first, second in pair_blocks(cells)]
    names = _names(codebook, checks.checked, len(checks.own))
    return zip(names, np.concatenate(parts).tolist(), strict=True)


def read_checks(
    data: bytes | None, names: list[str] | None, n_clusters: int, codebook: Codebook
) -> CheckCounts | None:
    """Return the tables of a sheet, of the variables that a document names."""
    if (data is not None) != (names is not None):
        raise FileError(f"file {CHECKS!r} and what is checked don't fit: copy again")
    if data is None or names is None:
        return None
    places = {name: j for j, name in enumerate(codebook.names)}
    known = all(isinstance(name, str) and name in places for name in names)
    if not known or len(set(names)) < len(names):
        raise FileError(f"file {CHECKS!r} is of variables that the codebook does not have")
    checked = tuple(places[name] for name in names)
    found, numbers = read_grid(CHECKS, data, LABELS, ["rows"])
    cells = cell_offsets(codebook.n_levels, checked)
    ends = np.cumsum([len(condition_levels(codebook)) + 1, N_BINS, n_clusters, n_clusters])
    # Before anything is made of the size that a file asks for.
    sizes = np.diff(cells).astype(np.float64)
    if len(found) != ends[-1] + (sizes.sum() ** 2 - (sizes**2).sum()) / 2:
        raise FileError(f"file {CHECKS!r}: it has not as many rows as it should: copy it again")
    check_names(CHECKS, found, [*map(list, _names(codebook, checked, n_clusters))])
    *histograms, left = np.split(numbers[:, 0].copy(), ends)
    present = tuple(condition_levels(codebook))
    return CheckCounts(checked, present, _pairs(left, cells), *histograms)


def _pairs(numbers: FloatArray, cells: IntArray) -> FloatArray:
    pairs, at = np.zeros((int(cells[-1]),) * 2), 0
    for _, _, first, second in pair_blocks(cells):
        shape = (first.stop - first.start, second.stop - second.start)
        pairs[first, second] = numbers[at : at + shape[0] * shape[1]].reshape(shape)
        at += shape[0] * shape[1]
    return pairs


def _names(
    codebook: Codebook, checked: tuple[int, ...], n_clusters: int
) -> Iterator[tuple[str, str, str, str]]:
    numbers = [str(n) for n in range(len(condition_levels(codebook)) + 1)]
    bins = [f"{at / N_BINS:.2f}" for at in range(N_BINS)]
    clusters = cluster_columns(n_clusters)
    for what, levels in zip(HISTOGRAMS, (numbers, bins, clusters, clusters), strict=True):
        for level in levels:
            yield what, level, "", ""
    variables = [codebook.variables[j] for j in checked]
    for a, first in enumerate(variables):
        for second in variables[a + 1 :]:
            both = product((*first.levels, MISSING), (*second.levels, MISSING))
            for one, other in both:
                yield first.name, one, second.name, other
