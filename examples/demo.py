"""The whole story: five hospitals find their common clusters, and no row leaves one.

Each hospital has its own folder and its own process: check, fit, and a summary that may
leave. The centre merges the summaries and sends the model back; each hospital then assigns its
own rows. What the centre has of each hospital stays at the centre.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.metrics import adjusted_rand_score

from fedmerdel import Federation, SimulatedTable, bayes_labels, simulate

OUTPUT = Path("demo-output")
STUDY = OUTPUT / "study.toml"
CENTRE = OUTPUT / "centre"
HOSPITALS = ("bradford", "hull", "leeds", "ripon", "york")
screen = Console()


def main() -> None:
    """Run the demonstration."""
    began = time.perf_counter()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    truth, hospital = simulated_hospitals()
    fedmerdel(
        "init", OUTPUT / "leeds" / "patients.csv", "-o", STUDY,
        "--name", "demo", "--outcome", "death", "--row-id", "patient",
    )  # fmt: skip
    at_every_hospital("each hospital checks and fits ", check_and_fit)
    summaries = [OUTPUT / name / "summary" for name in HOSPITALS]
    screen.print("the centre merges the summaries, the only files that left")
    fedmerdel("merge", STUDY, *summaries, "-o", CENTRE)
    fedmerdel("report", CENTRE, "-o", OUTPUT / "report.html")
    at_every_hospital("each hospital assigns its rows", assign)
    show(truth, hospital)
    screen.print(
        f"{time.perf_counter() - began:.0f} s in all. Open {OUTPUT / 'report.html'} in a browser; "
        f"look at {STUDY}, at what one hospital sent "
        f"({OUTPUT / 'leeds' / 'summary' / 'README.txt'}) and at the model "
        f"that it got back ({OUTPUT / 'leeds' / 'model'})."
    )


def check_and_fit(name: str) -> None:
    """Rehearse, fit, and write what may leave."""
    patients = OUTPUT / name / "patients.csv"
    fedmerdel("check", STUDY, patients)
    fedmerdel("fit", STUDY, patients, "--site", name, "-o", OUTPUT / name / "summary")


def assign(name: str) -> None:
    """Give the hospital's rows to the common clusters, with the model that the centre sent."""
    folder = OUTPUT / name
    shutil.copytree(CENTRE / "model", folder / "model")
    fedmerdel("assign", folder / "model", folder / "patients.csv", "-o", folder / "labels.csv")


def at_every_hospital(what: str, work: Callable[[str], None]) -> None:
    """Do the same at all hospitals, two at a time, each in processes of its own."""
    with ThreadPoolExecutor(2) as pool:
        for _ in track(pool.map(work, HOSPITALS), what, total=len(HOSPITALS), console=screen):
            pass


def simulated_hospitals() -> tuple[SimulatedTable, np.ndarray]:
    """Write five hospitals' patients: eight clusters, each hospital with its own case mix."""
    rng = np.random.default_rng(1)
    table = simulate(10_000, 60, 8, random_state=1)
    mix = rng.dirichlet(np.full(len(HOSPITALS), 1.5), size=8)
    hospital = np.array([rng.choice(len(HOSPITALS), p=mix[k]) for k in table.labels])
    death = rng.random(len(hospital)) < np.linspace(0.02, 0.25, 8)[table.labels]
    for b, name in enumerate(HOSPITALS):
        at = np.flatnonzero(hospital == b)
        columns = {"patient": [f"{name}-{n:05d}" for n in range(len(at))]}
        columns |= {f"condition_{j:02d}": table.X[at, j] for j in range(table.X.shape[1])}
        columns["death"] = death[at].astype(np.int64)
        (OUTPUT / name).mkdir(parents=True)
        csv.write_csv(pa.table(columns), OUTPUT / name / "patients.csv")
    return table, hospital


def fedmerdel(*arguments: object) -> None:
    """Run the command line in a process of its own, as a hospital would."""
    command = [sys.executable, "-m", "fedmerdel.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())


def show(truth: SimulatedTable, hospital: np.ndarray) -> None:
    """Show what was found against the truth, which only a simulation knows."""
    federation = Federation.load(CENTRE)
    labels = np.empty(len(truth.labels), dtype=np.int64)
    for b, name in enumerate(HOSPITALS):
        found = csv.read_csv(OUTPUT / name / "labels.csv")
        labels[hospital == b] = found["cluster"].to_numpy()
    table = Table(title="What five hospitals found together")
    for heading in ("", "rows", "truth", "share", "death", *HOSPITALS):
        table.add_column(heading, justify="right")
    for cluster in federation.describe():
        inside = np.bincount(truth.labels[labels == cluster.number], minlength=8)
        table.add_row(
            str(cluster.number),
            f"{cluster.rows:,.0f}",
            str(inside.argmax()),
            f"{inside.max() / inside.sum():.0%}",
            f"{cluster.outcomes['death'].share:.0%}",
            *(f"{cluster.sites[name]:.0%}" for name in HOSPITALS),
        )
    screen.print(table)
    reached = adjusted_rand_score(truth.labels, labels)
    best = adjusted_rand_score(truth.labels, bayes_labels(truth, hospital))
    screen.print(
        "truth, share: the true cluster that most of the rows are from, and how many of them. "
        f"{federation.n_clusters} clusters where 8 are true. Agreement with the truth (ARI) "
        f"{reached:.3f}; the best possible, with the true parameters known, is {best:.3f}."
    )


if __name__ == "__main__":
    main()
