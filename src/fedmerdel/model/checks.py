"""Whether a model explains the rows that it was made from: a few checks, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import Any

from fedmerdel.inference.check_counts import SURE
from fedmerdel.sums.arrays import plain_number, plain_whole

ALARM = 0.01
"""Below this chance, numbers of conditions are said not to fit."""

N_PAIRS = 20
"""Pairs that are kept: the least explained ones."""


@dataclass(frozen=True)
class PairResidual:
    """Two variables that go together more, or less, than the clusters explain.

    Attributes
    ----------
    first, second : str
        The variables.
    residual : float
        Bivariate residual: Pearson's chi-squared over its degrees of freedom. About 1 or less
        where the clusters explain the pair.
    degrees : int
        Its degrees of freedom.
    p_value : float
        Chance of so large a residual in any of the pairs, at most.
    first_level, second_level : str
        The levels that add most to it.
    observed, expected : float
        Rows that have both.
    """

    first: str
    second: str
    residual: float
    degrees: int
    p_value: float
    first_level: str
    second_level: str
    observed: float
    expected: float


@dataclass(frozen=True)
class Checks:
    """Whether a model explains the rows that it was made from. It holds no site's counts.

    Attributes
    ----------
    p_value : float or None
        Chance that rows drawn from the model have numbers of conditions so far from what it
        expects. None if there are fewer than two conditions, or rows have weights.
    distance : float or None
        Share of the rows that would have to have another number of conditions.
    conditions, expected_conditions : tuple of float
        Share of the rows with none, one, two and so on: as they are, and as the model says.
    pairs : tuple of PairResidual
        The pairs of variables that are explained least, the worst first.
    n_pairs : int
        Pairs that were looked at.
    certainty : tuple of float
        Share of the rows by the probability of their cluster, in 20 bins from 0 to 1.
    relative_entropy : float or None
        1 if all rows are sure of their cluster, 0 if they could be in any. None of one cluster.
        Under a disclosure policy it is at most so much.
    mean_posterior : tuple of float
        For each cluster, the mean probability with which rows belong to it whose most probable
        cluster it is; nan where there are none, or too few to be told.
    """

    p_value: float | None
    distance: float | None
    conditions: tuple[float, ...]
    expected_conditions: tuple[float, ...]
    pairs: tuple[PairResidual, ...]
    n_pairs: int
    certainty: tuple[float, ...]
    relative_entropy: float | None
    mean_posterior: tuple[float, ...]

    @property
    def fits(self) -> bool | None:
        """Whether the numbers of conditions are as the model says; None where that is not known."""
        return None if self.p_value is None else self.p_value >= ALARM

    @property
    def sure(self) -> float:
        """Share of the rows whose cluster is more probable than 0.8."""
        return float(sum(self.certainty[round(SURE * len(self.certainty)) :]))

    @property
    def verdict(self) -> str:
        """What the number of conditions says, in a sentence or two."""
        if self.p_value is None or self.distance is None:
            return (
                "Not known: it takes two conditions at least, rows without weights, and sites "
                "that may tell how many conditions rows have."
            )
        chance = f"p {self.p_value:.2g}" if self.p_value >= 1e-4 else "p below 0.0001"
        if self.fits:
            return f"Rows have as many conditions as rows of such clusters would have ({chance})."
        return (
            f"Rows do not have as many conditions as rows of such clusters would have ({chance}; "
            f"{100 * self.distance:.1f} % of them would have to have another number). Rows may "
            "differ along a scale, such as severity, and the clusters may be cuts through it; or "
            "there may be more clusters than were found."
        )

    def __str__(self) -> str:
        """Return the verdict and the figures, a line each."""
        lines = [self.verdict, f"surely in a cluster: {100 * self.sure:.1f} % of rows"]
        if self.relative_entropy is not None:
            lines.append(f"relative entropy: {self.relative_entropy:.3f}")
        lines += [
            f"{pair.first}, {pair.second}: residual {pair.residual:.1f}" for pair in self.pairs[:5]
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain texts and numbers; None where a mean is not known."""
        content = asdict(self)
        content["mean_posterior"] = [None if isnan(m) else m for m in self.mean_posterior]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Checks:
        """Read what `to_dict` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is something else.
        """
        if set(content) != set(cls.__dataclass_fields__):
            raise ValueError("no checks")

        def shares(name: str) -> tuple[float, ...]:
            return tuple(_share(each) for each in _listed(content[name]))

        pairs = tuple(PairResidual(**_pair(each)) for each in _listed(content["pairs"]))
        return cls(
            p_value=_maybe(content["p_value"]),
            distance=_maybe(content["distance"]),
            conditions=shares("conditions"),
            expected_conditions=shares("expected_conditions"),
            pairs=pairs,
            n_pairs=plain_whole(content["n_pairs"]),
            certainty=shares("certainty"),
            relative_entropy=_maybe(content["relative_entropy"]),
            mean_posterior=tuple(
                nan if each is None else _share(each) for each in _listed(content["mean_posterior"])
            ),
        )


def _listed(content: Any) -> list[Any]:
    if not isinstance(content, list | tuple):
        raise ValueError("no list")
    return list(content)


def _share(content: Any) -> float:
    found = plain_number(content)
    if not 0 <= found <= 1:
        raise ValueError("no share")
    return found


def _maybe(content: Any) -> float | None:
    return None if content is None else _share(content)


def _pair(content: Any) -> dict[str, Any]:
    fields = PairResidual.__dataclass_fields__
    if set(content) != set(fields):
        raise ValueError("no pair")
    found = dict(content)
    for name, field in fields.items():
        if field.type == "str":
            if not isinstance(found[name], str):
                raise ValueError(name)
        elif plain_number(found[name]) < 0 or found[name] == float("inf"):
            raise ValueError(name)
    plain_whole(found["degrees"])
    _share(found["p_value"])
    return found
