"""The checks of a fitted estimator, from a table at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.passes import Workers
from fedmerdel.model.checking import Checked, make_checks
from fedmerdel.model.checks import Checks
from fedmerdel.records.packing import PackedRows
from fedmerdel.site.check_rows import count_checks
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.pairs import check_paired, paired_names
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def check_table(
    rows: PackedRows,
    pairs: Sequence[str],
    stats: Sums,
    prior: Prior,
    row_prior: Prior,
    codebook: Codebook,
    workers: Workers,
) -> Checks:
    """Check clusters against rows, by exact counts.

    Parameters
    ----------
    rows : PackedRows
        The rows.
    pairs : sequence of str
        Variables of which each two are looked at; empty takes the first ones.
    stats, prior, row_prior, codebook
        The clusters; see `make_checks`.
    workers : Workers
        The threads to work with.
    """
    if isinstance(pairs, str) or not all(isinstance(name, str) for name in pairs):
        raise OptionError("pairs: give a list of names")
    try:
        check_paired(codebook, True, tuple(pairs))
    except OptionError as error:
        raise OptionError(str(error).removeprefix("check_")) from None
    names = paired_names(codebook, tuple(pairs))
    checked = tuple(codebook.names.index(name) for name in names)
    counts = count_checks(rows, expectations(stats, row_prior), codebook, checked, workers)
    noise = np.zeros_like(counts.pairs), np.zeros_like(counts.conditions)
    weighted = bool((rows.weights != 1).any())
    return make_checks(Checked(counts, *noise, weighted), stats, prior, row_prior, codebook)
