"""Names that people give to clusters: what a name may be, and what becomes of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.sums.arrays import IntArray

LONGEST = 80
"""Characters of a name."""

# Control characters, halves of characters that no file can hold, and ends of lines and paragraphs.
UNSEEN = {"Cc", "Cs", "Zl", "Zp"}


def plain_name(k: int) -> str:
    """Return what a cluster is called that has no name."""
    return f"cluster {k}"


def name_of(names: tuple[str, ...], n_clusters: int, k: int) -> str:
    """Return the name of a cluster, or what it is called without one."""
    k = _number(k, n_clusters)
    return (names[k] if names else "") or plain_name(k)


def changed(names: tuple[str, ...], n_clusters: int, given: Mapping[int, str]) -> tuple[str, ...]:
    """Return the names with some given anew, one for each cluster; `checked` looks at them."""
    if not isinstance(given, Mapping):
        raise OptionError("names: give a dict of cluster numbers to names, such as {3: 'Stroke'}")
    following = list(names or [""] * n_clusters)
    for k, name in given.items():
        following[_number(k, n_clusters)] = name
    return tuple(following)


def checked(names: Any, n_clusters: int) -> tuple[str, ...]:
    """Return one name for each cluster, "" where it has none, or nothing if none has any.

    Raises
    ------
    OptionError
        If there are more or fewer, or one can't be a name.
    """
    if not isinstance(names, tuple | list) or len(names) not in (0, n_clusters):
        raise OptionError(f"names: give a text for each of the {n_clusters} clusters, or none")
    clean = tuple(_clean(k, name) for k, name in enumerate(names))
    first: dict[str, int] = {}
    for k, name in enumerate(clean):
        if name and first.setdefault(name, k) != k:
            raise OptionError(
                f"cluster {k}: cluster {first[name]} has the same name: give one of them another"
            )
    return clean if any(clean) else ()


def carried(names: tuple[str, ...], parents: IntArray) -> tuple[str, ...]:
    """Return the names of clusters made from named ones.

    Parameters
    ----------
    names : tuple of str
        Of the clusters before.
    parents : int64 array (K,)
        The one that each new cluster was made from. Where several were made from one, the
        first of them has the name: put the largest first.
    """
    if not names:
        return ()
    _, first = np.unique(parents, return_index=True)
    heirs = set(first.tolist())
    return tuple(names[k] if at in heirs else "" for at, k in enumerate(parents.tolist()))


def _number(k: Any, n_clusters: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise OptionError("names: clusters are given by their whole numbers, such as 3")
    if not 0 <= k < n_clusters:
        raise OptionError(
            f"cluster {k}: not in the model, which has {n_clusters}: give a number from 0 to "
            f"{n_clusters - 1}"
        )
    return int(k)


def _clean(k: int, name: Any) -> str:
    """Return a name without spaces around it, and refuse what is none."""
    if not isinstance(name, str):
        raise OptionError(f"cluster {k}: its name is no text: give a text, or '' for no name")
    if any(unicodedata.category(character) in UNSEEN for character in name):
        raise OptionError(
            f"cluster {k}: its name has line breaks or control characters: leave them out"
        )
    name = name.strip()
    if len(name) > LONGEST:
        raise OptionError(
            f"cluster {k}: its name has {len(name)} characters: shorten it to {LONGEST}"
        )
    if re.fullmatch(r"cluster\s+\d+", name, re.IGNORECASE):
        # Clusters change places, and this one would go by another's number.
        raise OptionError(
            f"cluster {k}: its name is that of a cluster without one: choose another, or ''"
        )
    return str(name)
