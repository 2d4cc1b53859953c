"""Choices of prior and search: what each changes, and what was left out for changing nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import digamma
from sklearn.metrics import adjusted_rand_score

from benchmarks.learned_prior import FOLDER, SIMULATIONS, density_split
from benchmarks.measure import Finding, Report, instead, one_core, seconds
from fedmerdel import MerDel, simulate
from fedmerdel.fitting import adaptive
from fedmerdel.fitting.passes import expect_and_count
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.sums import expectations
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior

N_TABLES = 6
ALPHAS = (0.001, 0.01, 0.1, 1.0)
LEVELS = (0.1, 0.5, 1.0, 2.0)
DENSITY = ("nltcs", "plants", "jester")


def run() -> Report:
    """Vary one thing at a time."""
    rows: list[list[str]] = []
    for alpha in ALPHAS:
        _simulated(rows, f"alpha = {alpha:g}", {"alpha": alpha})
    for eps in LEVELS:
        _simulated(rows, f"prior = {eps:g} a level", {"prior": eps})
    _simulated(rows, "prior = 'learned'", {})
    passes_only = {"recipe": "paper", "laps": None, "max_iter": 300, "tol": 1e-6}
    _simulated(rows, "passes only, finite prior", passes_only)
    for gamma in (0.1, 1.0):
        with instead(expectations, "expected_log_weights", _sticks(gamma)):
            _simulated(rows, f"passes only, sticks, gamma = {gamma:g}", passes_only)
    for name, betas in {
        "no tempering": (),
        "tempered from 0.5 in 10 passes": np.linspace(0.5, 0.95, 10).tolist(),
        "tempered from 0.2 in 20 passes": np.linspace(0.2, 0.95, 20).tolist(),
    }.items():
        with instead(adaptive, "_divide", _tempered(betas)):
            _simulated(rows, name, {})
            _densities(rows, name)
    header = ["table", "choice", "ARI, or held-out log-likelihood", "clusters", "ELBO"]
    return Report(_large_table(), header, rows, "Means over tables or starts.")


def _simulated(rows: list[list[str]], choice: str, options: dict[str, Any]) -> None:
    for name in ("1.1", "1.4"):
        found = []
        for seed in range(N_TABLES):
            table = simulate(random_state=seed, **SIMULATIONS[name])
            model = MerDel(random_state=seed, **options).fit(table.X)
            ari = adjusted_rand_score(table.labels, model.labels_)
            found.append((ari, model.n_clusters_, model.lower_bound_))
        rows.append([name, choice, *_cells(found)])


def _densities(rows: list[list[str]], choice: str) -> None:
    for name in DENSITY:
        path = FOLDER / "debd" / f"{name}.npz"
        if not path.exists():
            return
        kept, held = density_split(path)(0)
        found = []
        for seed in range(3):
            model = MerDel(random_state=seed).fit(kept)
            found.append((model.score(held), model.n_clusters_, model.lower_bound_))
        rows.append([name, choice, *_cells(found)])


def _cells(found: Sequence[tuple[float, ...]]) -> list[str]:
    score, clusters, elbo = np.mean(found, axis=0)
    return [f"{score:.3f}", f"{clusters:.1f}", f"{elbo:.0f}"]


def _large_table() -> list[Finding]:
    """Say how little of the work is passes over all rows, which small batches would save."""
    table = simulate(1_000_000, 100, 12, random_state=1)
    model = MerDel(random_state=1)
    with one_core():
        took = seconds(lambda: model.fit(table.X))
    passes = np.diff(model.lower_bound_seconds_).sum()
    return [
        Finding(
            "1,000,000 x 100: passes over all rows, their seconds, and of the whole fit",
            "",
            f"{model.n_iter_}, {passes:.1f} s of {took:.1f} s",
            True,
        )
    ]


def _sticks(gamma: float) -> Callable[[FloatArray, Prior], FloatArray]:
    """Return E[ln pi] under a Dirichlet process with sticks broken in the order of size."""

    def log_weights(T: FloatArray, prior: Prior) -> FloatArray:
        order = np.argsort(-T, kind="stable")
        behind = np.append(np.cumsum(T[order][::-1])[::-1][1:], 0.0)
        taken, left = 1.0 + T[order], gamma + behind
        whole = digamma(taken + left)
        passed = np.append(0.0, np.cumsum(digamma(left) - whole)[:-1])
        out = np.empty_like(T)
        out[order] = digamma(taken) - whole + passed
        return out

    return log_weights


def _tempered(betas: Sequence[float]) -> Callable[..., Solution]:
    """Return a division whose first passes see the rows through a flatter likelihood."""
    divide = adaptive._divide

    def divided(problem: Problem, whole: Solution, room: int, rng: np.random.Generator) -> Solution:
        solution = divide(problem, whole, room, rng)
        stats = solution.stats
        for beta in betas:
            theta = expectations.expectations(stats, problem.prior)
            flat = Expectations(*(beta * part for part in theta))
            stats = expect_and_count(problem.rows, flat, problem.workers)
        if not betas:
            return solution
        return em_step(problem._replace(learning=None), stats, problem.prior)

    return divided
