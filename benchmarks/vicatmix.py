"""Plain passes against the ELBO traces of the R package VICatMix, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from benchmarks.measure import Finding, Report
from fedmerdel.fitting.passes import Workers, count_labels, expect_and_count
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.records import encode, infer_codebook, open_table
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.selection import Selection
from fedmerdel.sums.special import ln_beta
from fedmerdel.sums.sums import Sums

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data")) / "reference"
CLOSE = 1e-6
FURTHER = 20
"""Passes of our own from where a run of theirs with selection ended."""


class Recorded(NamedTuple):
    """A run of the R package: its rows, start and prior, and its ELBO after each pass."""

    name: str
    rows: PackedRows
    prior: Prior
    start: IntArray
    elbos: FloatArray


def run() -> Report:
    """Follow each recorded run from its start."""
    findings, rows = [], []
    for path in sorted(FOLDER.glob("vicatmix_*.npz")):
        recorded = _read(path)
        trace = _plain_trace(recorded)
        findings.append(_agree(recorded, trace))
        rows.append([recorded.name, f"{recorded.elbos[-1]:.6f}", f"{trace[-1]:.6f}"])
    for path in sorted(FOLDER.glob("vicatmixvs_*.npz")):
        recorded = _read(path)
        trace, further = _selection_trace(recorded)
        findings.append(_agree(recorded, trace))
        moved = abs(further - recorded.elbos[-1])
        findings.append(
            Finding(
                f"{recorded.name}: change of the ELBO by {FURTHER} passes of ours from its end",
                f"at most {CLOSE:g}",
                f"{moved:.1g}",
                bool(moved <= CLOSE),
            )
        )
        rows.append([recorded.name, f"{recorded.elbos[-1]:.6f}", f"{further:.6f}"])
    note = "" if rows else "The recorded runs are not part of the project; none were found."
    return Report(findings, ["run", "VICatMix, last ELBO", "ours"], rows, note)


def _read(path: Path) -> Recorded:
    recorded: Any = np.load(path)
    table = open_table(np.unpackbits(recorded["bits"], axis=1, count=int(recorded["n_cols"])))
    packed = encode(table, infer_codebook(table))
    prior = uniform_prior(packed.packing.n_levels, float(recorded["alpha"]), int(recorded["K"]))
    start = recorded["start"].astype(np.int64)
    return Recorded(path.stem, packed, prior, start - start.min(), recorded["elbo"])


def _agree(recorded: Recorded, trace: list[float]) -> Finding:
    off = float(np.abs(np.array(trace) - recorded.elbos).max())
    return Finding(
        f"{recorded.name}: largest difference of the ELBO over {len(trace)} passes",
        f"at most {CLOSE:g}",
        f"{off:.1g}",
        off <= CLOSE,
    )


def _start(recorded: Recorded) -> Sums:
    n_clusters = recorded.prior.n_components
    return count_labels(recorded.rows, recorded.start, n_clusters, Workers())


def _plain_trace(recorded: Recorded) -> list[float]:
    """Return the ELBO after each of our passes; the first E step has even weights."""
    rows, prior = recorded.rows, recorded.prior
    levels = expectations(_start(recorded), prior).log_levels
    theta = Expectations(np.zeros(prior.n_components), levels)
    trace = []
    for _ in recorded.elbos:
        stats = expect_and_count(rows, theta, Workers())
        trace.append(elbo(stats, prior))
        theta = expectations(stats, prior)
    return trace


def _selection_trace(recorded: Recorded) -> tuple[list[float], float]:
    """Follow a run with variable selection in its own order; then go on in ours.

    Both start from c = 1 and find the next c from q(phi) of the one before. Ours then brings
    q(phi) up to the new c, for the ELBO and the next E step; VICatMix keeps it one behind. So its
    ELBO is ours less KL(its q(phi) || the best one), which is 0 at the end.
    """
    rows, stats = recorded.rows, _start(recorded)
    learning = Selection.of(stats.S, recorded.prior)
    prior = learning.start(recorded.prior)
    log_levels = _expected_log(prior.posterior(stats.S), prior)
    theta = Expectations(np.zeros(prior.n_components), log_levels)
    trace = []
    for _ in recorded.elbos:
        stats = expect_and_count(rows, theta, Workers())
        behind = prior.posterior(stats.S)
        prior = learning.learn(stats.S, prior)
        best, log_levels = prior.posterior(stats.S), _expected_log(behind, prior)
        apart = np.sum(ln_beta(best, prior.offsets) - ln_beta(behind, prior.offsets))
        trace.append(elbo(stats, prior) - float(apart + np.sum((behind - best) * log_levels)))
        weights = expectations(stats, prior).log_weights
        theta = Expectations(weights, prior.explained(log_levels))
    problem = Problem(rows, prior, Workers(), learning)
    for _ in range(FURTHER):
        solution = em_step(problem, stats, prior)
        stats, prior = solution.stats, solution.prior
    return trace, solution.elbo


def _expected_log(eps: FloatArray, prior: Prior) -> FloatArray:
    totals = digamma(sum_levels(eps, prior.offsets))
    return np.asarray(digamma(eps) - np.repeat(totals, prior.n_levels, axis=1))
