"""What a study counts in each cluster beside the variables: outcomes, and patterns of covariates.

Whatever it is, each row falls into one of a few cells (a number into three, by parts), so that
all of it leaves a site as a table of rows by cell and cluster, and under the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import isfinite, prod
from typing import Any, Literal

from fedmerdel.errors import DataError, OptionError
from fedmerdel.study.codebook import Variable, level_text

MOST_CELLS = 64
"""Cells of one outcome or of all covariates: each is a count in every cluster, and few may be
small."""

COVARIATES = "(covariates)"
"""The name of the table of covariates, which no column can be asked for by."""

Kind = Literal["yes/no", "levels", "number", "time"]


@dataclass(frozen=True)
class Outcome:
    """Something that is counted in each cluster, but not used to find the clusters.

    With a name alone it is yes or no, such as death. What else is given says what else it is.

    Parameters
    ----------
    name : str
        Its column.
    levels : sequence of str, default=()
        Several levels: all that there are.
    range : (float, float) or None, default=None
        A number: its mean is told. Numbers beyond are taken for the nearer end, so that no
        row says more than that it is there. The means are the sharper, the narrower it is.
    event : str or None, default=None
        Time to an event, which the column holds: the yes/no column that says whether the time
        ended with the event (or the person was lost from sight).
    ends : sequence of float, default=()
        Of the intervals of time, rising; at each the share with the event is told.
    strata : sequence of Variable, or mappings with name and levels, default=()
        Columns such as age and sex. Rates are then standardised: as they would be if all clusters
        had the same shares of these.

    Raises
    ------
    OptionError
        If they don't fit each other.
    """

    name: str
    levels: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    event: str | None = None
    ends: tuple[float, ...] = ()
    strata: tuple[Variable, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what can't be counted; lists become tuples, and numbers plain."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise OptionError("outcomes: give the name of each, a text that is not empty")
        where = f"outcomes: {self.name!r}"
        given = [self.levels != (), self.range is not None, self.event is not None]
        if sum(given) > 1 or (self.ends != () and self.event is None):
            raise OptionError(
                f"{where}: give levels, or a range of numbers, or event and ends, not several"
            )
        object.__setattr__(self, "levels", _texts(where, "levels", self.levels))
        object.__setattr__(self, "strata", _variables(f"{where}: strata", self.strata))
        if len(self.levels) == 1:
            raise OptionError(f"{where}: levels: give two at least")
        if self.range is not None:
            low_high = _rising(where, "range", self.range)
            if len(low_high) != 2:
                raise OptionError(f"{where}: range: give two numbers, the lower first")
            object.__setattr__(self, "range", low_high)
        if self.event is not None:
            if not isinstance(self.event, str) or not self.event.strip():
                raise OptionError(f"{where}: event: give the name of its column")
            ends = _rising(where, "ends", self.ends)
            if not ends or ends[0] <= 0:
                raise OptionError(f"{where}: ends: give the ends of intervals of time, above 0")
            object.__setattr__(self, "ends", ends)
        n_cells = prod(len(each.levels) for each in self.strata) * len(self.cells)
        if n_cells > MOST_CELLS:
            raise OptionError(
                f"{where} has {n_cells:,} cells in all strata, and at most {MOST_CELLS} are told: "
                "take fewer strata, or coarser levels"
            )

    @property
    def kind(self) -> Kind:
        """What it is."""
        if self.levels:
            return "levels"
        if self.range is not None:
            return "number"
        return "yes/no" if self.event is None else "time"

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells that a row may fall into, without strata.

        A number y between 0 and 1, once its range is brought there, falls into three, by (1 - y)²,
        2 y (1 - y) and y²: they sum to 1, and tell its mean and spread.
        """
        if self.kind == "levels":
            return self.levels
        if self.kind == "number":
            return ("low", "middle", "high")
        if self.kind == "yes/no":
            return ("no", "yes")
        ends = [level_text(end) for end in self.ends]
        return (
            f"beyond {ends[-1]}",
            *(f"event by {end}" for end in ends),
            *(f"lost before {end}" for end in ends),
        )

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of what is told of each cluster: a rate, some rates or a mean."""
        if self.kind == "levels":
            return tuple(f"{self.name}: {level}" for level in self.levels)
        if self.kind == "time":
            return tuple(f"{self.event} by {level_text(end)}" for end in self.ends)
        return (self.name,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a table that it needs, but for strata."""
        return (self.name,) if self.event is None else (self.name, self.event)

    @property
    def table(self) -> tuple[str, ...]:
        """Names of the cells in all strata, which are told of each cluster."""
        if not self.strata:
            return self.cells
        return tuple(f"{s}: {cell}" for s in patterns(self.strata) for cell in self.cells)

    @property
    def entry(self) -> str | dict[str, Any]:
        """How a study's file and hash say it: a name if it is no more than that."""
        more: dict[str, Any] = {}
        for field in ("levels", "range", "event", "ends"):
            value = getattr(self, field)
            if value:
                more[field] = value if isinstance(value, str) else list(value)
        if self.strata:
            more["strata"] = [{"name": v.name, "levels": list(v.values)} for v in self.strata]
        return {"name": self.name, **more} if more else self.name


def checked_outcomes(given: Any) -> tuple[Outcome, ...]:
    """Return the outcomes of a study; a name alone is one of yes or no."""
    # A text is a sequence of texts too, but hardly ever meant as one.
    if not isinstance(given, (tuple, list)):
        raise OptionError("outcomes: give a list of names, or of outcomes")
    found = [_outcome(each) for each in given]
    measures = [name for outcome in found for name in {outcome.name, *outcome.measures}]
    if len(set(measures)) < len(measures):
        raise OptionError("outcomes: a name is listed twice: list each once")
    return tuple(found)


def checked_covariates(given: Any) -> tuple[Variable, ...]:
    """Return the covariates of a study: variables that don't help to find the clusters."""
    found = _variables("covariates", given)
    n_patterns = prod(len(each.levels) for each in found)  # of a hostile file, too many to list
    if n_patterns > MOST_CELLS:
        raise OptionError(
            f"covariates: together they have {n_patterns:,} patterns, and at most "
            f"{MOST_CELLS} are told: take fewer, or coarser levels"
        )
    return found


def patterns(variables: Sequence[Variable]) -> tuple[str, ...]:
    """Return the names of all combinations of levels, the last variable changing first."""
    return tuple(", ".join(levels) for levels in product(*(each.levels for each in variables)))


def _outcome(given: Any) -> Outcome:
    if not isinstance(given, Mapping):
        return given if isinstance(given, Outcome) else Outcome(given)
    known = tuple(Outcome.__dataclass_fields__)
    if "name" not in given or not set(given) <= set(known):
        raise OptionError(f"outcomes: an outcome has a name, and may have {', '.join(known[1:])}")
    return Outcome(**given)


def _variables(where: str, given: Any) -> tuple[Variable, ...]:
    if not isinstance(given, (tuple, list)):
        raise OptionError(f"{where}: give a list, each with its name and levels")
    found = tuple(_variable(where, each) for each in given)
    if len({each.name for each in found}) < len(found):
        raise OptionError(f"{where}: a name is listed twice: list each once")
    return found


def _variable(where: str, given: Any) -> Variable:
    if isinstance(given, Mapping):
        levels = given.get("levels")
        if set(given) != {"name", "levels"} or not isinstance(levels, (tuple, list)):
            raise OptionError(f"{where}: give each a name and levels, no more")
        try:
            given = Variable.from_values(given["name"], levels)
        except DataError as error:
            raise OptionError(f"{where}: {str(error).removeprefix('codebook: ')}") from None
    if not isinstance(given, Variable) or len(given.levels) < 2 or given.guide is not None:
        raise OptionError(f"{where}: give each a name, and two levels at least, and no guide")
    return given


def _texts(where: str, field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, (tuple, list)):
        raise OptionError(f"{where}: {field}: give a list")
    texts = tuple(level_text(each) for each in given if isinstance(each, (str, int)))
    if len(texts) < len(given) or "" in texts:
        raise OptionError(f"{where}: {field}: give texts or whole numbers, none of them empty")
    if len(set(texts)) < len(texts):
        raise OptionError(f"{where}: {field}: one is listed twice: list each once")
    return texts


def _rising(where: str, field: str, given: Any) -> tuple[float, ...]:
    numbers = isinstance(given, (tuple, list)) and all(
        isinstance(each, (int, float)) and not isinstance(each, bool) for each in given
    )
    plain = tuple(float(each) for each in given) if numbers else ()
    if not numbers or not all(isfinite(each) and abs(each) <= 1e15 for each in plain):
        raise OptionError(f"{where}: {field}: give a list of numbers")
    if any(before >= after for before, after in pairwise(plain)):
        raise OptionError(f"{where}: {field}: give them rising")
    return plain
