"""A summary as a JSON document and CSV sheets, and back.

Sheets are read by position against the codebook, so a level may be called "(missing)"; the
names beside the numbers are for people, and are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedmerdel.errors import DataError, FileError
from fedmerdel.release.answer import Answer, Prospects
from fedmerdel.release.cells import DUST, OutcomeCounts, missing_counts
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.release.report import DisclosureReport
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.cuts import FirstHalves
from fedmerdel.sums.sums import Sums

ROWS = "(rows)"
MISSING = "(missing)"

MOST_CLUSTERS = 100_000
"""No site comes near; a file that tells of more is damaged."""

ENTRIES: dict[str, type | tuple[type, ...]] = {
    "study_hash": str,
    "site": str,
    "software": str,
    "n_components": int,
    "n_clusters": int,
    "elbo": (int, float),
    "selected": (list, type(None)),
    "answers": (str, type(None)),
    "evidence": (int, float, type(None)),
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
        "answers": None if summary.answer is None else summary.answer.broadcast,
        "evidence": None if summary.answer is None else float(summary.answer.evidence),
        "outcomes": list(summary.outcomes),
        "disclosure": summary.report.to_dict(),
        "codebook": summary.codebook.to_dict(),
    }
    T, S, h = summary.statistics
    clusters = _columns(summary.n_clusters)
    prospects = None if summary.answer is None else summary.answer.prospects
    single = {"h": h}
    if prospects is not None:
        single |= {"cost": prospects.cost, "blur": prospects.halves.blur}
    sheets = {
        "counts.csv": write_grid(
            ["variable", "level", *clusters], _count_rows(summary.codebook, T, S)
        ),
        "overlap.csv": write_grid(
            ["cluster", *single, *clusters],
            (
                [name, *map(number_text, own), *map(number_text, row)]
                for name, own, row in zip(
                    clusters, np.stack(list(single.values()), axis=1), summary.overlap, strict=True
                )
            ),
        ),
    }
    if prospects is not None:
        sheets["halves.csv"] = write_grid(
            ["variable", "level", *clusters],
            _count_rows(summary.codebook, prospects.halves.T, prospects.halves.S),
        )
    if summary.outcomes:
        sheets["outcomes.csv"] = write_grid(
            ["outcome", "rows", *clusters],
            (
                [name, part, *map(number_text, array)]
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
    if not 0 < document["n_clusters"] <= MOST_CLUSTERS:
        raise FileError("file 'summary.json': 'n_clusters' is not what it should be")
    clusters = _columns(document["n_clusters"])
    T, S = _read_counts("counts.csv", texts["counts.csv"], clusters, codebook)
    single = ["h", "cost", "blur"] if "halves.csv" in texts else ["h"]
    columns = [*single, *clusters]
    names, overlap = read_grid("overlap.csv", texts["overlap.csv"], ["cluster"], columns)
    check_names("overlap.csv", names, [[name] for name in clusters])
    answer = _read_answer(document, texts.get("halves.csv"), clusters, codebook, overlap)
    return SiteSummary(
        study_hash=document["study_hash"],
        site=document["site"],
        software=document["software"],
        n_components=document["n_components"],
        statistics=Sums(T, S, overlap[:, 0].copy()),
        overlap=overlap[:, len(single) :].copy(),
        outcomes=_read_outcomes(texts.get("outcomes.csv"), clusters, document["outcomes"]),
        elbo=float(document["elbo"]),
        selected=None if document["selected"] is None else tuple(document["selected"]),
        report=report,
        codebook=codebook,
        answer=answer,
    )


def _read_answer(
    document: dict[str, Any],
    text: str | None,
    clusters: list[str],
    codebook: Codebook,
    overlap: FloatArray,
) -> Answer | None:
    answers, evidence = document["answers"], document["evidence"]
    if (answers is None) != (evidence is None) or (answers is None and text is not None):
        raise FileError("file 'summary.json': what it answers is not whole: copy it again")
    if answers is None:
        return None
    prospects = None
    if text is not None:
        first = _read_counts("halves.csv", text, clusters, codebook)
        prospects = Prospects(FirstHalves(*first, overlap[:, 2].copy()), overlap[:, 1].copy())
    return Answer(answers, float(evidence), prospects)


def _columns(n_clusters: int) -> list[str]:
    return [f"cluster_{k}" for k in range(n_clusters)]


def _count_rows(codebook: Codebook, T: FloatArray, S: FloatArray) -> Iterable[list[str]]:
    yield [ROWS, "", *map(number_text, T)]
    missing = missing_counts(T, S, codebook)
    at = 0
    for j, variable in enumerate(codebook.variables):
        for level in variable.levels:
            yield [variable.name, level, *map(number_text, S[:, at])]
            at += 1
        if missing[:, j].any():
            yield [variable.name, MISSING, *map(number_text, missing[:, j])]


def _read_counts(
    file: str, text: str, clusters: list[str], codebook: Codebook
) -> tuple[FloatArray, FloatArray]:
    names, numbers = read_grid(file, text, ["variable", "level"], clusters)
    check_names(file, names[:1], [[ROWS, ""]])
    T, at = numbers[0].copy(), 1
    levels = []
    for variable in codebook.variables:
        end = at + len(variable.levels)
        check_names(file, names[at:end], [[variable.name, level] for level in variable.levels])
        levels.append(numbers[at:end])
        told = numbers[at:end].sum(axis=0)
        # Two variables have two names, so one row more of this name is the missing one.
        if end < len(names) and names[end][0] == variable.name:
            check_names(file, [names[end]], [[variable.name, MISSING]])
            told, end = told + numbers[end], end + 1
        if not np.all(np.abs(told - T) <= DUST * np.maximum(T, 1.0)):
            raise FileError(
                f"file {file!r}: the rows of {variable.name!r} don't sum to the cluster's rows: "
                "it was changed, copy it again"
            )
        at = end
    check_names(file, names[at:], [])
    return T, np.ascontiguousarray(np.concatenate(levels).T)


def _read_outcomes(
    text: str | None, clusters: list[str], outcomes: list[Any]
) -> dict[str, OutcomeCounts]:
    file = "outcomes.csv"
    if (text is not None) != bool(outcomes):
        raise FileError(f"file {file!r} and the outcomes in 'summary.json' don't fit: copy again")
    if text is None:
        return {}
    names, numbers = read_grid(file, text, ["outcome", "rows"], clusters)
    check_names(file, names, [[name, part] for name in outcomes for part in OutcomeCounts._fields])
    return {
        name: OutcomeCounts(numbers[2 * i].copy(), numbers[2 * i + 1].copy())
        for i, name in enumerate(outcomes)
    }
