"""A site's summary: the only thing that leaves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np

from fedmerdel.bundles import Files
from fedmerdel.errors import DataError, FileError
from fedmerdel.parcels import Parcel
from fedmerdel.release.account import Account
from fedmerdel.release.bounds import Unknown, impossible_overlap, unknown
from fedmerdel.release.cells import DUST, all_cells, wrong_arrays
from fedmerdel.release.mechanism import Mechanism, MoveSums, Released
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.note import checkers_note
from fedmerdel.release.sheets import (
    COUNTS,
    OUTCOMES,
    OVERLAP,
    counts_sheet,
    outcomes_sheet,
    overlap_sheet,
    read_counts,
    read_outcomes,
    read_overlap,
)
from fedmerdel.study.codebook import UNSEEN, Codebook, check_seen
from fedmerdel.study.policy import CUSTOM, POLICIES, Policy
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.components import MOST_COMPONENTS
from fedmerdel.sums.sums import Sums
from fedmerdel.texts import is_seen

SOFTWARE = f"fedmerdel {version('fedmerdel')}"
"""Name and version of the software that writes releases."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteSummary(Parcel):
    """Sums over the rows of a site, under disclosure control.

    Parameters
    ----------
    study_hash : str
        Hash of the study that the site was fitted for.
    site : str
        Name of the site; part of file names once it is written.
    software : str
        Name and version of the software that wrote it.
    n_components : int
        ``K_init``, the components of the site's prior.
    sums : Sums
        Sums of the site's clusters, K of them; Q may be an upper bound of it.
    rest : int or None
        The cluster that is not counted but is what the others leave of the site's totals.
    selected : tuple of str or None
        Variables that the site selected; None where the study selects none.
    account : Account
        What disclosure control did.
    codebook : Codebook
        The study's variables and levels.

    Raises
    ------
    DataError
        If the numbers can't be those of any table, or break the policy that the account names.
    """

    NOUN: ClassVar[str] = "summary"
    KIND: ClassVar[str] = "fedmerdel site summary"
    VERSION: ClassVar[int] = 6
    DOCUMENT: ClassVar[str] = "summary.json"
    NEEDED: ClassVar[tuple[str, ...]] = (COUNTS, OVERLAP)
    KEEPS: ClassVar[dict[str, str]] = {"site": "another site", "study_hash": "another study"}
    OPTIONAL: ClassVar[tuple[str, ...]] = (OUTCOMES, "README.txt")

    COMPLETE: ClassVar[bool] = False
    """Whether clusters of which nothing is told are there too, with no rows."""

    ENTRIES: ClassVar[dict[str, type | tuple[type, ...]]] = {
        "study_hash": str,
        "site": str,
        "software": str,
        "n_components": int,
        "n_clusters": int,
        "rest": (int, type(None)),
        "selected": (list, type(None)),
        "outcomes": list,
        "disclosure": dict,
        "codebook": dict,
    }
    """What the document has besides kind and version."""

    study_hash: str
    site: str
    software: str = SOFTWARE
    n_components: int
    sums: Sums
    rest: int | None = None
    selected: tuple[str, ...] | None = None
    account: Account
    codebook: Codebook = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        for name in ("study_hash", "software", "site"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise DataError(f"{self.NOUN} of site {self.site!r}: {name} must be a text")
        reason = self._impossible() or self._broken()
        if reason:
            raise DataError(f"{self.NOUN} of site {self.site!r}: {reason}")

    @property
    def n_clusters(self) -> int:
        """Clusters of the site."""
        return self.sums.n_clusters

    @property
    def n_rows(self) -> float:
        """Rows that the released clusters stand for: the sum of T."""
        return float(self.sums.T.sum())

    @property
    def released(self) -> Released:
        """The sums, and which cluster is what the others leave."""
        return Released(self.sums, self.rest)

    @property
    def mechanism(self) -> Mechanism:
        """The release mechanism that the account names."""
        return mechanism_for(self.policy)

    @property
    def policy(self) -> Policy:
        """The policy that the account names, by its numbers."""
        account = self.account
        known = POLICIES.get(account.policy)
        if known and (known.threshold, known.rounding) == (account.threshold, account.rounding):
            return known
        return Policy(account.policy or CUSTOM, account.threshold, account.rounding, "its file")

    @property
    def unknown(self) -> Unknown:
        """What the released sums leave open."""
        return unknown(self.sums, self.mechanism, self.COMPLETE)

    def _made_files(self) -> Files:
        """Return the content of each file by its name."""
        check_site_name(self.site)
        sums, n_clusters = self.sums, self.n_clusters
        texts = {
            COUNTS: counts_sheet(self.codebook, sums.T, sums.S),
            OVERLAP: overlap_sheet(self._single(), sums.Q),
        }
        if sums.outcomes:
            texts[OUTCOMES] = outcomes_sheet(sums.outcomes, n_clusters)
        texts |= self._more_sheets()
        texts["README.txt"] = checkers_note(
            sums,
            self.account,
            self.mechanism,
            site=self.site,
            made_by=self.software,
            study_hash=self.study_hash,
            document=self.DOCUMENT,
            rest=self.rest,
            **self._noted(),
        )
        document = self._document_bytes(self._document())
        return {self.DOCUMENT: document, **{name: text.encode() for name, text in texts.items()}}

    @classmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned."""
        document = cls._read_document(files)
        if set(document) != set(cls.ENTRIES):
            raise FileError(
                f"file {cls.DOCUMENT!r} must have the entries {', '.join(cls.ENTRIES)}, only"
            )
        for name, kind in cls.ENTRIES.items():
            value = document[name]
            huge = isinstance(value, int) and abs(value) > 2**63
            if not isinstance(value, kind) or isinstance(value, bool) or huge:
                raise FileError(f"file {cls.DOCUMENT!r}: {name!r} is not what it should be")
        try:
            codebook = Codebook.from_dict(document.pop("codebook"))
            account = Account.from_dict(document.pop("disclosure"))
            check_seen(codebook)
        except DataError as error:
            raise FileError(f"file {cls.DOCUMENT!r}: {error}") from None
        n_clusters = document.pop("n_clusters")
        if not 0 < n_clusters <= MOST_COMPONENTS:
            raise FileError(f"file {cls.DOCUMENT!r}: 'n_clusters' is not what it should be")
        check_site_name(document["site"])
        listed = (*document.values(), account.policy, *document["outcomes"])
        if not all(is_seen(text) for text in listed if isinstance(text, str)):
            raise FileError(f"file {cls.DOCUMENT!r}: a text of it {UNSEEN}")
        selected = document.pop("selected")
        T, S = read_counts(COUNTS, files[COUNTS], n_clusters, codebook)
        outcomes = read_outcomes(files.get(OUTCOMES), document.pop("outcomes"), n_clusters)
        single, Q = read_overlap(files[OVERLAP], cls._single_names(files), n_clusters)
        return cls(
            sums=Sums(T, S, single["h"], Q, outcomes),
            selected=None if selected is None else tuple(selected),
            account=account,
            codebook=codebook,
            **cls._more_fields(document, files, single, codebook),
        )

    def _document(self) -> dict[str, Any]:
        return {
            "study_hash": self.study_hash,
            "site": self.site,
            "software": self.software,
            "n_components": int(self.n_components),
            "n_clusters": self.n_clusters,
            "rest": self.rest,
            "selected": None if self.selected is None else list(self.selected),
            "outcomes": list(self.sums.outcomes),
            "disclosure": self.account.to_dict(),
            "codebook": self.codebook.to_dict(),
        }

    # What a reply has besides: nothing here.

    @property
    def moves(self) -> MoveSums | None:
        """What is told of moves."""
        return None

    def _single(self) -> dict[str, FloatArray]:
        return {"h": self.sums.h}

    @classmethod
    def _single_names(cls, files: Files) -> list[str]:
        return ["h"]

    def _more_sheets(self) -> dict[str, str]:
        return {}

    def _noted(self) -> dict[str, bool]:
        return {}

    @classmethod
    def _more_fields(
        cls,
        document: dict[str, Any],
        files: Files,
        single: dict[str, FloatArray],
        codebook: Codebook,
    ) -> dict[str, Any]:
        return document

    def _impossible(self) -> str | None:
        """Return the first thing that can't be, or None."""
        if not 1 <= self.n_clusters <= self.n_components:
            return f"{self.n_clusters} clusters, where 1 to {self.n_components} are possible"
        reason = self._impossible_sums()
        if reason is None and self.sums.T.min() <= 0:
            return "a cluster has no rows: leave it out"
        return reason

    def _impossible_sums(self) -> str | None:
        T, S, h, Q, outcomes = self.sums
        K, offsets, names = len(T), self.codebook.level_offsets, self.codebook.names
        shapes = {
            "T": (T, (K,)),
            "S": (S, (K, int(offsets[-1]))),
            "h": (h, (K,)),
            "overlap": (Q, (K, K)),
        }
        for name, counts in outcomes.items():
            for part, array in counts._asdict().items():
                shapes[f"{part} of outcome {name!r}"] = (array, (K,))
        wrong = wrong_arrays(shapes)
        if wrong is not None:
            return wrong
        # A damaged file may hold anything here, also very many, and what no set can hold.
        selected = self.selected or ()
        if len(selected) > len(names) or not (
            all(isinstance(name, str) for name in selected) and set(selected) <= set(names)
        ):
            return "it selects variables that its codebook does not have"
        if h.max() > 0:
            return "h is above 0, and no sum of r ln r is"
        if not np.array_equal(Q, Q.T) or np.any(np.diag(Q)):
            return "overlap is not symmetric with 0 on its diagonal"
        slack = DUST * np.maximum(T, 1.0)
        for name, start, end in zip(names, offsets[:-1], offsets[1:], strict=True):
            if np.any(S[:, start:end].sum(axis=1) > T + slack):
                return f"the levels of {name!r} sum to more than the cluster's rows"
        if self.rest is not None and not (0 <= self.rest < K and T[self.rest] > 0):
            return "the cluster that is what the others leave is none of its clusters"
        for name, counts in outcomes.items():
            known = counts.observed
            if np.any(known > T + slack) or np.any(counts.positive > known + slack):
                return f"outcome {name!r} has more rows than there are"
        return None

    def _broken(self) -> str | None:
        """Return where the numbers break the policy that the account names, or None."""
        mechanism = self.mechanism
        # Whatever the file says of the smallest count, it follows from the rule.
        if self.account.smallest != mechanism.smallest:
            return f"its smallest count is not that of policy {self.account.policy!r}"
        return (
            mechanism.broken(all_cells(self.sums, self.codebook.level_offsets), self.moves)
            or mechanism.broken(all_cells(self.sums.total(), self.codebook.level_offsets), None)
            or impossible_overlap(self.sums, self.unknown)
        )


def selected_names(codebook: Codebook, inclusion: FloatArray | None) -> tuple[str, ...] | None:
    """Return which variables a selection has kept: all of it that leaves a site."""
    if inclusion is None:
        return None
    return tuple(name for name, c in zip(codebook.names, inclusion, strict=True) if c > 0.5)
