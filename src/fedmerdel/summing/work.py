"""What is asked of the sites of a study, found from the totals so far: by the centre and each site.

Nobody sends clusters that others have to believe: whoever has the totals makes the next question.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.masking.work import Agreement, History
from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.summing.question import Question
from fedmerdel.summing.rounds import Scheme, State, follow, start
from fedmerdel.summing.tally import STEPS, vector_size

BEYOND = 6.0
"""Standard deviations of noise: a total further beyond what rows can be is not one."""


def scheme_of(study: Study, *, patient: bool = False) -> Scheme:
    """Return what all sites of a study know before the first round of sums."""
    return Scheme(
        prior=study_prior(study, study.n_components),
        learned=centre_learns(study),
        missing=study.missing == "ignore",
        tables={name: len(cells) for name, cells in study.tables.items()},
        noise=study.promise.noise,
        rounds=study.rounds,
        patient=patient,
    )


def agreement_of(study: Study) -> Agreement:
    """Return what sites and centre of a study have agreed on, or refuse a study without it."""
    if study.promise.kind != "sums":
        raise DataError(
            f"study {study.name!r} promises {study.promise.kind!r}: turns are for promise 'sums'"
        )
    if not study.site_keys:
        raise DataError(
            f"study {study.name!r} lists no keys, and sums need those of all sites: have each make "
            "one (fedmerdel key), and list them in [keys]"
        )
    promise = f"{study.promise.entries} {STEPS}"
    return Agreement(study.hash, promise, dict(study.site_keys), study.promise.least_sites)


class SumsWork:
    """Questions of a study, each found from the totals before it.

    Parameters
    ----------
    study : Study
        With promise "sums".
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.scheme = scheme_of(study)
        self._after = lru_cache(maxsize=4)(self._followed)

    def state(self, history: History) -> State:
        """Return how far the rounds are after these openings."""
        keys = tuple((each.question, each.totals.tobytes()) for each in history.openings)
        return self._after(keys, history.seed)

    def _followed(self, openings: tuple[tuple[bytes, bytes], ...], seed: bytes) -> State:
        if not openings:
            return start(self.scheme)
        *before, (question, totals) = openings
        # As it was asked: the last digits are the centre's, and the same for all then.
        asked = Question.from_bytes(question)
        state = self._after(tuple(before), seed)._replace(question=asked)
        number = int.from_bytes(seed[:8], "big")
        return follow(self.scheme, state, np.frombuffer(totals, dtype=np.int64), number)

    def question(self, history: History) -> bytes | None:
        """Return what follows from the totals; None at the end."""
        asked = self.state(history).question
        return None if asked is None else asked.to_bytes()

    def agrees(self, own: bytes, sent: bytes) -> bool:
        """Whether a question is the one that was found here, but for last digits."""
        return own == sent or Question.from_bytes(own).alike(Question.from_bytes(sent))

    def check_totals(self, history: History) -> None:
        """Refuse totals that no rows have: a site that lies in one question and not in others.

        Raises
        ------
        DataError
            If they are of another length, or clusters have more rows than there are.
        """
        rows = self.total_rows(history)
        last = history.openings[-1]
        asked = Question.from_bytes(last.question)
        K = asked.clusters.n_clusters
        if len(last.totals) != vector_size(K, asked.cells, asked.halves):
            raise DataError("the totals are not of what was asked: ask the centre")
        told = last.totals[: K * asked.cells.width].reshape(K, -1) / STEPS
        noise = BEYOND * self.scheme.noise + K / STEPS
        if np.any(told < -noise) or np.any(told > rows + 2 * noise):
            raise DataError(
                "a total is below 0, or above the rows of all sites: a site may lie, or be wrong; "
                "nothing more is answered"
            )
        off = abs(float(told[:, 0].sum()) - rows)
        if len(history.openings) > 1 and off > noise * np.sqrt(K + 1) + 1e-6 * rows:
            raise DataError(
                "the clusters have not as many rows as all sites together told at first: a site "
                "may lie, or its rows have changed; nothing more is answered"
            )

    def total_rows(self, history: History) -> float:
        """Return the rows of all sites together, as the first totals say."""
        return float(history.openings[0].totals[0]) / STEPS
