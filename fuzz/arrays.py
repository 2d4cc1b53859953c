"""Objects with one of their arrays or numbers changed, and written as if they were right.

What guards a file (sums that must fit, hashes) is computed from the changed numbers, so these get
further than edits of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import numpy as np

EDITS = (
    *("one", "one", "one", "all", "scale", "row", "longer", "shorter", "transpose", "zero"),
    *("twice", "plus", "order", "tiny", "round"),
)
VALUES = (
    *(np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 1e-300, 5e-324, 0.5, 1.0, 1e15, 1e16, 1e100),
    *(1e154, 1e155, 1e200, 1e300, 1.7e308, -1e-9, -1e300, 2.0**53 + 2),
)


def edit_object(thing: Any, rng: Random) -> tuple[Any, str]:
    """Return a copy with one array or number changed, and what was done to which."""
    places = list(_places(thing))
    path = rng.choice(places)
    value = _at(thing, path)
    new, what = _edited(value, rng)
    return _put(thing, path, new), f"object: {what} of {'.'.join(map(str, path))}"


def _places(thing: Any, path: tuple[Any, ...] = ()) -> Any:
    if isinstance(thing, np.ndarray | int | float) and not isinstance(thing, bool):
        yield path
    elif is_dataclass(thing):
        for field in fields(thing):
            if field.name not in ("study", "codebook"):
                yield from _places(getattr(thing, field.name), (*path, field.name))
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _places(value, (*path, key))
    elif isinstance(thing, tuple):
        for at, value in enumerate(thing):
            yield from _places(value, (*path, at))


def _at(thing: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        thing = getattr(thing, part) if is_dataclass(thing) else thing[part]
    return thing


def _put(thing: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if is_dataclass(thing):
        changed = copy(thing)
        names = {field.name for field in fields(thing)}
        for known in list(vars(changed)):  # what was computed before, such as a hash
            if known not in names:
                object.__delattr__(changed, known)
        object.__setattr__(changed, first, _put(getattr(thing, first), rest, value))
        return changed
    if isinstance(thing, Mapping):
        return {**thing, first: _put(thing[first], rest, value)}
    parts = list(thing)
    parts[first] = _put(thing[first], rest, value)
    return type(thing)(*parts) if hasattr(thing, "_fields") else tuple(parts)


def _edited(value: Any, rng: Random) -> tuple[Any, str]:
    new, what = rng.choice(VALUES), rng.choice(EDITS)
    if not isinstance(value, np.ndarray):
        if isinstance(value, int):
            return rng.choice((0, -1, value + 1, 10**6, 2**31, 2**53, 10**24)), "a number"
        return new, f"{new} in place"
    if value.dtype == np.bool_:
        return ~value, "the opposite"
    array = value.astype(np.float64)
    if array.size == 0 or what == "longer":
        return np.concatenate([array, array[:1]]), "one more"
    if what == "one":
        array.flat[rng.randrange(array.size)] = new
    elif what == "all":
        array[...] = new
    elif what == "scale":
        with np.errstate(over="ignore", invalid="ignore"):
            array = array * new
    elif what == "row":
        array[rng.randrange(len(array))] = new
    elif what == "shorter":
        array = array[:-1]
    elif what == "transpose":
        array = np.ascontiguousarray(array.T[::-1])
    elif what == "twice":
        array = array * rng.choice((2.0, 5.0, 1e6, 1e12))
    elif what == "plus":
        array.flat[rng.randrange(array.size)] += rng.choice((5.0, -5.0, 1.0, 1e-9, 1000.0))
    elif what == "order":
        array = array[::-1].copy()
    elif what == "tiny":
        array = array * 1e-12
    elif what == "round":
        array = np.round(array)
    else:
        array[...] = 0.0
    return array, f"{what} {new}"
