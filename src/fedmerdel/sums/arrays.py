"""The arrays that every formula works on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def plain_numbers(content: Any) -> FloatArray:
    """Return an array of numbers in lists, as a file has them.

    Raises
    ------
    ValueError
        If they are no numbers: numpy alone takes texts for numbers, and nothing for NaN.
    """
    found = np.array(content)
    if found.dtype.kind not in "iuf" or not isinstance(content, list):
        raise ValueError("no list of numbers")
    return found.astype(np.float64)


def plain_whole_numbers(content: Any) -> IntArray:
    """Return an array of whole numbers in a list; see `plain_numbers`."""
    found = np.array(content, dtype=np.int64) if content == [] else np.array(content)
    if found.dtype.kind != "i" or not isinstance(content, list):
        raise ValueError("no list of whole numbers")
    return found.astype(np.int64)


def plain_number(content: Any) -> float:
    """Return a number, and refuse what Python only takes for one, such as a text or true."""
    if type(content) not in (int, float):
        raise ValueError("no number")
    return float(content)


def plain_whole(content: Any) -> int:
    """Return a whole number; see `plain_number`."""
    if type(content) is not int:
        raise ValueError("no whole number")
    return int(content)
