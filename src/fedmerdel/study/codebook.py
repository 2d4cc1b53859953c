"""The codebook: which variables a study has, and the levels of each.

A level is kept as canonical text, whatever the table it came from: whole numbers
(also when stored as floats) as ``"0"``, ``"3"``, ``"-1"``; booleans as ``"false"`` and
``"true"``; text as it is. The ``kind`` says which Python values the levels stand for.

When a table is encoded against a codebook, an entry fits the level that has its
canonical text. So the text ``"1"`` and the float ``1.0`` both fit the whole number 1.
Beyond that, false fits ``"0"`` and true fits ``"1"`` wherever either the column or the
variable is boolean, and the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, OptionError
from fedmerdel.texts import is_seen

Kind = Literal["integer", "boolean", "text"]
Value = int | bool | str

Missing = Literal["ignore", "level", "error"]
"""What missing entries are: left out of the likelihood, a level of their own, or refused."""

MISSING_LEVEL = "(missing)"
"""The name of the level that missing entries have, where they have one."""

MAX_LEVELS = 255
"""Levels of one variable: the states of a byte, less one that is kept for missing."""

HEAVIEST = 1.0
"""The greatest weight of a guide. Above, clusters of its levels alone would always pay: they gain
the weight times the entropy of the outcome a row, and cost that entropy once."""

WEIGHT = f"give a weight above 0, and {HEAVIEST:g} at most"
"""What to say of a weight that is none."""

UNSEEN = "holds control characters, or others that nobody sees: write it again"
"""What is wrong with a text that could change what a screen shows."""

BOOLEANS = {"false": False, "true": True}
"""The texts that stand for the two booleans."""

# Wider numbers could not be held in an array of int64, as `decode` returns.
_INT64 = range(-(2**63), 2**63)

_ENTRIES = {"name", "kind", "levels"}


def level_text(value: object) -> str:
    """Return the canonical text of one value.

    Parameters
    ----------
    value : bool, int, float or str
        Any other object is turned into text as ``str`` does (bands of `pandas.cut`).
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def level_number(text: str) -> int | None:
    """Return the whole number of which this is the canonical text, if it is one."""
    digits = text.removeprefix("-")
    # isdecimal alone takes digits of other scripts, and int() takes "01" and "-0".
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        return None
    number = int(text)
    return number if number in _INT64 and str(number) == text else None


def is_weight(value: Any) -> bool:
    """Whether a guide can have this weight."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and bool(0 < value <= HEAVIEST)


@dataclass(frozen=True)
class Variable:
    """One categorical variable.

    Parameters
    ----------
    name : str
        Name of its column.
    levels : tuple of str
        Canonical text of each level; the order numbers the levels.
    kind : {"integer", "boolean", "text"}
        The Python values that the levels stand for.
    missing_level : bool, default=False
        The last level is that of missing entries, named ``"(missing)"``. (A text variable
        may have a level of this name without that: then it is a text like others.)
    guide : float or None, default=None
        For an outcome that helps to find the clusters: its weight, above 0 to 1, which is that of
        a variable. Entries may always be missing, and new rows need no such column.
    """

    name: str
    levels: tuple[str, ...]
    kind: Kind
    missing_level: bool = False
    guide: float | None = None

    def __post_init__(self) -> None:
        """Refuse what no table could be encoded with."""
        if not isinstance(self.name, str):
            raise DataError("codebook: the name of a variable must be text")
        where = f"codebook: variable {self.name!r}"
        if self.kind not in get_args(Kind):
            raise DataError(f"{where}: its kind must be 'integer', 'boolean' or 'text'")
        if not isinstance(self.levels, tuple) or not all(isinstance(t, str) for t in self.levels):
            raise DataError(f"{where}: its levels must be a tuple of texts")
        if not isinstance(self.missing_level, bool):
            raise DataError(f"{where}: missing_level must be true or false")
        if self.missing_level and self.levels[-1:] != (MISSING_LEVEL,):
            raise DataError(f"{where}: its last level must be {MISSING_LEVEL!r}")
        if not self.observed:
            raise DataError(f"{where} has no levels: list at least one, or leave it out")
        if len(self.observed) > MAX_LEVELS:
            raise DataError(
                f"{where} has {len(self.observed)} levels, and at most {MAX_LEVELS} are possible: "
                "group rare levels into one"
            )
        if len(set(self.levels)) < len(self.levels):
            raise DataError(f"{where} lists a level twice: list each once")
        if self.kind == "integer" and any(level_number(t) is None for t in self.observed):
            raise DataError(
                f"{where}: levels of an integer variable must be whole numbers of 64 bits, "
                "written like '0', '3' or '-1'"
            )
        if self.kind == "boolean" and not set(self.observed) <= BOOLEANS.keys():
            raise DataError(f"{where}: levels of a boolean variable are 'false' and 'true'")
        if "" in self.levels:
            raise DataError(f"{where} has an empty level: empty entries count as missing")
        if self.guide is not None:
            if not is_weight(self.guide):
                raise DataError(f"{where}: guide: {WEIGHT}")
            if self.missing_level:
                raise DataError(f"{where} is a guide: its missing entries can't be a level")
            object.__setattr__(self, "guide", float(self.guide))

    @classmethod
    def from_values(cls, name: str, values: Iterable[object]) -> Variable:
        """Make a variable from its values in the order of their levels.

        The kind is boolean or integer if all values are (whole floats count as
        integers), and text otherwise.
        """
        listed = list(values)
        texts = tuple(dict.fromkeys(level_text(value) for value in listed))
        kind: Kind = "text"
        if listed and all(isinstance(value, (bool, np.bool_)) for value in listed):
            kind = "boolean"
        elif not any(isinstance(value, (str, bool, np.bool_)) for value in listed) and all(
            level_number(text) is not None for text in texts
        ):
            kind = "integer"
        return cls(name, texts, kind)

    @property
    def observed(self) -> tuple[str, ...]:
        """The levels that entries can have which are not missing."""
        return self.levels[:-1] if self.missing_level else self.levels

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The Python value of each observed level: int, bool or str by the variable's kind."""
        if self.kind == "integer":
            return tuple(int(text) for text in self.observed)
        if self.kind == "boolean":
            return tuple(BOOLEANS[text] for text in self.observed)
        return self.observed

    def with_missing_level(self) -> Variable:
        """Return the variable with a level for missing entries, if it has none yet.

        Not of a guide: that an outcome is not known yet is no sign of a cluster.
        """
        if self.missing_level or self.guide is not None:
            return self
        if MISSING_LEVEL in self.levels:
            raise DataError(
                f"codebook: variable {self.name!r} has a level {MISSING_LEVEL!r} of its own: make "
                "these entries empty, or give the level another name"
            )
        return replace(self, levels=(*self.levels, MISSING_LEVEL), missing_level=True)

    def called(self, label: str) -> str:
        """Return what a picture calls it, by its label: a guide is always said to be one."""
        return label if self.guide is None else f"{label} (guide)"

    def find(self, value: object) -> int | None:
        """Return the number of the level that a value fits, or None if there is none."""
        text = level_text(value)
        if text in self._numbers:
            return self._numbers[text]
        if self.kind == "boolean" and text in ("0", "1"):
            return self._numbers.get("true" if text == "1" else "false")
        if isinstance(value, (bool, np.bool_)):
            return self._numbers.get("1" if text == "true" else "0")
        return None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        # A text "(missing)" in a table is not what is meant by a missing entry.
        return {text: number for number, text in enumerate(self.observed)}


@dataclass(frozen=True)
class Codebook:
    """The variables of a study, in order.

    Parameters
    ----------
    variables : tuple of Variable
        At least one; names are unique.
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        """Refuse an empty codebook and names used twice."""
        if not isinstance(self.variables, tuple) or not all(
            isinstance(variable, Variable) for variable in self.variables
        ):
            raise DataError("codebook: its variables must be a tuple of Variable")
        if not self.variables:
            raise DataError("codebook: it has no variables")
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise DataError(f"codebook: variable {name!r} is listed twice")
            seen.add(name)
        if all(variable.guide is not None for variable in self.variables):
            raise DataError("codebook: all variables are guides: there is nothing to guide")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(variable.name for variable in self.variables)

    @property
    def n_levels(self) -> NDArray[np.int64]:
        """Levels of each variable; missing is counted where it is a level."""
        return np.array([len(variable.levels) for variable in self.variables], dtype=np.int64)

    @property
    def guides(self) -> tuple[Variable, ...]:
        """The outcomes among the variables that help to find the clusters."""
        return tuple(variable for variable in self.variables if variable.guide is not None)

    @property
    def guide(self) -> NDArray[np.float64] | None:
        """The weight of each variable in finding clusters; None if all have the same, 1."""
        if not self.guides:
            return None
        return np.array([1.0 if v.guide is None else v.guide for v in self.variables])

    @property
    def level_offsets(self) -> NDArray[np.int64]:
        """First level of each variable in an array over all levels, and the end."""
        return np.concatenate(([0], np.cumsum(self.n_levels)))

    def with_missing_level(self, names: Collection[str] | None = None) -> Codebook:
        """Return the codebook with a level for missing entries of these variables, or of all."""
        chosen = set(self.names if names is None else names)
        return Codebook(
            tuple(v.with_missing_level() if v.name in chosen else v for v in self.variables)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and texts, fit for JSON or TOML."""
        return {
            "variables": [
                {
                    "name": v.name,
                    "kind": v.kind,
                    "levels": list(v.levels),
                    **({"missing_level": True} if v.missing_level else {}),
                    **({} if v.guide is None else {"guide": v.guide}),
                }
                for v in self.variables
            ]
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Codebook:
        """Read what `to_dict` wrote.

        Raises
        ------
        DataError
            If anything is missing, unknown or of the wrong type.
        """
        if not isinstance(content, Mapping) or set(content) != {"variables"}:
            raise DataError("codebook: expected one entry, 'variables'")
        listed = content["variables"]
        if not isinstance(listed, (list, tuple)):
            raise DataError("codebook: 'variables' must be a list")
        return cls(tuple(_read_variable(entry, at) for at, entry in enumerate(listed, start=1)))


def check_seen(codebook: Codebook) -> None:
    """Refuse names and levels with characters that nobody sees: they are shown on screens.

    Raises
    ------
    DataError
        Without the level: it may be taken from a row.
    """
    for variable in codebook.variables:
        if not all(map(is_seen, (variable.name, *variable.levels))):
            raise DataError(
                f"codebook: the name or a level of variable {variable.name!r} {UNSEEN}, or leave "
                "the variable out"
            )


def check_no_missing_level(codebook: Codebook) -> None:
    """Refuse a codebook with a level for missing entries where they are to have none."""
    named = [variable.name for variable in codebook.variables if variable.missing_level]
    if named:
        raise OptionError(
            f"missing: the codebook has a level for missing entries of {named[0]!r}: give 'level', "
            "or a codebook without it"
        )


def _read_variable(entry: object, at: int) -> Variable:
    if not isinstance(entry, Mapping) or set(entry) - {"missing_level", "guide"} != _ENTRIES:
        raise DataError(
            f"codebook: entry {at} of 'variables' must have 'name', 'kind' and 'levels', only"
        )
    levels = entry["levels"]
    if not isinstance(levels, (list, tuple)) or not all(isinstance(t, str) for t in levels):
        raise DataError(f"codebook: entry {at} of 'variables': 'levels' must be a list of texts")
    missing_level, guide = entry.get("missing_level", False), entry.get("guide")
    return Variable(entry["name"], tuple(levels), entry["kind"], missing_level, guide)
