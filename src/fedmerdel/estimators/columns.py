"""What both estimators tell scikit-learn of the tables that they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fedmerdel.records.tables import Table
from fedmerdel.study.codebook import Missing


class CategoricalColumns:
    """Mixin of an estimator whose columns hold categories; before scikit-learn's classes."""

    missing: Missing
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def _note_columns(self, X: Any, table: Table, *, reset: bool) -> None:
        """Let scikit-learn note, or check, the number and names of the columns."""
        if not isinstance(X, (str, Path)):
            columns: Any = np.empty((1, table.n_columns))
            if table.named:  # an empty frame will do: X may be lazy, or unknown to scikit-learn
                import pyarrow as pa

                columns = pa.table({name: [] for name in table.names})
            validate_data(self, columns, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = table.n_columns
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags
