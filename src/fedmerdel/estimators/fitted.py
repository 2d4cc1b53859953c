"""What both estimators do once they are fitted: predict, score, save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fedmerdel import saved
from fedmerdel.estimators.checking import check_table
from fedmerdel.estimators.columns import CategoricalColumns
from fedmerdel.fitting.passes import Workers, label_rows, log_evidence, responsibilities
from fedmerdel.model.checks import Checks
from fedmerdel.options import thread_count
from fedmerdel.records.encode import encode
from fedmerdel.records.missing import check_complete, guide_columns, with_guides
from fedmerdel.records.packing import PackedRows
from fedmerdel.records.tables import Table, open_table
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.predictive import predictive
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

Reading = Callable[[Sums, Prior], Expectations]
Work = Callable[[PackedRows, Expectations, Workers], NDArray[Any]]


class FittedClusters(CategoricalColumns, ABC):
    """Mixin of an estimator that has sums of clusters and their prior once it is fitted."""

    n_jobs: int | None
    codebook_: Codebook
    n_clusters_: int

    @abstractmethod
    def _clusters(self) -> tuple[Sums, Prior]:
        """Return the clusters, and the prior under which rows are given to them."""

    def predict(self, X: Any) -> IntArray:
        """Return the most probable cluster of each row."""
        found: IntArray = self._given(X, expectations, label_rows)
        return found

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each cluster for each row: (N, K)."""
        found: FloatArray = self._given(X, expectations, responsibilities)
        return found

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log posterior predictive probability of each row."""
        found: FloatArray = self._given(X, predictive, log_evidence)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`; the higher the better. `y` is ignored."""
        return float(np.mean(self.score_samples(X)))

    def checks(self, X: Any, *, pairs: Sequence[str] = (), sample_weight: Any = None) -> Checks:
        """Check whether the clusters explain a table, such as that of the fit.

        Parameters
        ----------
        X : array, pandas, polars or Arrow table, or path of a CSV or Parquet file
            The rows.
        pairs : sequence of str
            Variables of which each two are looked at. Empty takes all, or as many as make
            20,000 cells, in the order of `codebook_`.
        sample_weight : array (N,), optional
            Weight of each row; with weights no chances are given.

        Returns
        -------
        Checks
            Numbers of conditions, residuals of pairs, how sure rows are; prints as text.
        """
        rows = self._rows(X, sample_weight)
        stats, row_prior = self._clusters()
        with self._workers() as workers:
            return check_table(
                rows, pairs, stats, self._level_prior(), row_prior, self.codebook_, workers
            )

    def _level_prior(self) -> Prior:
        """Return the prior under which clusters are described."""
        return self._clusters()[1]

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file that people can read, without any row or label.

        It holds the counts of each cluster, which for very small clusters tell as much as
        the rows do: treat the file as you treat the table.

        Parameters
        ----------
        path : str or Path
            A saved estimator of that name is replaced once the new one is complete; any other
            file stays, and is refused.
        """
        check_is_fitted(self)
        saved.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model written by `save`. It predicts as before.

        Not kept are what belongs to the fit (labels, record and history), an `init` of
        labels, a `random_state` other than a number, `n_jobs` and `verbose`.
        """
        return saved.load(cls, path)

    def _given(self, X: Any, read: Reading, work: Work) -> NDArray[Any]:
        """Return what some work brings for each row of a table, with what it reads of clusters."""
        rows = self._rows(X)
        with self._workers() as workers:
            return work(rows, read(*self._clusters()), workers)

    def _rows(self, X: Any, sample_weight: Any = None) -> PackedRows:
        table = self._variables(self._table(X))
        return encode(table, self.codebook_, sample_weight, owner=type(self).__name__)

    def _table(self, X: Any) -> Table:
        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", None)
        table = with_guides(open_table(X), self.codebook_, columns)
        self._note_columns(X, table, reset=False)
        if self.missing == "error":
            check_complete(table, guide_columns(table, self.codebook_))
        return table

    def _variables(self, table: Table) -> Table:
        """Return the columns that are variables of the clusters."""
        return table

    def _workers(self) -> Workers:
        return Workers(thread_count(self.n_jobs))
