"""A validation as CSV sheets and a note, and back."""

from __future__ import annotations

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.note import count_text, wrap
from fedmerdel.release.scores import BETWEEN, NAMES, nats_step, with_between
from fedmerdel.release.sheets import cluster_columns
from fedmerdel.sums.arrays import FloatArray

SCORES, SHARES, LABELS = "scores.csv", "shares.csv", "labels.csv"

MINUS = "independence"
"""No clusters: what the others are compared with."""


def scores_sheet(nats: FloatArray, spread: FloatArray) -> str:
    """Return sum and spread of each gain, and of the difference of two."""
    rows = zip(_score_names(), with_between(nats), spread, strict=True)
    return write_grid(
        ["score", "minus", "nats", "spread"],
        ([*names, number_text(each), number_text(wide)] for names, each, wide in rows),
    )


def read_scores(data: bytes) -> tuple[FloatArray, FloatArray]:
    """Return sums and spreads of a sheet."""
    names, numbers = read_grid(SCORES, data, ["score", "minus"], ["nats", "spread"])
    if names != _score_names():
        raise FileError(f"file {SCORES!r}: its lines are not those of a validation: copy it again")
    nats = numbers[: len(NAMES), 0].copy()
    if not np.array_equal(numbers[:, 0], with_between(nats)):
        raise FileError(f"file {SCORES!r}: a difference is not that of its scores: copy it again")
    return nats, numbers[:, 1].copy()


def _score_names() -> list[list[str]]:
    first, second = BETWEEN
    return [*([name, MINUS] for name in NAMES), [NAMES[first], NAMES[second]]]


def shares_sheet(model_shares: FloatArray, site_rows: FloatArray, rows: FloatArray) -> str:
    """Return a line for each of the model's clusters: its share, and rows of the site in it."""
    lines = zip(cluster_columns(len(rows)), model_shares, site_rows, rows, strict=True)
    return write_grid(
        ["cluster", "model_share", "site_weights", "model_weights"],
        ([name, *map(number_text, numbers)] for name, *numbers in lines),
    )


def read_shares(data: bytes, n_clusters: int) -> FloatArray:
    """Return the three columns of a sheet: (3, K)."""
    columns = ["model_share", "site_weights", "model_weights"]
    names, numbers = read_grid(SHARES, data, ["cluster"], columns)
    check_names(SHARES, names, [[name] for name in cluster_columns(n_clusters)])
    return np.ascontiguousarray(numbers.T)


def labels_sheet(labels: FloatArray) -> str:
    """Return a line for each of the site's own clusters: its rows in each of the model's."""
    own = [f"own_{a}" for a in range(len(labels))]
    return write_grid(
        ["own_cluster", *cluster_columns(labels.shape[1])],
        ([name, *map(number_text, row)] for name, row in zip(own, labels, strict=True)),
    )


def read_labels(data: bytes, n_own: int, n_clusters: int) -> FloatArray:
    """Return the table of labels of a sheet: (own clusters, K)."""
    names, numbers = read_grid(LABELS, data, ["own_cluster"], cluster_columns(n_clusters))
    check_names(LABELS, names, [[f"own_{a}"] for a in range(n_own)])
    return numbers


def validation_note(
    labels: FloatArray,
    counts: FloatArray,
    mechanism: Mechanism,
    *,
    site: str,
    made_by: str,
    study_hash: str,
    model_hash: str,
    policy: str,
    document: str,
    rest: int | None,
    limit: float | None,
) -> str:
    """Return the text of ``README.txt``, for an output checker."""
    title = f"Validation of a model's clusters at site {site!r}"
    cells = np.concatenate([labels.ravel(), labels.sum(axis=0), labels.sum(axis=1), counts.ravel()])
    files = [
        (
            SCORES,
            "How much more probable the site's rows are than without clusters (nats: sum over all "
            "rows of the logarithm of a row's probability, less that under independence; spread: "
            "standard deviation of what a row adds) under the model's clusters, with the site's "
            "own frequencies of them (site_weights) and with the model's (model_weights), and "
            "under clusters found at the site (own_clusters). The last line is the first less the "
            "third.",
        ),
        (
            SHARES,
            "Each of the model's clusters: its share of the model's rows (known to all), and how "
            "many of the site's rows it has, with the site's own frequencies and with the "
            "model's. Both columns sum to the site's rows.",
        ),
        (
            LABELS,
            "How many rows of each cluster that was found at the site (lines) are in each of the "
            "model's (columns).",
        ),
        (document, "Names of site, study, model and software, and the policy."),
    ]
    parts = [
        title + "\n" + "=" * len(title),
        wrap(
            "These files say how well clusters that were found elsewhere fit this site. They hold "
            "counts and sums over rows: there is no row, no identifier, no date and no free text "
            f"of a person inside. {count_text(counts[0].sum())} rows are described."
        ),
        "Files\n-----",
        *(f"{name}\n{wrap(text, '  ')}" for name, text in files),
        "Disclosure control\n------------------",
        wrap(mechanism.done if limit is None else _protection(mechanism, limit)),
        wrap(
            f"Of {cells.size} counts that are told here, or follow by adding up, "
            f"{int((cells == 0).sum())} are 0 and the smallest other is "
            f"{count_text(cells[cells > 0].min())}. A 0 means: {mechanism.zero}."
            + (f" Cluster own_{rest} is what the others leave." if rest is not None else "")
        ),
        wrap(
            f"Policy: {policy}, {mechanism.rule}. Software: {made_by}. Study: {study_hash}. "
            f"Model: {model_hash}."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _protection(mechanism: Mechanism, limit: float) -> str:
    """Return what was done to the numbers, where there is a rule."""
    return (
        f"Every count is 0 or at least {mechanism.smallest}, and so is every sum of a line or of a "
        "column of the table of labels, and the sum of all. Counts that are too small, as a sum of "
        "parts or in people, were set to 0 and their rows added to the line's largest count. One "
        "cluster of the site's own, the largest, is not counted but is what the others leave of "
        "the site's rows in each of the model's clusters; clusters too small to be told are in "
        "it. Sums of logarithms are of all rows of the site, each counted once. A row adds or "
        f"takes {limit:.3g} nats at most, however improbable it is, and sums are rounded to steps "
        f"of {nats_step(limit, mechanism.smallest):.3g} nats: fewer rows than the smallest count "
        "move a sum by less than a step. Spreads are computed from sums of squares that were "
        "rounded up in the same way."
    )
