"""What is expected of each variable's levels before the rows are seen: said in one of five ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from fedmerdel.errors import OptionError
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.prior import LARGEST, SMALLEST, Expected

FIXED = "fixed"
LEARNED = "learned"

_RANGE = f"{SMALLEST:g} to {LARGEST:g}"

_WAYS = (
    "prior: give 'learned', 'fixed', one positive number for all levels, or one for each "
    "variable, or for each level (flat, or a list a variable)"
)


def chosen_way(given: Any, recipe: str, variable_selection: bool) -> Any:
    """Return what was asked for; for None, the recipe's own: the paper's is fixed."""
    if given is None:
        return FIXED if recipe == "paper" or variable_selection else LEARNED
    if variable_selection and isinstance(given, str) and given == LEARNED:
        raise OptionError(
            "prior: 'learned' tells noise from clusters by itself: leave variable_selection out, "
            "or give another prior with it"
        )
    return given


def checked_prior(given: Any, codebook: Codebook) -> Expected:
    """Return one number for each level, in the order of the codebook, or the name given.

    Parameters
    ----------
    given : str, float, or sequence of floats or of sequences
        "fixed" (``1 / L``), "learned", one number for all levels, or one for each
        variable, or one for each level.
    codebook : Codebook
        The variables and their levels.
    """
    if isinstance(given, str):
        if given == FIXED:
            return "fixed"
        if given == LEARNED:
            return "learned"
        raise OptionError(_WAYS)
    n_levels: list[int] = codebook.n_levels.tolist()
    if _is_number(given):
        return tuple([_number(given)] * sum(n_levels))
    # An array of no dimension says that it can be iterated, and can't.
    listed = isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0
    if isinstance(given, Mapping) or not listed:
        raise OptionError(_WAYS)
    parts = list(given)
    if all(_is_number(part) for part in parts):
        if len(parts) == len(n_levels) != sum(n_levels):
            parts = [[part] * n for part, n in zip(parts, n_levels, strict=True)]
        else:
            parts = [parts]
            n_levels = [sum(n_levels)]
    if [_size(part) for part in parts] != n_levels:
        raise OptionError(
            f"prior: give one number for each of the {sum(codebook.n_levels.tolist())} levels, or "
            f"for each of the {len(codebook.n_levels)} variables, in the order of the codebook"
        )
    return tuple(_number(number) for part in parts for number in part)


def _size(part: Any) -> int | None:
    if isinstance(part, (str, Mapping)) or not hasattr(part, "__len__"):
        return None
    return len(part)


def _is_number(value: Any) -> bool:
    # An array of one number in itself, as numpy has them, is a number.
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if not _is_number(value):
        raise OptionError(_WAYS)
    if not SMALLEST <= value <= LARGEST:
        raise OptionError(f"prior: every number must be from {_RANGE}")
    return float(value)


def checked_alpha(value: Any) -> float:
    """Return the Dirichlet parameter of each cluster's weight, or refuse what is none."""
    if not _is_number(value):
        raise OptionError("alpha: give a number")
    if not SMALLEST <= value <= LARGEST:
        raise OptionError(f"alpha: give a number from {_RANGE}")
    return float(value)
