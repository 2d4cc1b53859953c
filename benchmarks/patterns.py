"""The attack on sums of a narrow table: the rows of every pattern, solved for from all totals.

Whoever sees the questions knows by what share a row of any pattern is in each cluster, so each
total is linear in how many rows each pattern has. Without noise a few rounds give them all away.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from scipy.special import entr, expit, softmax, xlogy

from benchmarks.measure import Finding, Report
from fedmerdel import Study, simulate
from fedmerdel.estimators.summed import totals_of
from fedmerdel.fitting.passes import Workers
from fedmerdel.records.encode import encode
from fedmerdel.records.packing import PackedRows
from fedmerdel.records.tables import open_table
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import policy_named
from fedmerdel.study.promise import DEFAULT_NOISE, Promise
from fedmerdel.summing.question import Question
from fedmerdel.summing.rounds import State, follow, start
from fedmerdel.summing.tally import SHARED, STEPS
from fedmerdel.summing.work import scheme_of
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import all_pairs
from fedmerdel.sums.predictive import mean_levels, mean_weights

N_ROWS, N_VARIABLES, N_CLUSTERS, N_SITES = 1200, 10, 12, 10
ROUNDS = (8, 30)
SEEDS = (1, 2, 3)
ALLOWED = 0.1
"""Of the unique people: so many more may be found than the model alone would guess."""


class Guesses(NamedTuple):
    """Patterns named as those of one row each.

    Attributes
    ----------
    found : float
        Share of all unique people who are among them.
    precision : float
        Share of the named that are unique.
    alone : float
        Share of all unique people whom the final model would find, naming as many.
    """

    found: float
    precision: float
    alone: float


def run() -> Report:
    """Attack without noise, where it must succeed, and with the usual noise."""
    findings, rows = [], []
    for noise in (0.0, DEFAULT_NOISE):
        runs = [attacked(noise, seed) for seed in SEEDS]
        for at, n_rounds in enumerate(ROUNDS):
            plain, drawn = (np.array([each[at][i] for each in runs]) for i in range(2))
            shown = [_told(plain), _told(drawn)]
            rows.append([f"{noise:g}", str(n_rounds), *shown])
            print("   ", *rows[-1], flush=True)
            if noise == 0.0:
                what, target = "no noise, so that the attack works", "at least 90 %"
                told, reached = shown[0], bool(plain[:, 0].mean() >= 0.9)
            else:
                what, target = f"noise {noise:g}", f"{ALLOWED:.0%} above the model's at most"
                told = f"{shown[0]}; drawn towards the model {shown[1]}"
                more = max((each[:, 0] - each[:, 2]).mean() for each in (plain, drawn))
                reached = bool(more <= ALLOWED)
            what += f", {n_rounds} rounds: unique people found"
            findings.append(Finding(what, target, told, reached))
    header = ["noise", "rounds", "least squares", "the same, drawn towards the model"]
    note = (
        f"{N_ROWS:,} rows x {N_VARIABLES} binary variables at {N_SITES} sites, {N_CLUSTERS} "
        f"clusters; mean of {len(SEEDS)} tables. The attacker knows every question and every "
        f"total, and solves for the rows of all {2**N_VARIABLES:,} patterns by non-negative least "
        "squares; those that round to 1 are named as unique people. Shares of unique people found, "
        "of the named that are unique, and what the final model finds by itself, naming as many."
    )
    return Report(findings, header, rows, note)


def _told(guesses: FloatArray) -> str:
    found, precision, alone = 100 * guesses.mean(axis=0)
    return f"{found:.0f} % found, {precision:.0f} % right; model alone {alone:.0f} %"


def attacked(
    noise: float,
    seed: int,
    *,
    n_rows: int = N_ROWS,
    n_variables: int = N_VARIABLES,
    shown: tuple[int, ...] = ROUNDS,
) -> list[tuple[Guesses, Guesses]]:
    """Return what is guessed after so many rounds: from totals alone, and drawn to the model."""
    X = simulate(n_rows, n_variables, N_CLUSTERS, random_state=seed).X
    every = np.array(list(product((0, 1), repeat=n_variables)), dtype=np.uint8)
    rows_of = np.bincount(X @ (1 << np.arange(n_variables)[::-1]), minlength=len(every))
    book = Codebook(tuple(Variable(f"v{j}", ("0", "1"), "integer") for j in range(n_variables)))
    promise, none = Promise("sums", noise=noise), policy_named("none")
    study = Study("narrow", book, promise=promise, policy=none, rounds=shown[-1], seed=seed)
    table = pd.DataFrame(X, columns=[f"v{j}" for j in range(n_variables)])
    rows = encode(open_table(table), book, None, owner="benchmark")
    parts = [rows.take(np.arange(b, n_rows, N_SITES)) for b in range(N_SITES)]
    # The triangle of what was told so far: as much as all of it to least squares.
    known: FloatArray = np.empty((0, len(every) + 1))
    found = []
    cells = np.stack([every == 0, every == 1], axis=2).reshape(len(every), -1).astype(float)
    for asked, totals, state in _rounds(study, parts):
        each = shares(asked, cells)
        usable = ~np.isnan(each[0])
        told = np.column_stack([each[:, usable].T, totals[usable] / STEPS])
        known = np.asarray(np.linalg.qr(np.vstack([known, told]), mode="r"))
        if asked.number in shown:
            weights, levels = (
                mean_weights(state.sums, state.prior),
                mean_levels(state.sums, state.prior),
            )
            expected = n_rows * weights @ np.exp(xlogy(cells, levels[:, None]).sum(axis=2))
            found.append((
                _guess(known, rows_of, expected),
                _guess(_drawn_to(known, expected, noise), rows_of, expected),
            ))  # fmt: skip
    return found


def _rounds(study: Study, parts: list[PackedRows]) -> Iterator[tuple[Question, IntArray, State]]:
    """Give each question with its totals, and what follows from them."""
    scheme = scheme_of(study, patient=True)
    rng = np.random.default_rng([study.seed, len(parts)])
    state = start(scheme)
    with Workers(1) as workers:
        while state.question is not None:
            asked = state.question
            totals = totals_of(asked, scheme, study.seed, parts, rng, workers)
            state = follow(scheme, state, totals, study.seed)
            yield asked, totals, state


def shares(asked: Question, cells: FloatArray) -> FloatArray:
    """Return what one row of each pattern adds to each total: (patterns, totals).

    Written from the formulas, not from what sites run. NaN where nobody but a site knows: halves
    that sites propose.
    """
    theta, K, X = asked.clusters, asked.clusters.n_clusters, len(cells)
    r = softmax(theta.log_weights + cells @ theta.log_levels.T, axis=1)

    def numbers(r: FloatArray) -> FloatArray:
        S = (r[:, :, None] * cells[:, None]).reshape(X * K, -1)
        return asked.cells.numbers(r.ravel(), S).reshape(X, -1)

    a, b = all_pairs(K).T
    Q = entr(r[:, a]) + entr(r[:, b]) - entr(r[:, a] + r[:, b])
    if asked.is_last:
        return np.hstack([numbers(r), -entr(r) / SHARED, Q / SHARED])
    s = expit(asked.cuts.offset + cells @ asked.cuts.direction.T)
    s[:, asked.uncut] = np.nan
    blur = r * (entr(s) + entr(1 - s))
    return np.hstack([numbers(r), numbers(r * s), -entr(r) / SHARED, blur / SHARED, Q / SHARED])


def _drawn_to(known: FloatArray, expected: FloatArray, noise: float) -> FloatArray:
    """Add to what was told that each pattern has as many rows as expected, as a Poisson number."""
    weight = max(noise, 1.0 / STEPS) / np.sqrt(np.maximum(expected, 1e-3))
    return np.vstack([known, np.column_stack([np.diag(weight), weight * expected])])


def _guess(known: FloatArray, rows_of: IntArray, expected: FloatArray) -> Guesses:
    """Solve, name the patterns that come to one row, and count how many have one."""
    solved, _ = nnls(known[:, :-1], known[:, -1])
    named, unique = np.rint(solved) == 1, rows_of == 1
    likely = np.argsort(-expected * np.exp(-expected), kind="stable")[: named.sum()]
    right = np.sum(named & unique)
    return Guesses(
        right / unique.sum(), right / max(named.sum(), 1), unique[likely].sum() / unique.sum()
    )
