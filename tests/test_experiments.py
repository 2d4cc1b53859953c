"""Every experiment runs at its smallest scale, resumes where it stopped, and writes its page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.__main__ import write_findings
from experiments.catalogue import EXPERIMENTS
from experiments.data import federation, shrink
from experiments.experiment import Experiment, Row, Task
from experiments.methods.ours import fit_batches, merged_again
from experiments.runner import run_experiment
from experiments.studies.mnist import classification_rates

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"


QUICK = ("elbo-curves", "global-merge", "cluster-sizes", "federated", "central")
"""The others use the same parts, and run with `make test-statistics`."""

NAMES = [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.statistics)
    for name in EXPERIMENTS
]


@pytest.mark.filterwarnings("ignore::fedmerdel.ConstantColumnWarning")
@pytest.mark.parametrize("name", NAMES)
def test_smoke(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    rows = run_experiment(experiment, "smoke", tmp_path, jobs=1)
    text = experiment.page(rows, tmp_path)
    if len(rows) == 0:  # the digits are not here
        pytest.skip("no data")
    assert {"fedmerdel", "numpy"} <= set(rows.columns)
    if "ari" in rows:
        assert rows.ari.astype(float).between(-1, 1).all()
    for picture in tmp_path.glob("*.svg"):
        assert picture.name in text
        assert picture.stat().st_size > 1000
    again = run_experiment(experiment, "smoke", tmp_path, jobs=1)
    assert len(again) == len(rows)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    stop_at = [2]

    def run(task: Task) -> list[Row]:
        if task["seed"] == stop_at[0]:
            raise KeyboardInterrupt
        done.append(int(task["seed"]))
        return [{"found": 10 * int(task["seed"])}]

    def tasks(scale: object) -> list[Task]:
        return [{"seed": seed} for seed in range(4)]

    experiment = Experiment("counting", "counts", tasks, run, lambda rows, folder: "")
    monkeypatch.setitem(EXPERIMENTS, "counting", experiment)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, "smoke", tmp_path, jobs=1)
    assert len(pd.read_csv(tmp_path / "counting.csv")) == 2
    stop_at[0] = 99
    done.clear()
    rows = run_experiment(experiment, "smoke", tmp_path, jobs=1)
    assert done == [2, 3]
    assert sorted(rows.found.astype(int)) == [0, 10, 20, 30]


def test_list_has_a_line_for_each() -> None:
    run = [sys.executable, "-m", "experiments", "list"]
    shown = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in shown.splitlines()] == list(EXPERIMENTS)


@pytest.mark.parametrize("kind", ["random", "a", "b", "c"])
def test_batches_are_as_the_paper_has_them(kind: str) -> None:
    n_batches = 5
    found = federation(3000, n_batches, dataset=1, shuffle=2, kind=kind)
    seen = np.zeros((n_batches, found.table.n_clusters), dtype=bool)
    seen[found.batch, found.table.labels] = True
    where = seen.sum(axis=0).tolist()
    assert found.table.n_clusters == (10 if kind == "b" else 12)
    assert (
        where
        == {
            "random": [5] * 12,
            "a": [5] * 11 + [1],
            "b": [1] * 10,
            "c": [1] * 10 + [5] * 2,
        }[kind]
    )


def test_another_search_on_the_same_local_clusters() -> None:
    found = federation(1500, 3, 0, 0, n_clusters=4, beta=(0.5, 0.5))
    model, _ = fit_batches(found.batches, 0, {"recipe": "paper", "search": "greedy"})
    again, labels, info = merged_again(model, found.batches, "greedy")
    assert info["n_clusters"] == model.n_clusters_
    assert again.lower_bound == pytest.approx(model.lower_bound_)
    np.testing.assert_array_equal(labels, model.frozen_labels_)


def test_classification_rates() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    digits = np.array([3, 3, 7, 7, 7, 3])
    rates = classification_rates(labels, digits)
    assert rates[3] == 1.0  # both clusters that are mostly threes hold all of them
    assert rates[7] == pytest.approx(2 / 3)
    assert rates[[0, 1, 2, 4, 5, 6, 8, 9]].tolist() == [0.0] * 8


def test_images_shrink_by_bilinear_interpolation() -> None:
    ramp = np.tile(np.arange(28.0), (28, 1))[None]
    small = shrink(ramp)[0]
    assert small.shape == (16, 16)
    np.testing.assert_allclose(small[0], np.clip((np.arange(16) + 0.5) * 28 / 16 - 0.5, 0, 27))
    np.testing.assert_allclose(shrink(np.ones((2, 28, 28))), 1.0)


def test_the_findings_are_those_of_the_results(tmp_path: Path) -> None:
    """The page of findings is written from the rows that are kept beside it."""
    write_findings(RESULTS / "data", tmp_path)
    written = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert written == (RESULTS / "README.md").read_text(encoding="utf-8")
    assert "<!--" not in written
    assert "@@" not in written
