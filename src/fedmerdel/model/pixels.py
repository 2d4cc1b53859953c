"""Variables as pixels: for tables that are images, such as handwritten digits."""

from __future__ import annotations

import re

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.model.state import ModelState
from fedmerdel.study.conditions import shown_levels
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.predictive import draw


def cluster_images(model: ModelState, shape: tuple[int, int], n_drawn: int) -> FloatArray:
    """Return the mean image of each cluster, and some that it makes up, the same every time.

    Parameters
    ----------
    model : ModelState
        Its variables are pixels, off or on.
    shape : (int, int)
        Lines and columns.
    n_drawn : int
        Images drawn from each cluster.

    Returns
    -------
    float64 array (K, 1 + n_drawn, lines, columns)
        The mean comes first. A pixel that was not measured in the cluster is 0, as is one
        without a variable.

    Raises
    ------
    OptionError
        If variables are no pixels of such an image.
    """
    codebook = model.study.codebook
    at = shown_levels(codebook)
    if (codebook.n_levels != 2).any():
        raise OptionError("image_shape: every variable must have two levels, a pixel's off and on")
    means, rng = model.profile.prevalence[:, at], np.random.default_rng(0)
    measured = ~np.isnan(means)
    found = []
    for k in range(model.n_clusters):
        X, _ = draw(model.sums.take(np.array([k])), model.prior, n_drawn, rng)
        on = measured[k] & (X == np.array(at) - codebook.level_offsets[:-1])
        mean = np.nan_to_num(means[k])
        found.append(as_images(np.vstack([mean, on]), codebook.names, shape))
    return np.array(found)


def as_images(rows: FloatArray, names: tuple[str, ...], shape: tuple[int, int]) -> FloatArray:
    """Return rows of shares as images.

    Parameters
    ----------
    rows : float64 array (N, P)
        A share for each variable.
    names : tuple of str
        The variables. Where each ends in a number, such as ``pixel_37``, that is its place, line
        by line from 0; else they come line by line, and there is one for each pixel.
    shape : (int, int)
        Lines and columns.

    Returns
    -------
    float64 array (N, lines, columns)
        Pixels without a variable are 0.

    Raises
    ------
    OptionError
        If the variables don't fit the shape.
    """
    n_pixels = shape[0] * shape[1]
    ends = [re.search(r"(\d+)$", name) for name in names]
    at = [int(end.group()) for end in ends if end]
    if len(at) < len(names) or len(set(at)) < len(at):
        at = list(range(len(names)))
        if len(names) != n_pixels:
            raise OptionError(
                f"image_shape: {shape[0]} x {shape[1]} has {n_pixels} pixels, and the study has "
                f"{len(names)} variables: end each name in its pixel's number, such as pixel_37"
            )
    if max(at) >= n_pixels:
        raise OptionError(f"image_shape: a variable is pixel {max(at)} of {n_pixels}, from 0")
    images = np.zeros((len(rows), n_pixels))
    images[:, at] = rows
    return images.reshape(len(rows), *shape)
