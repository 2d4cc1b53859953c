"""What the centre sends to the sites for a round: clusters, and no site's counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from fedmerdel.bundles import Files, damaged
from fedmerdel.errors import DataError, FileError
from fedmerdel.parcels import Parcel
from fedmerdel.release.grid import number_text, read_grid, write_grid
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import BoolArray, FloatArray, plain_whole, plain_whole_numbers
from fedmerdel.sums.components import MOST_COMPONENTS
from fedmerdel.sums.cuts import Cuts
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import SMALLEST

SHEET = "expectations.csv"
WEIGHTS = "(weights)"


@dataclass(frozen=True, eq=False)
class Broadcast(Parcel):
    """The clusters that every site gives its rows to in a round.

    It carries the study's hash and no study: a site replies under the study that it has.

    Attributes
    ----------
    study_hash : str
        Hash of the study.
    number : int
        The round that it is for, from 1.
    levels : tuple of (str, str)
        Variable and level of each of M levels, as the study's codebook has them.
    clusters : Expectations
        What an E step reads, for each of K clusters.
    cuts : Cuts
        A cut through each of them, along which its halves are counted.
    uncut : bool array (K,)
        Clusters without a cut: the sites are to propose halves.
    eps : float64 array (M,)
        The centre's prior of the levels, for these proposals.
    selected : tuple of str or None
        Variables that tell clusters apart, where the study selects some.
    """

    NOUN: ClassVar[str] = "broadcast"
    KIND: ClassVar[str] = "fedmerdel broadcast"
    VERSION: ClassVar[int] = 2
    DOCUMENT: ClassVar[str] = "broadcast.json"
    NEEDED: ClassVar[tuple[str, ...]] = (SHEET,)

    study_hash: str
    number: int
    levels: tuple[tuple[str, str], ...] = field(repr=False)
    clusters: Expectations = field(repr=False)
    cuts: Cuts = field(repr=False)
    uncut: BoolArray = field(repr=False)
    eps: FloatArray = field(repr=False)
    selected: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no centre can mean."""
        K, M = len(self.clusters.log_weights), len(self.levels)
        shapes = [array.shape for array in (*self.clusters, *self.cuts, self.uncut, self.eps)]
        variables = {variable for variable, _ in self.levels}
        fits = (
            shapes == [(K,), (K, M), (K,), (K, M), (K,), (M,)]
            and all(np.isfinite(array).all() for array in (*self.clusters, *self.cuts, self.eps))
            and self.eps.min() >= SMALLEST
            and self.number >= 1
            and set(self.selected or ()) <= variables
        )
        if not fits:
            raise DataError(
                "broadcast: its parts don't fit each other: ask the centre for it again"
            )

    @property
    def n_clusters(self) -> int:
        """Clusters that rows are given to."""
        return self.clusters.n_clusters

    @cached_property
    def hash(self) -> str:
        """A fingerprint of all of it: replies name what they reply to."""
        text = f"{self.study_hash} {self.number} {self.selected} {self.levels}"
        digest = hashlib.sha256(text.encode())
        for array in (*self.clusters, *self.cuts, self.uncut, self.eps):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def check_study(self, study: Study) -> None:
        """Refuse a broadcast of another study than the one at hand, or of another centre.

        Raises
        ------
        DataError
            If it is of another study, or of other variables, or not signed by the centre where
            the study lists keys.
        """
        if self.study_hash != study.hash or self.levels != level_names(study.codebook):
            raise DataError(
                f"the broadcast is of another study than {study.name!r}, or of another version of "
                "it: ask the centre which study it is for"
            )
        if self.number > study.rounds:
            agreed = f"{study.rounds} {'round' if study.rounds == 1 else 'rounds'}"
            raise DataError(
                f"the broadcast is for round {self.number}, and the study {study.name!r} agrees on "
                f"{agreed}: go no further, or agree on a new study"
            )
        if (self.selected is not None) != study.variable_selection:
            raise DataError(
                "the broadcast selects variables, and the study does not, or vice versa"
            )
        self.check_signed(study.centre_key, "the centre")

    def _made_files(self) -> Files:
        """Return the content of each file by its name."""
        columns = [self.eps, self.clusters.log_levels.T, self.cuts.direction.T]
        weights = [0.0, *self.clusters.log_weights, *self.cuts.offset]
        rows = [[WEIGHTS, "", *map(number_text, weights)]]
        for names, row in zip(self.levels, np.column_stack(columns).tolist(), strict=True):
            rows.append([*names, *map(number_text, row)])
        content = {
            "study_hash": self.study_hash,
            "round": self.number,
            "n_clusters": self.n_clusters,
            "uncut": np.flatnonzero(self.uncut).tolist(),
            "selected": None if self.selected is None else list(self.selected),
            "hash": self.hash,
        }
        header = ["variable", "level", *_columns(self.n_clusters)]
        return {
            self.DOCUMENT: self._document_bytes(content),
            SHEET: write_grid(header, rows).encode(),
        }

    @classmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned, if nothing of it was changed."""
        content = cls._read_document(files)
        try:
            K = plain_whole(content["n_clusters"])
            if not 0 < K <= MOST_COMPONENTS:
                raise ValueError(K)
            names, numbers = read_grid(SHEET, files[SHEET], ["variable", "level"], _columns(K))
            without = plain_whole_numbers(content["uncut"])
            uncut = np.isin(np.arange(K), without)
            if uncut.sum() < len(without):
                raise ValueError("no such cut")
            weights, levels = numbers[0], np.ascontiguousarray(numbers[1:].T)
            selected = content["selected"]
            found = cls(
                content["study_hash"],
                plain_whole(content["round"]),
                tuple((variable, level) for variable, level in names[1:]),
                Expectations(weights[1 : K + 1].copy(), levels[1 : K + 1].copy()),
                Cuts(weights[K + 1 :].copy(), levels[K + 1 :].copy()),
                uncut,
                levels[0].copy(),
                None if selected is None else tuple(selected),
            )
            if names[0] == [WEIGHTS, ""] and found.hash == content["hash"]:
                return found
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, FileError):
            pass
        raise FileError(damaged(cls.DOCUMENT, "or was changed"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, or the part of a centre's folder that holds it."""
        inside = Path(path) / "broadcast"
        return super().load(inside if inside.is_dir() else path)


def level_names(codebook: Codebook) -> tuple[tuple[str, str], ...]:
    """Return variable and level of each level."""
    return tuple((v.name, level) for v in codebook.variables for level in v.levels)


def _columns(n_clusters: int) -> list[str]:
    return [
        "prior",
        *(f"cluster_{k}" for k in range(n_clusters)),
        *(f"cut_{k}" for k in range(n_clusters)),
    ]
