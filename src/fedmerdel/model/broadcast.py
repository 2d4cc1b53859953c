"""What the centre sends to the sites before an exchange: clusters, and no site's counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import check_place, is_empty_folder, read_json, replacement, write_json
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.study.priors import study_prior
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.cuts import Cuts
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior

KIND = "fedmerdel broadcast"
VERSION = 1
SHEET = "expectations.csv"
PARTS = {"broadcast.json", "study.toml", SHEET}

WEIGHTS = "(weights)"

MOST_CLUSTERS = 100_000
"""No model comes near; a file that tells of more is damaged."""


@dataclass(frozen=True, eq=False)
class Broadcast:
    """The clusters that every site gives its rows to in the next exchange.

    Attributes
    ----------
    study : Study
        What the sites agreed on.
    number : int
        The exchange that it is for, from 1.
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

    study: Study = field(repr=False)
    number: int
    clusters: Expectations = field(repr=False)
    cuts: Cuts = field(repr=False)
    uncut: NDArray[np.bool_] = field(repr=False)
    eps: FloatArray = field(repr=False)
    selected: tuple[str, ...] | None = None

    @property
    def n_clusters(self) -> int:
        """Clusters that rows are given to."""
        return self.clusters.n_clusters

    @cached_property
    def hash(self) -> str:
        """A fingerprint of all of it: replies name what they answer."""
        digest = hashlib.sha256(f"{self.study.hash} {self.number} {self.selected}".encode())
        for array in (*self.clusters, *self.cuts, self.uncut, self.eps):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    @property
    def prior(self) -> Prior:
        """The prior for proposals of halves."""
        prior = study_prior(self.study, self.study.max_clusters)._replace(eps=self.eps)
        if self.selected is None:
            return prior
        told = np.isin(self.study.codebook.names, self.selected).astype(np.float64)
        return prior._replace(inclusion=told)

    def save(self, path: str | Path) -> None:
        """Write a folder of readable files, whole or not at all."""
        check_broadcast_place(path)
        with replacement(path, "folder") as part:
            part.mkdir(parents=True)
            self.write(part)

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        columns = np.column_stack(
            [self.eps, self.clusters.log_levels.T, self.cuts.direction.T]
        ).tolist()
        weights = [0.0, *self.clusters.log_weights, *self.cuts.offset]
        rows = [[*names, *map(number_text, row)] for names, row in zip(
            _level_names(self.study), columns, strict=True
        )]  # fmt: skip
        rows.insert(0, [WEIGHTS, "", *map(number_text, weights)])
        header = ["variable", "level", *_columns(self.n_clusters)]
        self.study.save(folder / "study.toml")
        (folder / SHEET).write_text(write_grid(header, rows), encoding="utf-8", newline="")
        content = {
            "study_hash": self.study.hash,
            "exchange": self.number,
            "n_clusters": self.n_clusters,
            "uncut": np.flatnonzero(self.uncut).tolist(),
            "selected": None if self.selected is None else list(self.selected),
            "hash": self.hash,
        }
        write_json(folder / "broadcast.json", KIND, VERSION, content)

    @classmethod
    def load(cls, path: str | Path) -> Broadcast:
        """Read what `save` wrote, or the part of a model's folder that holds it.

        Raises
        ------
        FileError
            If a file is missing, damaged or was changed.
        """
        source = Path(path)
        if (source / "broadcast").is_dir():
            source = source / "broadcast"
        if not source.is_dir():
            raise FileError(f"{str(source)!r} is no folder of a model, or its part broadcast/")
        content = read_json(source / "broadcast.json", KIND, VERSION)
        study = Study.load(source / "study.toml")
        try:
            K = int(content["n_clusters"])
            if not 0 < K <= MOST_CLUSTERS or content["study_hash"] != study.hash:
                raise FileError(SHEET)
            text = (source / SHEET).read_bytes().decode("utf-8-sig")
            names, numbers = read_grid(SHEET, text, ["variable", "level"], _columns(K))
            check_names(SHEET, names, [[WEIGHTS, ""], *_level_names(study)])
            uncut = np.zeros(K, dtype=np.bool_)
            uncut[content["uncut"]] = True
            weights, levels = numbers[0], np.ascontiguousarray(numbers[1:].T)
            selected = content["selected"]
            found = cls(
                study,
                int(content["exchange"]),
                Expectations(weights[1 : K + 1].copy(), levels[1 : K + 1].copy()),
                Cuts(weights[K + 1 :].copy(), levels[K + 1 :].copy()),
                uncut,
                levels[0].copy(),
                None if selected is None else tuple(selected),
            )
            if found.hash == content["hash"]:
                return found
        except (OSError, KeyError, TypeError, ValueError, IndexError, FileError, DataError):
            pass
        raise FileError(f"folder {str(source)!r} is damaged or was changed: copy it again")


def _columns(n_clusters: int) -> list[str]:
    return [
        "prior",
        *(f"cluster_{k}" for k in range(n_clusters)),
        *(f"cut_{k}" for k in range(n_clusters)),
    ]


def _level_names(study: Study) -> list[list[str]]:
    return [[v.name, level] for v in study.codebook.variables for level in v.levels]


def check_broadcast_place(path: str | Path) -> None:
    """Refuse to write over anything but an empty folder or an earlier broadcast."""
    target = Path(path)
    check_place(target, "folder", make_parents=True)
    if not target.exists() or is_empty_folder(target):
        return
    if target.is_dir() and {entry.name for entry in target.iterdir()} == PARTS:
        return
    raise FileError(f"{str(target)!r} is there and is no broadcast: name another folder")
