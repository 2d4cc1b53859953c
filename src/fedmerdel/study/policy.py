"""Disclosure policies: how small a count may be when it leaves a site.

The numbers are the publishers' rules for tables of people, named after who set them. What
is done to keep them is another layer's business; here stands only what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from fedmerdel.errors import OptionError

CUSTOM = "custom"
"""Name of every policy that a study sets for itself."""

LARGEST = 1_000_000
"""Of a threshold or a rounding: no rule has a thousand."""


def _whole(field: str, value: Any) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 0 <= value <= LARGEST:
        raise OptionError(f"{field}: give a whole number from 0 to {LARGEST:,}")
    return int(value)


@dataclass(frozen=True)
class Policy:
    """The counts that may be released.

    Parameters
    ----------
    name : str
        How a study file calls it.
    threshold : int
        Smallest count, other than zero, that may be released; 0 is no rule.
    rounding : int
        Released counts are multiples of it; 0 or 1 is no rounding.
    source : str
        The document that the rule comes from, in words.
    """

    name: str
    threshold: int
    rounding: int
    source: str

    def __post_init__(self) -> None:
        """Refuse numbers that are no rule."""
        for field in ("name", "source"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise OptionError(f"{field}: give a text for the policy")
        for field in ("threshold", "rounding"):
            object.__setattr__(self, field, _whole(field, getattr(self, field)))

    @property
    def smallest(self) -> int:
        """The smallest count, other than zero, that a reader can meet.

        It is the threshold, rounded up to a multiple of `rounding`; without a threshold,
        the first count that is not zero.
        """
        return -(-max(self.threshold, 1) // self.step) * self.step

    @property
    def step(self) -> int:
        """What told counts are multiples of; 1 where there is no rounding."""
        return max(self.rounding, 1)

    @property
    def least(self) -> int:
        """The count from which a cell is told; fewer rows are released as 0, or rounded to it."""
        return max(self.threshold, -(-self.step // 2) if self.step > 1 else 0)

    def not_weaker_than(self, other: Policy) -> bool:
        """Whether whoever accepts the other policy may accept this one.

        It hides every count that the other hides, and tells only multiples of what the other
        tells multiples of. Of two policies neither may be so: one with the higher threshold, and
        one that rounds.
        """
        return self.least >= other.least and self.step % other.step == 0

    def __str__(self) -> str:
        """Return name and numbers."""
        return f"{self.name!r} (threshold {self.threshold}, rounding {self.rounding})"


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("none", 0, 0, "no rule: for simulated and public tables only"),
        Policy(
            "opensafely",
            8,
            5,
            "OpenSAFELY documentation, statistical disclosure control: redact counts of 7 or less, "
            "then round to the nearest 5",
        ),
        Policy(
            "nhs",
            8,
            5,
            "NHS England (NHS Digital), disclosure control methodology for Hospital Episode "
            "Statistics: below national level counts of 1 to 7 are suppressed, others are rounded "
            "to the nearest 5",
        ),
        Policy(
            "ons",
            10,
            0,
            "Office for National Statistics, Secure Research Service, output checking: as a rule "
            "no counts under 10",
        ),
        Policy(
            "acro",
            10,
            0,
            "ACRO, semi-automated output checking (SACRO): safe_threshold of 10 in its default "
            "configuration",
        ),
        Policy("datashield", 3, 0, "DataSHIELD, usual default of the option nfilter.tab: 3"),
        Policy(
            "ohdsi",
            5,
            0,
            "OHDSI network studies, usual value of minCellCount: counts under 5 are withheld",
        ),
        Policy(
            "pcornet",
            11,
            0,
            "PCORnet Data Committee, minimum cell size of aggregate results: counts under 11 are "
            "masked (as in the cell size suppression policy of CMS, the Centers for Medicare & "
            "Medicaid Services)",
        ),
    )
}
"""The named policies. ``"opensafely"`` is the default of a study."""


def policy_named(name: str) -> Policy:
    """Return a policy by its name.

    Raises
    ------
    OptionError
        If there is none of this name; the message lists those that there are.
    """
    if not isinstance(name, str) or name not in POLICIES:
        names = ", ".join(repr(known) for known in POLICIES)
        raise OptionError(
            f"policy: give one of {names}, or make one with custom_policy(threshold, rounding)"
        )
    return POLICIES[name]


def custom_policy(threshold: int, rounding: int = 0, source: str = "set by this study") -> Policy:
    """Make a policy of a study's own.

    Parameters
    ----------
    threshold : int
        Smallest count, other than zero, that may be released; 0 is no rule.
    rounding : int
        Released counts are multiples of it; 0 or 1 is no rounding.
    source : str
        Where the rule comes from, in words.
    """
    return Policy(CUSTOM, threshold, rounding, source)
