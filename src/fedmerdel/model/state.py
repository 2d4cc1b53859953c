"""What a model holds: small, finished, and no site's counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedmerdel.model.checks import Checks
from fedmerdel.model.membership import Membership
from fedmerdel.model.names import checked, name_of
from fedmerdel.model.rates import Rates
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.levels import level_shares
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.profile import Profile, profile
from fedmerdel.sums.sums import Sums


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelState:
    """The numbers of a model; `GlobalModel` says what they are, and what to do with them."""

    study: Study
    sums: Sums = field(repr=False)
    prior: Prior = field(repr=False)
    rows: FloatArray = field(repr=False)
    selection_probability: FloatArray = field(repr=False)
    selected: tuple[str, ...] = field(repr=False)
    outcomes: Mapping[str, Rates] = field(default_factory=dict, repr=False)
    n_sites: int = 1
    n_rounds: int = 0
    elbo: float | None = None
    names: tuple[str, ...] = ()
    site_shares: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    checks: Checks | None = field(default=None, repr=False)
    membership: Membership | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", checked(self.names, self.n_clusters))

    @property
    def n_clusters(self) -> int:
        """Clusters."""
        return self.sums.n_clusters

    @property
    def n_released(self) -> int:
        """Tables whose counts were protected and added up: one of each site, or one total."""
        return 1 if self.study.promise.adds_up else self.n_sites

    @cached_property
    def row_prior(self) -> Prior:
        """The prior under which rows are given to clusters: only selected variables tell."""
        return row_prior(self.study, self.sums, self.prior, self.selected)

    @cached_property
    def profile(self) -> Profile:
        """Every level in every cluster, as it is shown: nan where it was not measured."""
        return profile(self.sums, self.prior)

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Outcomes whose corrected rates do not fit what sites counted; see `Rates.misfit`."""
        return tuple(name for name, rates in self.outcomes.items() if not rates.fits)

    def name(self, k: int) -> str:
        """Return the name of a cluster; "cluster 3" if that has none."""
        return name_of(self.names, self.n_clusters, k)


def row_prior(study: Study, sums: Sums, prior: Prior, selected: tuple[str, ...]) -> Prior:
    """Return the prior under which rows are given to clusters: only selected variables tell."""
    if not study.variable_selection:
        return prior
    told = np.isin(study.codebook.names, selected).astype(np.float64)
    return prior._replace(inclusion=told, background=level_shares(sums.S, prior.offsets))
