"""Latent class analysis by maximum likelihood against StepMix: the same maxima, and the time."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from stepmix.stepmix import StepMix

from benchmarks.measure import Finding, Report, one_core
from fedmerdel import model_table, simulate

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data")) / "lca"
ITEMS = {"election": 12, "gss82": 4, "carcinoma": 7, "cheating": 4, "values": 4}
"""Columns that are items; the rest are covariates."""

CLASSES = range(1, 5)
STARTS = 20
DIGITS = 5e-5
FASTER = 10.0
SAME_PER_ROW = 1e-4
N_ROWS, N_VARIABLES, N_CLASSES = 50_000, 50, 10
SEEDS = range(3)
TURNS = 3


def run() -> Report:
    """Compare log-likelihoods on small tables, then time and likelihood on large ones."""
    rows: list[list[str]] = []
    findings: list[Finding] = []
    with one_core(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # StepMix warns about scikit-learn's new names
        model_table(simulate(500, 6, 2, random_state=0).X, 2, n_init=1)  # compiles
        if FOLDER.exists():
            short, slower = _small_tables(rows)
            findings.append(
                Finding(
                    f"five poLCA tables, K = 1 to 4, {STARTS} starts: StepMix's log-likelihood "
                    "less ours, the most",
                    f"at most {DIGITS:g}",
                    f"{short:.1e}",
                    short <= DIGITS,
                )
            )
            findings.append(
                Finding(
                    "the same: StepMix time / ours, all tables together",
                    "at least 1",
                    f"{slower:.1f}",
                    slower >= 1,
                )
            )
        for case in ("20 % missing", "weights"):
            findings += _large_table(case, rows)
    header = ["table", "K", "log-likelihood", "StepMix's", "s", "StepMix's s", "starts reached"]
    return Report(
        findings,
        header,
        rows,
        f"Both from {STARTS} starts on the small tables, from one on the large ones "
        f"({N_ROWS:,} x {N_VARIABLES} binary, {N_CLASSES} classes; medians of {TURNS} turns). Our "
        "time is that of the whole `model_table`: conversion, criteria and the ELBO of the "
        "Bayesian fit included. StepMix: measurement 'categorical' on the small tables, 'binary', "
        "its fastest, on the large ones, both with '_nan' where entries are missing, at its own "
        "tolerance (1e-10 nats a row between passes) but with up to 20,000 passes.",
    )


def _small_tables(rows: list[list[str]]) -> tuple[float, float]:
    """Return the most that we fall short of StepMix, and the ratio of the times."""
    short, ours, theirs = -np.inf, 0.0, 0.0
    for name, n_items in ITEMS.items():
        table = pd.read_csv(FOLDER / f"poLCA_{name}.csv.gz").iloc[:, :n_items]
        codes = table.apply(lambda column: pd.Categorical(column).codes).to_numpy(dtype=float)
        codes = np.where(codes < 0, np.nan, codes)
        for k in CLASSES:
            began = time.perf_counter()
            found = model_table(table, k, n_init=STARTS, random_state=0).rows[0]
            between = time.perf_counter()
            other = _stepmix("categorical", k, codes, STARTS, seed=0)
            likelihood = other.fit(codes).score(codes) * len(codes)
            ended = time.perf_counter()
            ours, theirs = ours + between - began, theirs + ended - between
            short = max(short, likelihood - found.log_likelihood)
            rows.append(
                [
                    name,
                    str(k),
                    f"{found.log_likelihood:.5f}",
                    f"{likelihood:.5f}",
                    f"{between - began:.2f}",
                    f"{ended - between:.2f}",
                    f"{found.n_reached} of {found.n_init}",
                ]
            )
    return float(short), theirs / ours


def _large_table(case: str, rows: list[list[str]]) -> list[Finding]:
    """Time one start of each, in turns, on several tables."""
    ratios, short = [], []
    for seed in SEEDS:
        X, weights = _drawn(case, seed)
        total = len(X) if weights is None else float(weights.sum())
        other = _stepmix("binary", N_CLASSES, X, 1, seed)
        times = []
        for _ in range(TURNS):
            began = time.perf_counter()
            table = model_table(X, N_CLASSES, n_init=1, sample_weight=weights, random_state=seed)
            between = time.perf_counter()
            other.fit(X, sample_weight=weights)
            times.append((between - began, time.perf_counter() - between))
        found = table.rows[0]
        ours, theirs = (float(t) for t in np.median(times, axis=0))
        likelihood = float(other.score(X, sample_weight=weights)) * total
        ratios.append(theirs / ours)
        short.append((likelihood - found.log_likelihood) / abs(likelihood))
        rows.append(
            [
                f"{case}, seed {seed}",
                str(N_CLASSES),
                f"{found.log_likelihood:.1f}",
                f"{likelihood:.1f}",
                f"{ours:.2f}",
                f"{theirs:.2f}",
                "",
            ]
        )
    ratio, worst = float(np.median(ratios)), float(max(short))
    name = f"{N_ROWS:,} x {N_VARIABLES}, {N_CLASSES} classes, {case}, one start"
    return [
        Finding(
            f"{name}: StepMix time / ours, median of {len(ratios)}",
            f"at least {FASTER:.0f}",
            f"{ratio:.1f} (least {min(ratios):.1f})",
            ratio >= FASTER,
        ),
        Finding(
            f"{name}: share of its log-likelihood that StepMix's is above ours, worst",
            f"at most {SAME_PER_ROW}",
            f"{worst:.1e}",
            worst <= SAME_PER_ROW,
        ),
    ]


def _drawn(case: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    X = simulate(N_ROWS, N_VARIABLES, N_CLASSES, random_state=seed).X.astype(np.float64)
    rng = np.random.default_rng(seed)
    if case == "weights":
        return X, rng.gamma(2.0, 0.5, N_ROWS)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, None


def _stepmix(kind: str, k: int, X: NDArray[np.float64], n_init: int, seed: int) -> StepMix:
    return StepMix(
        n_components=k,
        measurement=f"{kind}_nan" if np.isnan(X).any() else kind,
        n_init=n_init,
        max_iter=20_000,
        random_state=seed,
        verbose=0,
        progress_bar=0,
    )
