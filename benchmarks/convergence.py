"""Do fits end by themselves, near enough, and in time? Default options, all tables at hand."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Finding, Report, instead, one_core
from benchmarks.real_tables import TABLES as BY_SITE
from benchmarks.shared_tables import DENSITY, FOLDER, LOAD, held_out
from fedmerdel import FedMerDel, MerDel
from fedmerdel.errors import NotConvergedWarning
from fedmerdel.fitting import adaptive, ascent
from fedmerdel.fitting.solution import Problem, Solution, em_step

PLAIN_PASSES = 20_000
SECONDS = 30.0
"""Plain passes on one table go on for so long at most."""

STILL = 1e-7
"""Nats that a plain pass adds at its end."""

SEED = 4


def run() -> Report:
    """Fit each table once, and pass plainly from where each fit began to settle."""
    rows, late, short, warned = [], [], [], []
    for name in (*DENSITY, *LOAD) if FOLDER.exists() else ():
        kept, _ = held_out(name, seed=2)
        with one_core():
            model, took, said, begun = _fit(kept)
            plain, n_plain, each = _plain(*begun)
        behind = plain - model.lower_bound_
        limit = max(1.0, 1000 * each)
        warned += [name] if said else []
        short += [name] if behind > 1.0 else []
        late += [name] if took > limit else []
        rows.append(
            [name, f"{len(kept):,} x {kept.shape[1]}", str(model.n_clusters_), str(model.n_iter_),
             f"{took:.2f}", f"{limit:.2f}", f"{-behind:+.1f} ({n_plain:,} passes)"]
        )  # fmt: skip
    findings = [
        _all("a fit warns that it has not converged", warned, rows),
        _all("ELBO over 1 nat below plain passes from the same start", short, rows),
        _all("slower than 1 s of CPU and 1,000 plain passes", late, rows),
        _all("a site warns, one shot by natural sites", _sites() if rows else [], rows),
    ]
    header = ["table", "rows x columns", "clusters", "passes", "CPU s", "allowed s",
              "ELBO above plain passes (how many)"]  # fmt: skip
    note = (
        "Plain passes: from where the fit's first start first settles, with the prior learned on, "
        f"to 20,000, to {SECONDS:.0f} s, or until one adds under {STILL:g} nats. Seconds are of "
        "one fit with the kernels compiled, all its starts together. How long "
        "passes go on was changed after two runs on these splits."
    )
    return Report(findings, header, rows, note if rows else "The tables were not found.")


def _fit(kept: Any) -> tuple[MerDel, float, bool, tuple[Problem, Solution]]:
    begun: list[tuple[Problem, Solution]] = []
    settle = ascent.settle

    def noted(problem: Problem, solution: Solution, *rest: Any) -> tuple[Solution, bool]:
        begun.append((problem, solution))
        return settle(problem, solution, *rest)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        MerDel(random_state=SEED).fit(kept[:500])  # compiles
        with instead(adaptive, "settle", noted):
            began = time.process_time()
            model = MerDel(random_state=SEED).fit(kept)
            took = time.process_time() - began
    failed = any(issubclass(each.category, ConvergenceWarning) for each in said)
    return model, took, failed, begun[0]


def _plain(problem: Problem, solution: Solution) -> tuple[float, int, float]:
    """Return the ELBO that plain passes reach, how many there were, and seconds of one."""
    components = problem.prior.n_components
    began, n_passes, gained = time.process_time(), 0, np.inf
    while n_passes < PLAIN_PASSES and gained > STILL and time.process_time() - began < SECONDS:
        last, solution = solution, em_step(problem, solution.stats, solution.prior)
        gained, n_passes = solution.elbo - last.elbo, n_passes + 1
    each = (time.process_time() - began) / n_passes
    return _with_room(solution, components), n_passes, each


def _with_room(solution: Solution, components: int) -> float:
    """Return the ELBO under the prior that a default fit ends with; see `room_for`."""
    from fedmerdel.sums.components import room_for
    from fedmerdel.sums.elbo import elbo

    assert components == solution.prior.n_components
    prior = solution.prior._replace(n_components=room_for(solution.n_clusters))
    return elbo(solution.stats, prior)


def _sites() -> list[str]:
    """Return the federations in which a site has not converged."""
    found = []
    for name, load in BY_SITE.items():
        X, site = load()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            FedMerDel(random_state=SEED).fit(X, groups=site)
        kinds = (ConvergenceWarning, NotConvergedWarning)
        found += [name] if any(issubclass(each.category, kinds) for each in said) else []
    return found


def _all(name: str, failed: list[str], rows: list[list[str]]) -> Finding:
    return Finding(name, "no table", ", ".join(failed) or f"none of {len(rows)}", not failed)
