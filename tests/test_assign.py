"""Rows given to global clusters: the E step, with the site's own weights."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, logsumexp

from fedmerdel import DataError, GlobalModel, OptionError, Study, assign, fit_site, merge_sites
from fedmerdel.errors import FileError
from fedmerdel.site.assign import score_samples
from fedmerdel.site.labels_file import write_labels
from fedmerdel.site.site_table import row_ids
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import policy_named
from tests.reference import by_variable, log_rho

CODEBOOK = Codebook(
    (
        Variable("a", ("0", "1"), "integer"),
        Variable("b", ("no", "yes"), "text"),
        Variable("c", ("x", "y", "z"), "text"),
    )
)
STUDY = Study("s", CODEBOOK, max_clusters=4, policy=policy_named("none"), row_id="id")
SHARES = {"leeds": (0.8, 0.2), "york": (0.3, 0.7)}


def drawn(rows: int, shares: tuple[float, float], seed: int) -> np.ndarray:
    """Level numbers of two clusters, -1 for missing."""
    rng = np.random.default_rng(seed)
    second = rng.random(rows) >= shares[0]
    likely = np.where(second[:, None], [1, 1, 2], [0, 0, 0])
    any_level = np.column_stack([rng.integers(0, n, rows) for n in (2, 2, 3)])
    X = np.where(rng.random((rows, 3)) < 0.85, likely, any_level)
    X[rng.random(X.shape) < 0.03] = -1
    return X


def frame_of(X: np.ndarray) -> pd.DataFrame:
    values = [[*variable.values, None] for variable in CODEBOOK.variables]
    columns = {
        name: pd.array([known[at] for at in X[:, j]], dtype="Int64" if j == 0 else "str")
        for j, (name, known) in enumerate(zip("abc", values, strict=True))
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def model() -> GlobalModel:
    return merge_sites(
        STUDY,
        [fit_site(STUDY, frame_of(drawn(400, w, i)), s) for i, (s, w) in enumerate(SHARES.items())],
    )


def by_hand(model: GlobalModel, X: np.ndarray, T: np.ndarray) -> np.ndarray:
    """The E step: these rows a cluster for the weights, everyone's counts for the levels."""
    (_, S, _), prior = model.sums, model.prior
    total = T.sum() + prior.alpha * prior.n_components
    log_levels = [
        digamma(eps + part) - digamma((eps + part).sum(axis=1, keepdims=True))
        for eps, part in zip(
            by_variable(prior.eps, prior.n_levels), by_variable(S, prior.n_levels), strict=True
        )
    ]
    rho = log_rho(X, digamma(prior.alpha + T) - digamma(total), log_levels)
    return np.exp(rho - logsumexp(rho, axis=1, keepdims=True))


@pytest.mark.parametrize("site", ["leeds", "york", None])
def test_equals_the_e_step_by_hand(model: GlobalModel, site: str | None) -> None:
    X = drawn(300, (0.5, 0.5), 9)
    found = assign(model, frame_of(X), site)
    T = model.sums.T if site is None else model.site_rows[model.sites.index(site)]
    np.testing.assert_allclose(found.probabilities, by_hand(model, X, T), atol=1e-10)
    np.testing.assert_array_equal(found.labels, found.probabilities.argmax(axis=1))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)


def test_a_site_has_its_own_weights(model: GlobalModel) -> None:
    table = frame_of(drawn(300, (0.5, 0.5), 9))
    assert model.n_clusters > 1
    leeds, york, everyone = (assign(model, table, s).probabilities for s in ("leeds", "york", None))
    assert np.abs(leeds - york).max() > 0.05
    assert np.abs(leeds - everyone).max() > 0.01


def test_a_cluster_that_a_site_has_no_rows_of(model: GlobalModel) -> None:
    lone = fit_site(STUDY, frame_of(np.zeros((300, 3), dtype=int)), "hull")
    more = model.add(lone)
    found = assign(more, frame_of(drawn(50, (0.5, 0.5), 1)), "hull")
    assert np.isfinite(found.probabilities).all()


def test_an_unknown_site_is_refused(model: GlobalModel) -> None:
    with pytest.raises(OptionError, match="'hull' took no part in the model; it has 'leeds'"):
        assign(model, frame_of(drawn(5, (0.5, 0.5), 9)), "hull")


def test_threads_do_not_matter(model: GlobalModel) -> None:
    table = frame_of(drawn(9000, (0.5, 0.5), 9))
    one, two = (assign(model, table, "york", n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_scores_of_all_possible_rows_sum_to_one(model: GlobalModel) -> None:
    every = np.array(list(product(range(2), range(2), range(3))))
    assert np.exp(score_samples(model, frame_of(every))).sum() == pytest.approx(1.0)
    nothing_known = np.array([[-1, -1, -1]])
    assert score_samples(model, frame_of(nothing_known)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("n_jobs", [0, "2", 1.5, True])
def test_unusable_numbers_of_threads_are_refused(model: GlobalModel, n_jobs: Any) -> None:
    for work in (assign, score_samples):
        with pytest.raises(OptionError, match="n_jobs: give a whole number other than 0"):
            work(model, "nowhere.csv", n_jobs=n_jobs)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "ids", [[7, 8, 9], ["p7", "p8", "p9"], [7, None, 9], ["p7", None, "p9"], ["p7", "", "p9"]]
)
def test_labels_file_has_the_rows_own_names(
    model: GlobalModel, tmp_path: Path, ids: list, suffix: str
) -> None:
    table = frame_of(drawn(3, (0.5, 0.5), 9)).assign(id=pd.Series(ids).convert_dtypes())
    found = assign(model, table)
    path = tmp_path / f"labels{suffix}"
    write_labels(path, found, row_ids(STUDY, table), STUDY.row_id)
    read = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert list(read.columns) == ["id", "cluster", "probability"]
    assert [None if pd.isna(i) else i for i in read["id"]] == [i or None for i in ids]
    assert read["cluster"].tolist() == found.labels.tolist()
    np.testing.assert_allclose(read["probability"], found.probabilities.max(axis=1))


@pytest.mark.parametrize(
    ("ids", "texts"),
    [
        (["2020-01-31", None, "2020-02-01"], ["2020-01-31T00:00:00", None, "2020-02-01T00:00:00"]),
        (["2020-01-31 08:30", "2020-01-31 08:31", None],
         ["2020-01-31T08:30:00", "2020-01-31T08:31:00", None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_as_row_ids_are_written_as_iso_text(
    model: GlobalModel, tmp_path: Path, ids: list, texts: list, suffix: str
) -> None:
    table = frame_of(drawn(3, (0.5, 0.5), 9)).assign(id=pd.to_datetime(pd.Series(ids)))
    path = tmp_path / f"labels{suffix}"
    write_labels(path, assign(model, table), row_ids(STUDY, table), STUDY.row_id)
    read = pd.read_csv(path, dtype={"id": str}) if suffix == ".csv" else pd.read_parquet(path)
    assert [None if pd.isna(i) else i for i in read["id"]] == texts


def test_labels_without_a_row_id(model: GlobalModel, tmp_path: Path) -> None:
    table = frame_of(drawn(3, (0.5, 0.5), 9))
    assert row_ids(STUDY, table) is None
    write_labels(tmp_path / "labels.csv", assign(model, table), None, "id")
    assert list(pd.read_csv(tmp_path / "labels.csv").columns) == ["cluster", "probability"]


def test_labels_files_that_are_refused(model: GlobalModel, tmp_path: Path) -> None:
    found = assign(model, frame_of(drawn(3, (0.5, 0.5), 9)))
    for name in ("labels.xlsx", "labels", "nowhere/labels.csv"):
        with pytest.raises(FileError):
            write_labels(tmp_path / name, found, None, None)
    with pytest.raises(DataError, match="has the name of a result"):
        write_labels(tmp_path / "labels.csv", found, np.arange(3), "cluster")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of other kinds")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_only_the_owner_may_read_labels(model: GlobalModel, tmp_path: Path, suffix: str) -> None:
    found = assign(model, frame_of(drawn(3, (0.5, 0.5), 9)))
    path = tmp_path / f"labels{suffix}"
    path.touch(mode=0o644)
    before = os.umask(0)
    try:
        write_labels(path, found, None, None)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
import pyarrow.csv, pyarrow.parquet
from fedmerdel.site.assign import Assignment
from fedmerdel.site.labels_file import write_labels

def die(write):
    def half(table, part):
        write(table, part)
        os.kill(os.getpid(), signal.SIGKILL)
    return half

os.umask(0)
pyarrow.csv.write_csv = die(pyarrow.csv.write_csv)
pyarrow.parquet.write_table = die(pyarrow.parquet.write_table)
write_labels(Path(sys.argv[1]), Assignment(np.zeros(9, dtype=int), np.ones((9, 1))), None, None)
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions of other kinds")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_killed_process_leaves_nothing_that_others_may_read(tmp_path: Path, suffix: str) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / f"labels{suffix}")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.stat().st_size > 0
    assert stat.S_IMODE(left.stat().st_mode) == 0o600


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_earlier_labels_stay_if_writing_fails(
    model: GlobalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    found = assign(model, frame_of(drawn(3, (0.5, 0.5), 9)))
    path = tmp_path / f"labels{suffix}"
    path.write_text("earlier")

    def half(_: Any, part: Path) -> None:
        part.write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr("pyarrow.csv.write_csv", half)
    monkeypatch.setattr("pyarrow.parquet.write_table", half)
    with pytest.raises(FileError, match="can't be written"):
        write_labels(path, found, None, None)
    assert path.read_text() == "earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
