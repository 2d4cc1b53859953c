"""The end of rounds of sums: the model of all sites together, under the study's policy.

What was added up is like the sums of one large site. So it is released like those of a site, and
all that is known of a federation of one site holds: its model, outcomes, intervals, report.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.release.cells import with_missing
from fedmerdel.release.mechanism import People
from fedmerdel.release.protection import protect
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

EVERYONE = "all sites together"
"""What stands in the place of a site's name."""


def summed_up(study: Study, known: Sums, prior: Prior) -> SiteSummary:
    """Return the summary of one site that has the sums of all; see `model_of_total`.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    known : Sums
        The clusters at the end, as far as they are known.
    prior : Prior
        What they teach.

    Raises
    ------
    DataError
        If no cluster is as large as the policy asks.
    """
    K = known.n_clusters
    # Outcomes are counted in the last round: of a run that was ended before, none are known.
    unknown = {name: np.zeros((K, len(cells))) for name, cells in study.tables.items()}
    sums = known._replace(
        Q=known.Q if known.Q.shape == (K, K) else np.zeros((K, K)),
        outcomes={**unknown, **known.outcomes},
    )
    sums = sums.take(np.argsort(-sums.T, kind="stable"))
    outcomes = sums.outcomes

    def people() -> People:
        # With noise, a count of rows is as near to a count of people as it is to itself.
        named = {name: with_missing(sums.T, cells) for name, cells in outcomes.items()}
        behind = sums._replace(outcomes=named)
        return People(behind, sums.T, sums.total(), behind.total(), study.parts)

    try:
        protected = protect(sums, people, prior, study.policy, drop_silent=True)
    except DataError:
        raise DataError(
            f"no cluster of all sites together has {study.policy.smallest} rows, the least that "
            f"policy {study.policy.name!r} releases: choose another study"
        ) from None
    return SiteSummary(
        study_hash=study.hash,
        site=EVERYONE,
        n_components=study.n_components,
        sums=protected.released.sums,
        rest=protected.released.rest,
        account=protected.account,
        codebook=study.codebook,
        tables=study.tables,
    )
