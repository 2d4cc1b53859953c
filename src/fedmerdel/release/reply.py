"""A site's reply to a broadcast: its sums in the clusters that the centre has sent out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedmerdel.bundles import Files, read_files, unpack
from fedmerdel.errors import FileError
from fedmerdel.files import MOST_BYTES
from fedmerdel.release.bounds import impossible_moves
from fedmerdel.release.cells import DUST, wrong_arrays
from fedmerdel.release.mechanism import MoveSums
from fedmerdel.release.sheets import HALVES, counts_sheet, read_counts
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.halves import FirstHalves


@dataclass(frozen=True, eq=False, kw_only=True)
class Reply(SiteSummary):
    """A site's sums in the clusters of a broadcast, under disclosure control.

    Its clusters are those that were sent, in their order, also where the site has no rows in
    one or tells nothing of it. Besides what a summary has:

    Parameters
    ----------
    broadcast : str
        Hash of what was sent out.
    moves : MoveSums or None
        What splits and deletions would bring, where the release mechanism tells it.
    """

    NOUN: ClassVar[str] = "reply"
    KIND: ClassVar[str] = "fedmerdel reply"
    VERSION: ClassVar[int] = 5
    COMPLETE: ClassVar[bool] = True
    DOCUMENT: ClassVar[str] = "reply.json"
    KEEPS: ClassVar[dict[str, str]] = {
        **SiteSummary.KEEPS,
        "broadcast": "counts of another round",
    }
    OPTIONAL: ClassVar[tuple[str, ...]] = (*SiteSummary.OPTIONAL, HALVES)
    ENTRIES: ClassVar[dict[str, type | tuple[type, ...]]] = {
        **SiteSummary.ENTRIES,
        "broadcast": str,
    }

    broadcast: str
    moves: MoveSums | None = None

    def _document(self) -> dict[str, Any]:
        return {**super()._document(), "broadcast": self.broadcast}

    def _single(self) -> dict[str, FloatArray]:
        if self.moves is None:
            return super()._single()
        return {**super()._single(), "cost": self.moves.cost, "blur": self.moves.halves.blur}

    @classmethod
    def _single_names(cls, files: Files) -> list[str]:
        return ["h", "cost", "blur"] if HALVES in files else ["h"]

    def _more_sheets(self) -> dict[str, str]:
        if self.moves is None:
            return {}
        halves = self.moves.halves
        return {HALVES: counts_sheet(self.codebook, halves.T, halves.S)}

    def _noted(self) -> dict[str, bool]:
        return {"reply": True, "moves": self.moves is not None}

    @classmethod
    def _more_fields(
        cls,
        document: dict[str, Any],
        files: Files,
        single: dict[str, FloatArray],
        codebook: Codebook,
    ) -> dict[str, Any]:
        moves = None
        if HALVES in files:
            T, S = read_counts(HALVES, files[HALVES], len(single["h"]), codebook)
            moves = MoveSums(FirstHalves(T, S, single["blur"]), single["cost"])
        return {**super()._more_fields(document, files, single, codebook), "moves": moves}

    def _impossible(self) -> str | None:
        """Return the first thing that can't be, or None."""
        if self.n_clusters < 1:
            return "it has no clusters"
        reason = self._impossible_sums()
        if reason is None and self.sums.T.sum() <= 0:
            return "it has no rows"
        if not isinstance(self.broadcast, str) or not self.broadcast:
            return "it does not say what it replies to"
        return reason or self._impossible_moves()

    def _impossible_moves(self) -> str | None:
        if self.moves is None:
            return None
        (K, M), (halves, cost) = self.sums.S.shape, self.moves
        wrong = wrong_arrays(
            {
                "rows of the halves": (halves.T, (K,)),
                "counts of the halves": (halves.S, (K, M)),
                "blur": (halves.blur, (K,)),
                "cost": (cost, (K,)),
            }
        )
        if wrong is not None:
            return wrong
        if cost.max() > 0:
            return "cost is above 0, and no logarithm of a share is"
        slack = DUST * np.maximum(self.sums.T, 1.0)
        more = np.any(halves.S > self.sums.S + slack[:, None])
        if more or np.any(halves.T > self.sums.T + slack):
            return "a half has more rows than its cluster"
        for start, end in pairwise(self.codebook.level_offsets):
            if np.any(halves.S[:, start:end].sum(axis=1) > halves.T + slack):
                return "the levels of a variable sum to more than the half's rows"
        return impossible_moves(self.sums, self.moves)


def load_release(path: str | Path) -> SiteSummary:
    """Read what a site wrote to a folder or zip: a summary, or a reply."""
    where = f"{str(path)!r}"
    return read_release(read_files(path, where), where)


def release_from_bytes(data: bytes, most_bytes: int = MOST_BYTES) -> SiteSummary:
    """Read what a site sent as bytes: a summary, or a reply."""
    return read_release(unpack(data, "what arrived", most_bytes), "what arrived")


def read_release(files: Files, where: str) -> SiteSummary:
    """Read files that came from somewhere, which messages name: a summary, or a reply."""
    for kind in (Reply, SiteSummary):
        if kind.DOCUMENT in files:
            return kind.read(files, f"{kind.NOUN} {where}")
    raise FileError(f"{where} is no summary and no reply: it has neither of their files")
