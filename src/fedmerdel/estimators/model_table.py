"""`model_table` compares latent class models with one class, two, three and so on."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.class_starts import bayesian_bound, climb_from_starts
from fedmerdel.fitting.classical import Climb
from fedmerdel.fitting.passes import Workers, count_together
from fedmerdel.options import check_whole, checked_seed, thread_count
from fedmerdel.records.collapse import collapse, find_distinct
from fedmerdel.records.encode import encode
from fedmerdel.records.infer import infer_codebook
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.records.tables import open_table
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import IntArray

Criterion = Literal["aic", "bic", "abic", "icl", "elbo"]

MODEL_CRITERIA = get_args(Criterion)

SAME_NATS, SAME_SHARE = 1e-3, 1e-7
"""Starts have reached the same maximum if their log-likelihoods differ by less than this many
nats, or by less than this share of them."""

SHOWN = {
    "n_classes": "K",
    "log_likelihood": "log-lik",
    "n_parameters": "par",
    "bic": "BIC",
    "abic": "aBIC",
    "icl": "ICL",
    "entropy_r2": "entr",
    "smallest_class": "least",
    "elbo": "ELBO",
    "n_reached": "starts",
}
"""Columns of the printed table: what fits a page. `to_pandas` and `to_csv` have all."""


@dataclass(frozen=True)
class ModelRow:
    """The latent class model of one number of classes.

    Attributes
    ----------
    n_classes : int
        K.
    log_likelihood : float
        The highest log-likelihood of all starts, in nats.
    n_parameters : int
        Free parameters: K - 1 shares, and in each class one less for each variable than the
        levels of it that occur in the table.
    aic, bic, abic, icl : float
        Akaike's criterion, the Bayesian one, the same adjusted for sample size (N + 2) / 24,
        and the integrated classification likelihood, which is the BIC plus twice the
        entropy of the assignments. The lower the better. N is the sum of the weights.
    entropy_r2 : float or None
        1 if every row surely belongs to one class, 0 if rows could be of any. None for K = 1.
    smallest_class : float
        Share of the smallest class.
    elbo : float
        Evidence lower bound of the Bayesian model with K components and `MerDel`'s fixed
        prior, after variational passes from the classes found here. The higher the better.
    n_reached, n_init : int
        Starts that reached the highest log-likelihood, of all.
    converged : bool
        Whether the best start converged.
    seconds : float
        Time taken.
    notes : tuple of str
        What to be wary of.
    """

    n_classes: int
    log_likelihood: float
    n_parameters: int
    aic: float
    bic: float
    abic: float
    icl: float
    entropy_r2: float | None
    smallest_class: float
    elbo: float
    n_reached: int
    n_init: int
    converged: bool
    seconds: float
    notes: tuple[str, ...]


_HEADER = ",".join(field.name for field in fields(ModelRow))


def is_model_table(first: bytes) -> bool:
    """Whether these are the first bytes of what `ModelTable.to_csv` returned."""
    return first.startswith(f"{_HEADER}\n".encode())


@dataclass(frozen=True)
class ModelTable:
    """Latent class models of one table, by number of classes. Prints as a table.

    Attributes
    ----------
    rows : tuple of ModelRow
        One model each, in the order of their classes.
    """

    rows: tuple[ModelRow, ...]

    def best(self, criterion: Criterion = "bic") -> ModelRow:
        """Return the model that a criterion prefers, the smaller of equals.

        Parameters
        ----------
        criterion : {"aic", "bic", "abic", "icl", "elbo"}, default="bic"
            The ELBO is to be high, all others low.
        """
        if criterion not in MODEL_CRITERIA:
            raise OptionError(f"criterion: give one of {', '.join(map(repr, MODEL_CRITERIA))}")
        return self._best_by(criterion)

    def _best_by(self, criterion: str) -> ModelRow:
        sign = -1.0 if criterion == "elbo" else 1.0
        return min(self.rows, key=lambda row: sign * getattr(row, criterion))

    def to_pandas(self) -> Any:
        """Return a pandas frame, one row a model and one column an attribute of `ModelRow`."""
        import pandas as pd

        return pd.DataFrame([asdict(row) | {"notes": "; ".join(row.notes)} for row in self.rows])

    def to_csv(self) -> str:
        """Return the same as the text of a CSV file."""
        lines = [_HEADER]
        for row in self.rows:
            cells = asdict(row) | {"notes": "; ".join(row.notes)}
            # No note holds a comma or a quotation mark.
            lines.append(",".join("" if cell is None else str(cell) for cell in cells.values()))
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        columns = [[title, *self._cells(name)] for name, title in SHOWN.items()]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            " ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in zip_longest(*columns, fillvalue="")
        ]
        lines.append("* the best by this criterion")
        lines += [f"K = {row.n_classes}: {note}" for row in self.rows for note in row.notes]
        return "\n".join(lines)

    def _cells(self, name: str) -> list[str]:
        values = [getattr(row, name) for row in self.rows]
        if name == "n_reached":
            return [f"{row.n_reached}/{row.n_init}" for row in self.rows]
        if name in ("entropy_r2", "smallest_class"):
            return ["-" if value is None else f"{value:.3f}" for value in values]
        if name in ("n_classes", "n_parameters"):
            return [str(value) for value in values]
        digits = 1 if max(abs(value) for value in values) < 1e6 else 0
        if name not in MODEL_CRITERIA:
            return [f"{value:.{digits}f}" for value in values]
        # A column of its own for the mark keeps the numbers aligned.
        best = self._best_by(name).n_classes
        return [
            f"{value:.{digits}f}{'*' if row.n_classes == best else ' '}"
            for row, value in zip(self.rows, values, strict=True)
        ]


def model_table(
    X: Any,
    k: int | Iterable[int] = range(1, 9),
    *,
    n_init: int = 20,
    sample_weight: Any = None,
    tol: float = 1e-9,
    max_iter: int = 5000,
    n_jobs: int | None = None,
    random_state: Any = None,
    codebook: Codebook | None = None,
    verbose: int = 0,
) -> ModelTable:
    """Fit latent class models with given numbers of classes and compare them.

    Each is fitted by maximum likelihood, without a prior, from several starts. `MerDel` finds
    the number by itself; this is the table that shows readers why another was not taken.

    Parameters
    ----------
    X : array, pandas, polars or Arrow table, or path of a CSV or Parquet file
        One row an observation, one categorical column a variable. Missing entries are left
        out of the likelihood, not the row (full-information maximum likelihood).
    k : int or iterable of int, default=range(1, 9)
        Numbers of classes.
    n_init : int, default=20
        Starts for each number: one that the search of `MerDel` finds, the rest drawn.
    sample_weight : array (N,), optional
        Weight of each row; a row of weight 3 counts as three rows, also in the criteria.
        Survey weights should therefore have mean 1.
    tol : float, default=1e-9
        A start has converged when five accelerated steps together add less than this many
        nats per row.
    max_iter : int, default=5000
        Most passes over the rows for each start.
    n_jobs : int or None, default=None
        Threads for the starts; None is 1, -1 is one for each core. The result does not
        depend on it.
    random_state : int, RandomState or None, default=None
        A number gives the same result every time, for each number of classes whatever
        others are asked for.
    codebook : Codebook or None, default=None
        Variables and levels. None takes them from the table.
    verbose : int, default=0
        1 shows how far it is.

    Returns
    -------
    ModelTable
        One row for each number of classes.

    Raises
    ------
    OptionError
        If an option has a value outside what it takes.
    DataError
        If it is no table of categories.

    Examples
    --------
    >>> from fedmerdel import model_table, simulate
    >>> table = simulate(1000, n_variables=30, n_clusters=3, random_state=1)
    >>> models = model_table(table.X, k=range(1, 6), random_state=1)
    >>> models.best("bic").n_classes
    3
    """
    numbers = _checked_numbers(k)
    check_whole("n_init", n_init, at_least=1)
    check_whole("max_iter", max_iter, at_least=1)
    check_whole("verbose", int(verbose) if isinstance(verbose, bool) else verbose, at_least=0)
    if not isinstance(tol, Real) or isinstance(tol, bool) or not 0 < tol < float("inf"):
        raise OptionError("tol: give a number above 0")
    if not isinstance(codebook, Codebook | None):
        raise OptionError("codebook: give a Codebook or None")
    n_threads = thread_count(n_jobs)
    seed = int(checked_seed(random_state).randint(2**31 - 1))
    table = open_table(X)
    book = codebook if codebook is not None else infer_codebook(table)
    rows = encode(table, book, sample_weight, owner="model_table")
    if not rows.weights.all():
        rows = rows.take(np.flatnonzero(rows.weights))
    rows = repack(collapse(rows)[0])
    total = float(rows.weights.sum())
    n_levels = _levels_that_occur(rows)
    _, firsts = find_distinct(rows.codes)
    found = []
    for n_classes in _shown(numbers, verbose):
        began = time.perf_counter()
        seeds = np.random.SeedSequence([seed, n_classes]).spawn(n_init)
        climbs = climb_from_starts(rows, n_classes, seeds, tol * total, max_iter, n_threads)
        best = max(climbs, key=lambda climb: climb.found.log_likelihood)
        with Workers(n_threads) as workers:
            bound = bayesian_bound(rows, best.found.stats, tol * total, max_iter, workers)
        taken = time.perf_counter() - began
        found.append(_row(climbs, best, n_levels, total, len(firsts), bound, taken))
    return ModelTable(tuple(found))


def _row(
    climbs: list[Climb],
    best: Climb,
    n_levels: IntArray,
    total: float,
    n_distinct: int,
    bound: float,
    seconds: float,
) -> ModelRow:
    """Work out the criteria of the best of all climbs."""
    fit = best.found.log_likelihood
    sizes = best.found.stats.T
    K = len(sizes)
    n_parameters = K - 1 + K * int((n_levels - 1).sum())
    bic = n_parameters * float(np.log(total)) - 2.0 * fit
    entropy = max(0.0, -float(best.found.stats.h.sum()))
    least = fit - max(SAME_NATS, SAME_SHARE * abs(fit))
    n_reached = sum(climb.found.log_likelihood >= least for climb in climbs)
    doubts = {
        "not converged: raise max_iter": not best.converged,
        "one start only reached this likelihood: raise n_init": n_reached == 1 < len(climbs),
        "more classes than distinct rows": K > n_distinct,
        # As many as the frequencies of all possible rows, or the rows, are free to tell.
        "more parameters than the table can tell": n_parameters
        > min(float(np.prod(n_levels.astype(np.float64))) - 1.0, total),
        "a class holds less than one row": K > 1 and float(sizes.min()) < 1.0,
    }
    return ModelRow(
        n_classes=K,
        log_likelihood=fit,
        n_parameters=n_parameters,
        aic=2.0 * n_parameters - 2.0 * fit,
        bic=bic,
        abic=n_parameters * float(np.log((total + 2.0) / 24.0)) - 2.0 * fit,
        icl=bic + 2.0 * entropy,
        entropy_r2=1.0 - entropy / (total * float(np.log(K))) if K > 1 else None,
        smallest_class=float(sizes.min() / total),
        elbo=bound,
        n_reached=n_reached,
        n_init=len(climbs),
        converged=best.converged,
        seconds=seconds,
        notes=tuple(note for note, holds in doubts.items() if holds),
    )


def _levels_that_occur(rows: PackedRows) -> IntArray:
    """Count the levels of each variable that some row has, at least 1."""
    with Workers() as workers:
        S = count_together(rows, workers).S[0]
    occur = np.add.reduceat((S > 0).astype(np.int64), rows.packing.level_offsets[:-1])
    return np.maximum(occur, 1)


def _checked_numbers(k: Any) -> list[int]:
    """Return the numbers of classes in order, each once."""
    given = list(k) if isinstance(k, Iterable) and not isinstance(k, str) else [k]
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in given)
    if not given or not whole or min(int(n) for n in given) < 1:
        raise OptionError("k: give whole numbers of classes of at least 1, such as range(1, 9)")
    return sorted({int(n) for n in given})


def _shown(numbers: list[int], verbose: int) -> Iterable[int]:
    if not verbose:
        return numbers
    from rich.progress import track

    return track(numbers, description="models")
