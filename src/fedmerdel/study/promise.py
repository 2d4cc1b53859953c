"""The promise of a study: what leaves a site, in one of three kinds, the same for all sites."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Literal, get_args

from fedmerdel.errors import OptionError

Kind = Literal["counts", "sums", "dp"]

DEFAULT_NOISE = 2.0
"""Rows: on totals over many sites it costs next to nothing, and hides what single patterns add."""

LEAST_SITES = 5
"""Fewer sites than this make no total that hides one of them."""

MOST_NOISE = 1e6
"""Rows of noise beyond which no total says anything."""

NEEDS: dict[str, tuple[str, ...]] = {
    "counts": ("trusts_centre",),
    "sums": ("noise", "least_sites"),
    "dp": ("least_sites", "epsilon", "delta", "unit", "honest_sites"),
}
"""What each kind says besides."""


@dataclass(frozen=True)
class Promise:
    """What leaves a site.

    Parameters
    ----------
    kind : {"counts", "sums", "dp"}, default="counts"
        "counts": each site's own counts, under the study's disclosure policy. "sums": masked
        numbers, of which only totals over all sites can be read, with a little noise. "dp": the
        same with as much noise as a budget asks for.
    noise : float, default=2.0
        Of "sums": standard deviation of the noise on each total, in rows.
    least_sites : int, default=5
        Of "sums" and "dp": fewer sites are not added up.
    epsilon, delta : float or None
        Of "dp": the budget, over the whole study.
    unit : int, default=1
        Of "dp": rows that one person has at most; 1 protects rows.
    honest_sites : int or None, default=None
        Of "dp": sites whose noise must be enough by itself; None is half of them.
    trusts_centre : bool, default=False
        Of "counts": whether the sites trust the centre not to count small groups with clusters that
        it chooses. Under a policy that hides anything there are no rounds without it.
    """

    kind: Kind = "counts"
    noise: float = DEFAULT_NOISE
    least_sites: int = LEAST_SITES
    epsilon: float | None = None
    delta: float | None = None
    unit: int = 1
    honest_sites: int | None = None
    trusts_centre: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that promise nothing, and those of another kind."""
        if self.kind not in get_args(Kind):
            kinds = ", ".join(repr(kind) for kind in get_args(Kind))
            raise OptionError(f"promise: give one of {kinds}")
        for field in fields(self)[1:]:
            if field.name not in NEEDS[self.kind] and getattr(self, field.name) != field.default:
                raise OptionError(f"promise: {field.name!r} is not for {self.kind!r}: leave it out")
        if not isinstance(self.trusts_centre, bool):
            raise OptionError("promise: trusts_centre: give true or false")
        object.__setattr__(self, "noise", _number("noise", self.noise, MOST_NOISE))
        for name, least in (("least_sites", 2), ("unit", 1)):
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        if self.honest_sites is not None:
            object.__setattr__(self, "honest_sites", _whole("honest_sites", self.honest_sites, 1))
        if self.kind == "dp":
            for name, most in (("epsilon", 100.0), ("delta", 0.1)):
                if getattr(self, name) is None:
                    raise OptionError(f"promise: 'dp' needs {name!r}: give a number above 0")
                value = _number(name, getattr(self, name), most)
                if value == 0:
                    raise OptionError(f"promise: {name}: give a number above 0")
                object.__setattr__(self, name, value)

    @property
    def adds_up(self) -> bool:
        """Whether only totals over sites can be read, and no site's own numbers."""
        return self.kind != "counts"

    @property
    def entries(self) -> dict[str, Any]:
        """Return what a file says of it."""
        return {name: getattr(self, name) for name in ("kind", *NEEDS[self.kind])}


def _number(name: str, value: Any, most: float) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not isfinite(value) or not 0 <= value <= most:
        raise OptionError(f"promise: {name}: give a number from 0 to {most:g}")
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= 10**6:
        raise OptionError(f"promise: {name}: give a whole number of at least {least}")
    return int(value)


COUNTS = Promise()
"""What a study promises that says nothing."""
