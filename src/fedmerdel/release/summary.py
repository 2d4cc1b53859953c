"""A site's summary: the only thing that leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar, Self

import numpy as np

from fedmerdel.bundles import Files
from fedmerdel.errors import DataError, FileError
from fedmerdel.inference.check_counts import CheckCounts
from fedmerdel.parcels import Parcel
from fedmerdel.release.account import Account
from fedmerdel.release.bounds import Unknown, impossible_overlap, unknown
from fedmerdel.release.cells import DUST, all_cells, wrong_arrays
from fedmerdel.release.check_sheet import CHECKS, checks_sheet, read_checks
from fedmerdel.release.check_tables import check_cells, impossible_checks
from fedmerdel.release.mechanism import Mechanism, MoveSums
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.note import checkers_note
from fedmerdel.release.released import Released
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
from fedmerdel.study.conditions import condition_levels
from fedmerdel.study.outcome import MOST_CELLS
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
    tables : mapping of str to tuple of str
        Names of the cells of each outcome.
    checks : CheckCounts or None
        Tables of the whole site with which the model is checked, where the study asks for them.

    Raises
    ------
    DataError
        If the numbers can't be those of any table, or break the policy that the account names.
    """

    NOUN: ClassVar[str] = "summary"
    KIND: ClassVar[str] = "fedmerdel site summary"
    VERSION: ClassVar[int] = 7
    DOCUMENT: ClassVar[str] = "summary.json"
    NEEDED: ClassVar[tuple[str, ...]] = (COUNTS, OVERLAP)
    KEEPS: ClassVar[dict[str, str]] = {"site": "another site", "study_hash": "another study"}
    OPTIONAL: ClassVar[tuple[str, ...]] = (OUTCOMES, CHECKS, "README.txt")

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
        "outcomes": dict,
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
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    checks: CheckCounts | None = field(default=None, repr=False)

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
            texts[OUTCOMES] = outcomes_sheet(sums.outcomes, self.tables, n_clusters)
        if self.checks is not None:
            texts[CHECKS] = checks_sheet(self.codebook, self.checks)
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
            checks=self.checks is not None,
            **self._noted(),
        )
        document = self._document_bytes(self._document())
        return {self.DOCUMENT: document, **{name: text.encode() for name, text in texts.items()}}

    @classmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned."""
        document = cls._read_document(files)
        # Only where the study asks for checks, so that others are read as they always were.
        absent = "checked" not in document
        checked = document.pop("checked", None)
        if set(document) != set(cls.ENTRIES) or not (absent or isinstance(checked, list)):
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
        tables = cls._read_tables(document.pop("outcomes"))
        named = (text for name, cells in tables.items() for text in (name, *cells))
        listed = (*document.values(), account.policy, *named)
        if not all(is_seen(text) for text in listed if isinstance(text, str)):
            raise FileError(f"file {cls.DOCUMENT!r}: a text of it {UNSEEN}")
        selected = document.pop("selected")
        T, S = read_counts(COUNTS, files[COUNTS], n_clusters, codebook)
        outcomes = read_outcomes(files.get(OUTCOMES), tables, n_clusters)
        checks = read_checks(files.get(CHECKS), checked, n_clusters, codebook)
        single, Q = read_overlap(files[OVERLAP], cls._single_names(files), n_clusters)
        return cls(
            sums=Sums(T, S, single["h"], Q, outcomes),
            selected=None if selected is None else tuple(selected),
            account=account,
            codebook=codebook,
            tables=tables,
            checks=checks,
            **cls._more_fields(document, files, single, codebook),
        )

    @classmethod
    def _read_tables(cls, content: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        """Read the names of the cells of each outcome."""
        for cells in content.values():
            fits = isinstance(cells, list) and 2 <= len(cells) <= MOST_CELLS
            if not fits or not all(isinstance(cell, str) for cell in cells):
                raise FileError(f"file {cls.DOCUMENT!r}: 'outcomes' is not what it should be")
        return {name: tuple(cells) for name, cells in content.items()}

    def _document(self) -> dict[str, Any]:
        names = self.codebook.names
        checked = (
            {} if self.checks is None else {"checked": [names[j] for j in self.checks.checked]}
        )
        return {
            "study_hash": self.study_hash,
            "site": self.site,
            "software": self.software,
            "n_components": int(self.n_components),
            "n_clusters": self.n_clusters,
            "rest": self.rest,
            "selected": None if self.selected is None else list(self.selected),
            "outcomes": {name: list(cells) for name, cells in self.tables.items()},
            "disclosure": self.account.to_dict(),
            "codebook": self.codebook.to_dict(),
            **checked,
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
        if set(outcomes) != set(self.tables):
            return "its outcomes are not those that it names"
        for name, cells in outcomes.items():
            shapes[f"outcome {name!r}"] = (cells, (K, len(self.tables[name])))
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
        for name, cells in outcomes.items():
            if np.any(cells.sum(axis=1) > T + slack):
                return f"outcome {name!r} has more rows than there are"
        if self.checks is None:
            return None
        present = tuple(condition_levels(self.codebook))
        return impossible_checks(self.checks, self.sums, offsets, present)

    def _broken(self) -> str | None:
        """Return where the numbers break the policy that the account names, or None."""
        mechanism = self.mechanism
        # Whatever the file says of the smallest count, it follows from the rule.
        if self.account.smallest != mechanism.smallest:
            return f"its smallest count is not that of policy {self.account.policy!r}"
        return (
            mechanism.broken(all_cells(self.sums, self.codebook.level_offsets), self.moves)
            or mechanism.broken(all_cells(self.sums.total(), self.codebook.level_offsets), None)
            or (mechanism.broken(check_cells(self.checks), None) if self.checks else None)
            or impossible_overlap(self.sums, self.unknown)
        )


def selected_names(codebook: Codebook, inclusion: FloatArray | None) -> tuple[str, ...] | None:
    """Return which variables a selection has kept: all of it that leaves a site."""
    if inclusion is None:
        return None
    return tuple(name for name, c in zip(codebook.names, inclusion, strict=True) if c > 0.5)
