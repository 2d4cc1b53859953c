"""Pictures of the digits: in clusters, made up, before and after preprocessing, and alike ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.data import mnist, original_digits, shrink
from experiments.methods.face import Labels
from experiments.tables import figure
from fedmerdel import FedMerDel

SIDE = 16
N_SHOWN = 10
ALIKE = (4, 7, 9)


def draw_clusters(model: FedMerDel, X: NDArray[Any], digits: Labels, folder: Path) -> None:
    """Draw the digits in each cluster of one fit, and rows and made-up rows of each."""
    labels, K = model.labels_, model.n_clusters_
    table = np.zeros((10, K))
    np.add.at(table, (digits, labels), 1)
    order = np.argsort(table.argmax(axis=0), kind="stable")
    share = table / table.sum(axis=1, keepdims=True)
    with figure(folder, "mnist-heatmap", figsize=(10, 4)) as axes:
        axes.imshow(share[:, order], cmap="Blues", aspect="auto")
        for digit in range(10):
            for at, k in enumerate(order):
                made_of = 100 * table[digit, k] / table[:, k].sum()
                if made_of >= 5:
                    colour = "white" if share[digit, k] > share.max() / 2 else "black"
                    axes.text(at, digit, f"{made_of:.0f}", ha="center", va="center", fontsize=6,
                              color=colour)  # fmt: skip
        axes.set(yticks=range(10), ylabel="digit", xlabel="cluster; numbers: % of the cluster",
                 xticks=[])  # fmt: skip
    _draw_digits(model, X, labels, order, folder)


def _draw_digits(
    model: FedMerDel, X: NDArray[Any], labels: Labels, order: NDArray[Any], folder: Path
) -> None:
    pixels = mnist()[2]
    rng = np.random.default_rng(0)
    made, of = model.model_.sample(4000, random_state=0)
    shown = np.zeros((5, len(order), SIDE * SIDE))
    for at, k in enumerate(order):
        mine = rng.choice(np.flatnonzero(labels == k), 3)
        drawn = np.flatnonzero(of == k)[:2]
        images = [X[i] for i in mine] + [made[i].astype(np.int64) for i in drawn]
        shown[: len(images), at, pixels] = images
    with figure(folder, "mnist-digits", figsize=(0.42 * len(order), 2.4)) as axes:
        axes.imshow(_side_by_side(shown.reshape(*shown.shape[:2], SIDE, SIDE)), cmap="Greys")
        axes.set(xticks=[], yticks=[25, 68], xlabel="clusters")
        axes.set_yticklabels(["three rows", "two drawings"])


def draw_preprocessing(folder: Path) -> None:
    """Draw ten digits as they are, shrunk, and as zeros and ones."""
    images, digits = original_digits()
    first = [int(np.flatnonzero(digits == digit)[0]) for digit in range(N_SHOWN)]
    small = shrink(images[first], SIDE)
    stages = {"28 x 28": images[first], "16 x 16": small, "0 and 1": small >= 0.5}
    with figure(folder, "mnist-preprocessing", nrows=3, figsize=(7, 2.6)) as axes:
        for each, (title, row) in zip(axes, stages.items(), strict=True):
            each.imshow(_side_by_side(row[None].astype(np.float64)), cmap="Greys", vmin=0, vmax=1)
            each.set(xticks=[], yticks=[], ylabel=title)
            each.spines[:].set_visible(False)
            each.yaxis.label.set(rotation=0, ha="right", va="center")


def draw_alike(folder: Path) -> None:
    """Draw digits at random of those that are hard to tell apart."""
    images, digits = original_digits()
    rng = np.random.default_rng(0)
    shown = np.stack(
        [images[rng.choice(np.flatnonzero(digits == digit), N_SHOWN, replace=False)]
         for digit in ALIKE]
    )  # fmt: skip
    with figure(folder, "mnist-479", figsize=(7, 2.4)) as axes:
        axes.imshow(_side_by_side(shown), cmap="Greys")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)


def _side_by_side(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a picture of (lines, columns) of square images, with a gap between them."""
    lines, columns, side, _ = images.shape
    spaced = np.zeros((lines, columns, side + 1, side + 1))
    spaced[:, :, :side, :side] = images
    return spaced.swapaxes(1, 2).reshape(lines * (side + 1), columns * (side + 1))
