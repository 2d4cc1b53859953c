"""Rows given to global clusters: the E step, with weights that the site's own rows lead to."""

from __future__ import annotations

import inspect
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, logsumexp

from fedmerdel import (
    DataError,
    Federation,
    GlobalModel,
    OptionError,
    Study,
    assign,
    draft_study,
    fit_site,
    merge_sites,
    simulate,
)
from fedmerdel.errors import FileError
from fedmerdel.fitting.passes import Workers, label_rows, responsibilities
from fedmerdel.site.assign import score_samples, site_expectations
from fedmerdel.site.labels_file import write_labels
from fedmerdel.site.site_table import row_ids, study_rows
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import policy_named
from fedmerdel.sums.expectations import expectations, expected_log_weights
from tests.command_line import Run, agree, done, first_merge, refused
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
def federation() -> Federation:
    return merge_sites(
        STUDY,
        [fit_site(STUDY, frame_of(drawn(400, w, i)), s) for i, (s, w) in enumerate(SHARES.items())],
    )


@pytest.fixture(scope="module")
def model(federation: Federation) -> GlobalModel:
    return federation.model


def levels_by_hand(model: GlobalModel) -> list[np.ndarray]:
    """E[ln phi] of everyone's counts; variables that a study did not select tell nothing."""
    prior, found = model.prior, []
    cut = (by_variable(each, prior.n_levels) for each in (prior.eps, model.sums.S))
    for name, eps, S in zip(model.study.codebook.names, *cut, strict=True):
        told = not model.study.variable_selection or name in model.selected
        expected = digamma(eps + S) - digamma((eps + S).sum(axis=1, keepdims=True))
        found.append(expected if told else np.zeros_like(S))
    return found


def shares_by_hand(log_levels: list[np.ndarray], X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One E step with these weights of the clusters."""
    rho = log_rho(X, np.log(weights), log_levels)
    return np.exp(rho - logsumexp(rho, axis=1, keepdims=True))


def weights_by_hand(
    model: GlobalModel, X: np.ndarray, row_weights: np.ndarray, passes: int = 20
) -> np.ndarray:
    """EM for pi_b ~ Dirichlet(1 pi) with the levels as they are, as the formulas have it."""
    pi = (model.prior.alpha + model.sums.T) / (model.prior.alpha + model.sums.T).sum()
    log_levels, own = levels_by_hand(model), pi
    for _ in range(passes):
        r = shares_by_hand(log_levels, X, own)
        own = (1.0 * pi + row_weights @ r) / (1.0 + row_weights.sum())
    return own


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.5, 0.5), (0.02, 0.98)])
@pytest.mark.parametrize("rows", [1, 7, 300])
def test_equals_the_e_step_by_hand(
    model: GlobalModel, rows: int, shares: tuple[float, float]
) -> None:
    X = drawn(rows, shares, 9)
    found = assign(model, frame_of(X))
    expected = shares_by_hand(levels_by_hand(model), X, weights_by_hand(model, X, np.ones(rows)))
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-10)
    np.testing.assert_array_equal(found.labels, found.probabilities.argmax(axis=1))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0)


@pytest.mark.parametrize("row_weights", ["ones", "some 0", "all 0", "huge"])
def test_weights_of_a_site_by_hand(model: GlobalModel, row_weights: str) -> None:
    """Also with rows that count more or less, such as in a survey, or not at all."""
    X, rng = drawn(200, (0.7, 0.3), 4), np.random.default_rng(4)
    w = {
        "ones": np.ones(200),
        "some 0": rng.gamma(1.0, 2.0, 200) * (rng.random(200) < 0.7),
        "all 0": np.zeros(200),
        "huge": 1e6 * rng.gamma(1.0, 2.0, 200),
    }[row_weights]
    rows = study_rows(STUDY, frame_of(X))._replace(weights=w)
    with Workers() as workers:
        found = site_expectations(model, rows, workers)
    np.testing.assert_allclose(
        np.exp(found.log_weights), weights_by_hand(model, X, w), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(found.log_levels, np.hstack(levels_by_hand(model)), atol=1e-10)


def test_weights_of_a_site_where_variables_were_selected() -> None:
    """Those that were not tell nothing, of the weights neither."""
    noise = Codebook((*CODEBOOK.variables, Variable("n", ("0", "1"), "integer")))
    study = Study("s", noise, max_clusters=4, policy=policy_named("none"), variable_selection=True)

    def rows(seed: int, shares: tuple[float, float]) -> tuple[np.ndarray, pd.DataFrame]:
        coin = np.random.default_rng(seed).integers(0, 2, 500)
        X = drawn(500, shares, seed)
        return np.column_stack([X, coin]), frame_of(X).assign(n=coin)

    sites = [fit_site(study, rows(i, w)[1], s) for i, (s, w) in enumerate(SHARES.items())]
    model = merge_sites(study, sites).model
    assert model.n_clusters > 1
    assert set(model.selected) == {"a", "b", "c"}
    X, table = rows(5, (0.9, 0.1))
    own = weights_by_hand(model, X, np.ones(500))
    with Workers() as workers:
        found = site_expectations(model, study_rows(study, table), workers)
    np.testing.assert_allclose(np.exp(found.log_weights), own, atol=1e-10)
    expected = shares_by_hand(levels_by_hand(model), X, own)
    np.testing.assert_allclose(assign(model, table).probabilities, expected, atol=1e-10)


def test_a_site_has_its_own_weights(model: GlobalModel) -> None:
    """The same rows among those of another hospital are given otherwise."""
    assert model.n_clusters > 1
    asked = drawn(300, (0.5, 0.5), 9)
    leeds, york = (
        assign(model, frame_of(np.vstack([asked, drawn(900, w, 5)]))).probabilities[:300]
        for w in SHARES.values()
    )
    rows = study_rows(STUDY, frame_of(asked))
    with Workers() as workers:
        everyone = responsibilities(rows, expectations(model.sums, model.row_prior), workers)
    assert np.abs(leeds - york).max() > 0.05
    assert np.abs(leeds - everyone).max() > 0.01


def test_a_few_more_passes_would_change_little(model: GlobalModel) -> None:
    X = drawn(300, (0.95, 0.05), 9)
    log_levels = levels_by_hand(model)
    after, later = (weights_by_hand(model, X, np.ones(300), passes) for passes in (20, 500))
    one, other = (shares_by_hand(log_levels, X, each) for each in (after, later))
    assert np.abs(one - other).max() < 0.01
    np.testing.assert_array_equal(one.argmax(axis=1), other.argmax(axis=1))


def test_a_cluster_that_a_site_has_no_rows_of(federation: Federation) -> None:
    lone = fit_site(STUDY, frame_of(np.zeros((300, 3), dtype=int)), "hull")
    more = federation.add(lone)
    for rows in (drawn(50, (0.5, 0.5), 1), np.zeros((300, 3), dtype=int)):
        found = assign(more.model, frame_of(rows))
        assert np.isfinite(found.probabilities).all()


class Hospitals:
    """Rows of three hospitals: all four clusters, but of the last only six rows at the first."""

    def __init__(self, seed: int) -> None:
        table = simulate(1800, 30, 4, beta=(1.0, 1.0), random_state=seed)
        site = np.random.default_rng(seed).integers(0, 3, 1800)
        many = np.flatnonzero((site == 0) & (table.labels == 3))[6:]
        stay = np.setdiff1d(np.arange(1800), many)
        self.study = replace(draft_study(table.X, name="rare"), max_clusters=8)
        self.X = [table.X[stay][site[stay] == b] for b in range(3)]
        self.truth = [table.labels[stay][site[stay] == b] for b in range(3)]

    def merged(self) -> Federation:
        summaries = [fit_site(self.study, X, f"site {b}") for b, X in enumerate(self.X)]
        return merge_sites(self.study, summaries)


def test_six_rows_of_a_cluster_that_is_common_elsewhere() -> None:
    """0.97 of them are found; with weights from what the site itself has told, none."""
    right, by_told_rows = [], []
    for seed in range(5):
        made = Hospitals(seed)
        federation = made.merged()
        model = federation.model
        theirs = assign(model, made.X[1]).labels[made.truth[1] == 3]
        cluster = np.bincount(theirs).argmax()
        assert federation.site_rows[0, cluster] == 0  # six rows are fewer than may be told
        six = made.truth[0] == 3
        right.append(np.mean(assign(model, made.X[0]).labels[six] == cluster))
        told = expected_log_weights(federation.site_rows[0], model.prior)
        theta = expectations(model.sums, model.row_prior)._replace(log_weights=told)
        with Workers() as workers:
            labels = label_rows(study_rows(made.study, made.X[0]), theta, workers)
        by_told_rows.append(np.mean(labels[six] == cluster))
    assert np.mean(right) >= 0.8
    assert np.mean(by_told_rows) < 0.1


def test_sites_that_differ_are_labelled_better_than_with_everyones_weights() -> None:
    """Each of nine sites; 0.96 of rows are right instead of 0.93, and 0.02 is asked for."""
    gains = []
    for seed in range(3):
        table = simulate(4000, 15, 3, beta=(1.0, 1.0), random_state=seed)
        shares = 0.1 + 0.7 * np.eye(3)
        rng = np.random.default_rng(seed)
        site = np.array([rng.choice(3, p=shares[k]) for k in table.labels])
        study = replace(draft_study(table.X, name="differ"), max_clusters=6)
        summaries = [fit_site(study, table.X[site == b], f"site {b}") for b in range(3)]
        model = merge_sites(study, summaries).model
        pooled = expectations(model.sums, model.row_prior)
        with Workers() as workers:
            everyone = label_rows(study_rows(study, table.X), pooled, workers)
        own = np.empty(4000, dtype=np.int64)
        for b in range(3):
            own[site == b] = assign(model, table.X[site == b]).labels
        meant = np.array([np.bincount(table.labels[everyone == k]).argmax() for k in range(3)])
        better = (meant[own] == table.labels).astype(float) - (meant[everyone] == table.labels)
        gains += [better[site == b].mean() for b in range(3)]
    assert min(gains) > 0
    assert np.mean(gains) > 0.02


def test_no_name_of_a_site_is_needed(model: GlobalModel, tmp_path: Path) -> None:
    """What a site is called can't matter, and one that took no part may use the model too."""
    assert list(inspect.signature(assign).parameters) == ["model", "table", "n_jobs"]
    table = frame_of(drawn(300, (0.5, 0.5), 9))
    found = assign(model, table)
    model.save(tmp_path / "model")
    sent = GlobalModel.load(tmp_path / "model")
    assert not sent.site_shares
    np.testing.assert_array_equal(assign(sent, table).labels, found.labels)
    np.testing.assert_array_equal(assign(sent, table).probabilities, found.probabilities)


def test_the_model_of_a_federation_is_taken(federation: Federation, model: GlobalModel) -> None:
    table = frame_of(drawn(50, (0.5, 0.5), 9))
    expected = assign(model, table).probabilities
    np.testing.assert_array_equal(assign(federation, table).probabilities, expected)  # type: ignore[arg-type]
    scores = score_samples(federation, table)  # type: ignore[arg-type]
    np.testing.assert_array_equal(scores, score_samples(model, table))
    for other in (None, "model", federation.study, federation.summaries[0], federation.broadcast):
        for work in (assign, score_samples):
            with pytest.raises(OptionError, match="model: give a GlobalModel, such as federation"):
                work(other, table)  # type: ignore[arg-type]


def test_the_order_of_rows_does_not_matter(model: GlobalModel) -> None:
    X, order = drawn(500, (0.8, 0.2), 9), np.random.default_rng(0).permutation(500)
    one, other = assign(model, frame_of(X)), assign(model, frame_of(X[order]))
    np.testing.assert_array_equal(other.labels, one.labels[order])
    np.testing.assert_allclose(other.probabilities, one.probabilities[order], atol=1e-12)


def test_copies_of_a_tables_rows_make_next_to_no_difference() -> None:
    """Everyone's weights count as one row, of a table that has hundreds."""
    made = Hospitals(0)
    model = made.merged().model
    for X in made.X:
        one = assign(model, X)
        labels, probabilities = assign(model, np.tile(X, (5, 1)))
        for k in range(5):
            part = slice(k * len(X), (k + 1) * len(X))
            assert np.mean(labels[part] != one.labels) < 0.005
            assert np.abs(probabilities[part] - one.probabilities).max() < 0.05


def test_threads_do_not_matter(model: GlobalModel) -> None:
    # More rows than one thread takes at a time, also once like rows are together.
    wide = simulate(40_000, 30, 3, beta=(1.0, 1.0), random_state=9)
    study = replace(draft_study(wide.X, name="wide"), policy=policy_named("none"), max_clusters=4)
    many = merge_sites(study, [fit_site(study, wide.X[:1500], "leeds")]).model
    for each, table in ((model, frame_of(drawn(9000, (0.5, 0.5), 9))), (many, wide.X)):
        one, two = (assign(each, table, n_jobs=n) for n in (1, 2))
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
    write_labels(path, found, None, None)
    path.chmod(0o644)
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
    lock, left = sorted(tmp_path.iterdir())
    assert lock.suffix == ".lock"
    assert lock.stat().st_size == 0
    assert left.stat().st_size > 0
    assert stat.S_IMODE(left.stat().st_mode) == 0o600


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_earlier_labels_stay_if_writing_fails(
    model: GlobalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    found = assign(model, frame_of(drawn(3, (0.5, 0.5), 9)))
    path = tmp_path / f"labels{suffix}"
    write_labels(path, found, None, None)
    earlier = path.read_bytes()

    def half(_: Any, part: Path) -> None:
        part.write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr("pyarrow.csv.write_csv", half)
    monkeypatch.setattr("pyarrow.parquet.write_table", half)
    with pytest.raises(FileError, match="can't be written"):
        write_labels(path, found, None, None)
    assert path.read_bytes() == earlier
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_never_take_the_place_of_rows(run: Run, suffix: str) -> None:
    """Seen: a table that ends in columns of these names was replaced by its labels."""
    first_merge(run)
    table, text = Path(f"leeds{suffix}"), agree(run).read_text()
    Path("leeds-home/site.toml").write_text(text.replace("leeds.csv", table.name))
    rows = pd.read_csv("leeds.csv").assign(cluster=1, probability=0.5)
    for columns in (list(rows), ["asthma", "stroke", "cluster", "probability"]):
        kept = rows[columns]
        kept.to_csv(table, index=False) if suffix == ".csv" else kept.to_parquet(table)
        before = table.read_bytes()
        own = run("assign", "centre-0/model", "leeds-home/site.toml", "-o", str(table))
        refused(own, "is the table itself")
        other = run("assign", "centre-0/model", "york.csv", "-o", str(table))
        refused(other, "is no file of labels")
        assert table.read_bytes() == before
    for _ in range(2):
        done(run("assign", "centre-0/model", "york.csv", "-o", f"labels{suffix}"))
    for header in (b"cluster,probability\n", b'"a,""b""","cluster","probability"\r\n'):
        Path("labels.csv").write_bytes(header)
        done(run("assign", "centre-0/model", "york.csv", "-o", "labels.csv"))
