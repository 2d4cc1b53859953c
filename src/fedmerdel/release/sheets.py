"""A summary as a JSON document and CSV sheets, and back.

Sheets are read by position against the codebook, so a level may be called "(missing)"; the
names beside the numbers are for people, and are checked.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedmerdel.errors import DataError, FileError
from fedmerdel.mixture.prior import FloatArray
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.release.cells import DUST, OutcomeCounts
from fedmerdel.release.report import DisclosureReport
from fedmerdel.release.summary import SiteSummary, missing_counts
from fedmerdel.study.codebook import Codebook

ROWS = "(rows)"
MISSING = "(missing)"

# float() alone takes "1_000" and digits of other scripts.
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")

ENTRIES: dict[str, type | tuple[type, ...]] = {
    "study_hash": str,
    "site": str,
    "software": str,
    "n_components": int,
    "n_clusters": int,
    "elbo": (int, float),
    "selected": (list, type(None)),
    "outcomes": list,
    "disclosure": dict,
    "codebook": dict,
}


def to_sheets(summary: SiteSummary) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the content of ``summary.json``, and each sheet by its file name."""
    document = {
        "study_hash": summary.study_hash,
        "site": summary.site,
        "software": summary.software,
        "n_components": int(summary.n_components),
        "n_clusters": summary.n_clusters,
        "elbo": float(summary.elbo),
        "selected": None if summary.selected is None else list(summary.selected),
        "outcomes": list(summary.outcomes),
        "disclosure": summary.report.to_dict(),
        "codebook": summary.codebook.to_dict(),
    }
    T, S, h = summary.statistics
    clusters = _columns(summary.n_clusters)
    sheets = {
        "counts.csv": _sheet(["variable", "level", *clusters], _count_rows(summary, T, S)),
        "overlap.csv": _sheet(
            ["cluster", "h", *clusters],
            (
                [name, _text(own), *map(_text, row)]
                for name, own, row in zip(clusters, h, summary.overlap, strict=True)
            ),
        ),
    }
    if summary.outcomes:
        sheets["outcomes.csv"] = _sheet(
            ["outcome", "rows", *clusters],
            (
                [name, part, *map(_text, array)]
                for name, counts in summary.outcomes.items()
                for part, array in counts._asdict().items()
            ),
        )
    return document, sheets


def from_sheets(document: dict[str, Any], texts: dict[str, str]) -> SiteSummary:
    """Read what `to_sheets` made.

    Raises
    ------
    FileError
        Without the name of the folder: the file, and what is wrong with it.
    DataError
        If all can be read, and the numbers are impossible.
    """
    if set(document) != set(ENTRIES):
        raise FileError(f"file 'summary.json' must have the entries {', '.join(ENTRIES)}, only")
    for name, kind in ENTRIES.items():
        if not isinstance(document[name], kind) or isinstance(document[name], bool):
            raise FileError(f"file 'summary.json': {name!r} is not what it should be")
    try:
        codebook = Codebook.from_dict(document["codebook"])
        report = DisclosureReport.from_dict(document["disclosure"])
    except DataError as error:
        raise FileError(f"file 'summary.json': {error}") from None
    clusters = _columns(document["n_clusters"])
    T, S = _read_counts(texts["counts.csv"], clusters, codebook)
    names, overlap = _numbers("overlap.csv", texts["overlap.csv"], ["cluster"], ["h", *clusters])
    _check_names("overlap.csv", names, [[name] for name in clusters])
    return SiteSummary(
        study_hash=document["study_hash"],
        site=document["site"],
        software=document["software"],
        n_components=document["n_components"],
        statistics=Statistics(T, S, overlap[:, 0].copy()),
        overlap=overlap[:, 1:].copy(),
        outcomes=_read_outcomes(texts.get("outcomes.csv"), clusters, document["outcomes"]),
        elbo=float(document["elbo"]),
        selected=None if document["selected"] is None else tuple(document["selected"]),
        report=report,
        codebook=codebook,
    )


def _columns(n_clusters: int) -> list[str]:
    return [f"cluster_{k}" for k in range(n_clusters)]


def _text(number: float) -> str:
    """Return a whole number plainly, and any other so that it reads back to the last bit."""
    plain = float(number).is_integer() and abs(number) < 2**53
    if plain and not (number == 0 and np.signbit(number)):
        return str(int(number))
    return repr(float(number))


def _sheet(header: list[str], rows: Iterable[list[str]]) -> str:
    file = io.StringIO()
    # The line ends of RFC 4180; with these, texts that hold either sign are quoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()


def _count_rows(summary: SiteSummary, T: FloatArray, S: FloatArray) -> Iterable[list[str]]:
    yield [ROWS, "", *map(_text, T)]
    missing = missing_counts(summary)
    at = 0
    for j, variable in enumerate(summary.codebook.variables):
        for level in variable.levels:
            yield [variable.name, level, *map(_text, S[:, at])]
            at += 1
        if missing[:, j].any():
            yield [variable.name, MISSING, *map(_text, missing[:, j])]


def _read_counts(text: str, clusters: list[str], codebook: Codebook) -> tuple[FloatArray, ...]:
    file = "counts.csv"
    names, numbers = _numbers(file, text, ["variable", "level"], clusters)
    _check_names(file, names[:1], [[ROWS, ""]])
    T, at = numbers[0].copy(), 1
    levels = []
    for variable in codebook.variables:
        end = at + len(variable.levels)
        _check_names(file, names[at:end], [[variable.name, level] for level in variable.levels])
        levels.append(numbers[at:end])
        told = numbers[at:end].sum(axis=0)
        # Two variables have two names, so one row more of this name is the missing one.
        if end < len(names) and names[end][0] == variable.name:
            _check_names(file, [names[end]], [[variable.name, MISSING]])
            told, end = told + numbers[end], end + 1
        if not np.all(np.abs(told - T) <= DUST * np.maximum(T, 1.0)):
            raise FileError(
                f"file {file!r}: the rows of {variable.name!r} don't sum to the cluster's rows: "
                "it was changed, copy it again"
            )
        at = end
    _check_names(file, names[at:], [])
    return T, np.ascontiguousarray(np.concatenate(levels).T)


def _read_outcomes(
    text: str | None, clusters: list[str], outcomes: list[Any]
) -> dict[str, OutcomeCounts]:
    file = "outcomes.csv"
    if (text is not None) != bool(outcomes):
        raise FileError(f"file {file!r} and the outcomes in 'summary.json' don't fit: copy again")
    if text is None:
        return {}
    names, numbers = _numbers(file, text, ["outcome", "rows"], clusters)
    _check_names(file, names, [[name, part] for name in outcomes for part in OutcomeCounts._fields])
    return {
        name: OutcomeCounts(numbers[2 * i].copy(), numbers[2 * i + 1].copy())
        for i, name in enumerate(outcomes)
    }


def _numbers(
    file: str, text: str, labels: list[str], columns: list[str]
) -> tuple[list[list[str]], FloatArray]:
    """Return the label columns of a sheet, and its numbers."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError):
        raise FileError(f"file {file!r} is no table: copy it again") from None
    if header != labels + columns:
        raise FileError(f"file {file!r}: its columns must be {', '.join(labels + columns)}")
    if not rows:
        raise FileError(f"file {file!r} has no rows: copy it again")
    for at, row in enumerate(rows, start=2):
        if len(row) != len(header) or not all(map(NUMBER.fullmatch, row[len(labels) :])):
            raise FileError(f"file {file!r}, row {at}: expected {len(columns)} numbers")
    numbers = np.array([row[len(labels) :] for row in rows]).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise FileError(f"file {file!r} has a number too large to be one: copy it again")
    return [row[: len(labels)] for row in rows], numbers.reshape(len(rows), len(columns))


def _check_names(file: str, found: list[list[str]], expected: list[list[str]]) -> None:
    if found != expected:
        raise FileError(
            f"file {file!r}: its rows are not those of the codebook, in order: copy it again"
        )
