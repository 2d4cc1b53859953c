"""How well a model's clusters fit a site that took no part in them: what leaves that site."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fedmerdel.bundles import Files, damaged
from fedmerdel.errors import DataError, FileError, OptionError
from fedmerdel.inference.transport import Measured, Shift, carried_share, mean_score, share_shift
from fedmerdel.parcels import Parcel
from fedmerdel.release.cells import DUST, wrong_arrays
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.scores import NAMES, nats_step, with_between
from fedmerdel.release.summary import SOFTWARE
from fedmerdel.release.validation_sheets import (
    LABELS,
    SCORES,
    SHARES,
    labels_sheet,
    read_labels,
    read_scores,
    read_shares,
    scores_sheet,
    shares_sheet,
    validation_note,
)
from fedmerdel.study.policy import POLICIES, Policy
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.sums.agreement import adjusted_rand
from fedmerdel.sums.arrays import FloatArray, plain_number, plain_whole

MOST_CLUSTERS = 10_000
"""No model comes near; a file that tells of more is damaged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Validation(Parcel):
    """How well a model's clusters fit a site that took no part, under disclosure control.

    Made by `validate_site`. All that it says follows from the numbers that are in its files.

    Parameters
    ----------
    study_hash, model_hash : str
        Hashes of the study and of the model.
    site : str
        Name of the site.
    software : str
        Name and version of the software that wrote it.
    policy : Policy
        The study's.
    model_rows : float
        Rows that the model was made of.
    scored : float
        Rows that the next two are of. Under a policy each counts once, whatever it weighs.
    nats : float64 array (3,)
        Sums over the site's rows of the logarithm of a row's probability, less that under
        independence: under the model's clusters with the site's weights and with the model's, and
        under clusters of the site's own.
    spread : float64 array (4,)
        Standard deviation of what a row adds to each of these, and of the first less the third.
    limit : float or None
        Nats that a row may add or take, under a policy.
    model_shares : float64 array (K,)
        The model's weights.
    site_rows, rows : float64 arrays (K,)
        Rows of the site in each of the model's clusters, with the site's weights and with the
        model's.
    labels : float64 array (own clusters, K)
        Rows of each of the site's own clusters in each of the model's.
    rest : int or None
        The own cluster that is not counted but is what the others leave.

    Raises
    ------
    DataError
        If the numbers can't be those of any table, or break the policy.
    """

    NOUN: ClassVar[str] = "validation"
    KIND: ClassVar[str] = "fedmerdel validation"
    VERSION: ClassVar[int] = 1
    DOCUMENT: ClassVar[str] = "validation.json"
    NEEDED: ClassVar[tuple[str, ...]] = (SCORES, SHARES, LABELS)
    OPTIONAL: ClassVar[tuple[str, ...]] = ("README.txt",)
    KEEPS: ClassVar[dict[str, str]] = {"site": "another site", "model_hash": "another model"}

    study_hash: str
    model_hash: str
    site: str
    software: str = SOFTWARE
    policy: Policy
    model_rows: float
    scored: float
    nats: FloatArray = field(repr=False)
    spread: FloatArray = field(repr=False)
    limit: float | None
    model_shares: FloatArray = field(repr=False)
    site_rows: FloatArray = field(repr=False)
    rows: FloatArray = field(repr=False)
    labels: FloatArray = field(repr=False)
    rest: int | None = None

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        reason = self._impossible() or self._broken()
        if reason:
            raise DataError(f"validation of site {self.site!r}: {reason}")

    @property
    def n_rows(self) -> float:
        """Rows of the site, as released."""
        return float(self.labels.sum())

    @property
    def mechanism(self) -> Mechanism:
        """The release mechanism that keeps the policy."""
        return mechanism_for(self.policy)

    @property
    def gains(self) -> dict[str, Measured]:
        """Nats a row over independence at the site, by what gives a row its probability.

        Of the model's clusters, ``"site_weights"`` and ``"model_weights"``, and of
        ``"own_clusters"``. All but the second are of rows that the weights, levels or clusters were
        not found from.
        """
        return {name: self._gain(at) for at, name in enumerate(NAMES)}

    @property
    def carried(self) -> Measured | None:
        """The share of own clusters' gain over independence that the model's clusters gain too.

        1 is as good as clusters of the site's own, more is better: the model has seen more rows.
        None where the site's own clusters gain nothing to speak of.
        """
        gain, _, own_gain = self.gains.values()
        return carried_share(gain, own_gain, self._gain(len(NAMES)))

    @property
    def shares(self) -> FloatArray:
        """Share of the site's rows in each of the model's clusters: (K,)."""
        return np.asarray(self.site_rows / self.site_rows.sum())

    @property
    def shift(self) -> Shift:
        """Whether the shares are other than the model's."""
        smallest, step = self.mechanism.smallest, self._row_step
        return share_shift(self.rows, self.model_shares, self.model_rows, smallest, step)

    @property
    def adjusted_rand(self) -> float:
        """Adjusted Rand index of the model's clusters and the site's own, of the told table."""
        return adjusted_rand(self.labels)

    @property
    def _row_step(self) -> float:
        return float(self.policy.step) if self.mechanism.smallest else 0.0

    def _gain(self, at: int) -> Measured:
        nats, spread = float(with_between(self.nats)[at]), float(self.spread[at])
        # A difference of two rounded sums is off by both.
        step = nats_step(self.limit, self.mechanism.smallest)
        step *= 1.0 if at < len(NAMES) else 2.0**0.5
        return mean_score(nats, spread, self.scored, step, self._row_step)

    def _made_files(self) -> Files:
        """Return the content of each file by its name."""
        check_site_name(self.site)
        texts = {
            SCORES: scores_sheet(self.nats, self.spread),
            SHARES: shares_sheet(self.model_shares, self.site_rows, self.rows),
            LABELS: labels_sheet(self.labels),
            "README.txt": validation_note(
                self.labels,
                np.stack([self.site_rows, self.rows]),
                self.mechanism,
                site=self.site,
                made_by=self.software,
                study_hash=self.study_hash,
                model_hash=self.model_hash,
                policy=self.policy.name,
                document=self.DOCUMENT,
                rest=self.rest,
                limit=self.limit,
            ),
        }
        document = {
            "study_hash": self.study_hash,
            "model_hash": self.model_hash,
            "site": self.site,
            "software": self.software,
            "policy": {
                "name": self.policy.name,
                "threshold": self.policy.threshold,
                "rounding": self.policy.rounding,
            },
            "model_rows": float(self.model_rows),
            "scored": float(self.scored),
            "limit": self.limit,
            "n_clusters": len(self.rows),
            "n_own_clusters": len(self.labels),
            "rest": self.rest,
        }
        written = {name: text.encode() for name, text in texts.items()}
        return {self.DOCUMENT: self._document_bytes(document), **written}

    @classmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned."""
        document = cls._read_document(files)
        try:
            n_clusters = plain_whole(document.pop("n_clusters"))
            n_own = plain_whole(document.pop("n_own_clusters"))
            rest, limit = document.pop("rest"), document.pop("limit")
            fields: dict[str, Any] = {
                "policy": _policy(document.pop("policy")),
                "model_rows": plain_number(document.pop("model_rows")),
                "scored": plain_number(document.pop("scored")),
                "limit": None if limit is None else plain_number(limit),
                "rest": None if rest is None else plain_whole(rest),
            }
            names = {"study_hash", "model_hash", "site", "software"}
            fits = set(document) == names and all(isinstance(document[name], str) for name in names)
            if not fits or not 0 < min(n_clusters, n_own) <= max(n_clusters, n_own) < MOST_CLUSTERS:
                raise ValueError("entries")
        except (KeyError, TypeError, ValueError, OverflowError, OptionError):
            raise FileError(damaged(cls.DOCUMENT, "or was changed")) from None
        check_site_name(document["site"])
        nats, spread = read_scores(files[SCORES])
        model_shares, site_rows, rows = read_shares(files[SHARES], n_clusters)
        labels = read_labels(files[LABELS], n_own, n_clusters)
        return cls(
            **document,
            **fields,
            nats=nats,
            spread=spread,
            model_shares=model_shares,
            site_rows=site_rows,
            rows=rows,
            labels=labels,
        )

    def _impossible(self) -> str | None:
        """Return the first thing that can't be, or None."""
        for name in ("study_hash", "model_hash", "site", "software"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                return f"{name} must be a text"
        K, own = len(self.rows), len(self.labels)
        wrong = wrong_arrays(
            {
                "nats": (np.abs(self.nats), (len(NAMES),)),
                "spread": (self.spread, (len(NAMES) + 1,)),
                "the model's shares": (self.model_shares, (K,)),
                "rows with the site's weights": (self.site_rows, (K,)),
                "rows with the model's weights": (self.rows, (K,)),
                "the table of labels": (self.labels, (own, K)),
            }
        )
        if wrong is not None:
            return wrong
        total = self.n_rows
        sums = (self.site_rows.sum(), self.rows.sum())
        if total <= 0 or not all(abs(each - total) <= DUST * max(total, 1.0) for each in sums):
            return "its counts don't sum to the same rows"
        if abs(self.model_shares.sum() - 1.0) > DUST or self.model_shares.min() <= 0:
            return "the model's shares are none"
        if not 0 < self.model_rows < np.inf:
            return "the model has no rows"
        if not 1 <= self.scored < np.inf:
            return "no rows are scored"
        if self.limit is not None and not 0 < self.limit < np.inf:
            return "no row may add to a score"
        if self.rest is not None and not 0 <= self.rest < own:
            return "the cluster that is what the others leave is none of its clusters"
        return None

    def _broken(self) -> str | None:
        """Return where the numbers break the policy, or None."""
        margins = self.labels.sum(axis=0), self.labels.sum(axis=1)
        whole = [self.n_rows, self.scored]
        told = (self.labels.ravel(), *margins, self.site_rows, self.rows, whole)
        smallest = self.mechanism.smallest
        if smallest:
            if self.limit is None:
                return f"a row adds more to a score than policy {self.policy.name!r} allows"
            steps = self.nats / nats_step(self.limit, smallest)
            if np.any(np.abs(steps - np.round(steps)) > DUST):
                return f"a score is not rounded as policy {self.policy.name!r} asks"
        return self.mechanism.broken(np.concatenate(told), None)


def _policy(content: Any) -> Policy:
    """Return the policy that a document names by its numbers."""
    if set(content) != {"name", "threshold", "rounding"}:
        raise ValueError("policy")
    known = POLICIES.get(content["name"])
    numbers = content["threshold"], content["rounding"]
    if known and (known.threshold, known.rounding) == numbers:
        return known
    return Policy(content["name"], *numbers, "its file")
