"""How many clusters a fit may find, and from how many starts: what the defaults are worth."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.learned_prior import SIMULATIONS
from benchmarks.measure import Finding, Report, one_core
from benchmarks.shared_tables import FOLDER, held_out
from fedmerdel import MerDel, simulate

TABLES = ("plants", "baudio", "jester", "splice", "soybean", "mushroom", "Mexico", "OMOP", "heart")
CEILINGS = (20, 50, "auto")
SEEDS = range(3)
START_TABLES = range(7000, 7030)
START_SEEDS = range(3)
BEST_OF = 12
MANY = range(8000, 8003)


def run() -> Report:
    """Fit real tables under three ceilings, small tables from many starts, and many clusters."""
    with warnings.catch_warnings(), one_core():
        warnings.simplefilter("ignore")
        findings = [_starts(), _many()]
        rows = [_ceilings(name) for name in TABLES if FOLDER.exists()]
    header = ["table", *(f"max_clusters={most}" for most in CEILINGS)]
    note = (
        "Log-likelihood of a held-out row (clusters; CPU s), means over three splits or, for "
        "density sets, seeds."
    )
    return Report(findings, header, rows, note)


def _starts() -> Finding:
    """Count default fits of simulation 1.2 that reach the best known ELBO."""
    reached = []
    for at in START_TABLES:
        X = simulate(random_state=at, **SIMULATIONS["1.2"]).X
        fits = [MerDel(random_state=seed).fit(X) for seed in START_SEEDS]
        best = MerDel(random_state=99, n_init=BEST_OF).fit(X).lower_bound_
        bounds = np.array([fit.lower_bound_ for fit in fits])
        reached += list(bounds >= max(best, bounds.max()) - 1.0)
    share = float(np.mean(reached))
    return Finding(
        f"simulation 1.2, {len(START_TABLES)} fresh tables x {len(START_SEEDS)} seeds: the best "
        "known ELBO to 1 nat",
        "at least 97 %",
        f"{100 * share:.1f} %",
        share >= 0.97,
    )


def _many() -> Finding:
    took, found = [], []
    MerDel(400, random_state=0).fit(simulate(3000, 100, 5, random_state=0).X)
    for seed in MANY:
        table = simulate(15_000, 100, 200, random_state=seed)
        began = time.process_time()
        model = MerDel(400, random_state=seed).fit(table.X)
        took.append(time.process_time() - began)
        ari = adjusted_rand_score(table.labels, model.labels_)
        found.append(f"{model.n_clusters_} (ARI {ari:.2f})")
    return Finding(
        "15,000 x 100, 200 true clusters, 400 allowed: CPU s, worst of 3; clusters found",
        "under 10 s",
        f"{max(took):.1f} s; {', '.join(found)}",
        max(took) < 10,
    )


def _ceilings(name: str) -> list[str]:
    cells = [name]
    for most in CEILINGS:
        found = []
        for seed in SEEDS:
            kept, held = held_out(name, seed=20 + seed)
            began = time.process_time()
            model = MerDel(most, random_state=seed).fit(kept)  # type: ignore[arg-type]
            found.append((model.score(held), model.n_clusters_, time.process_time() - began))
        score, clusters, seconds = np.mean(found, axis=0)
        cells.append(f"{score:.3f} ({clusters:.0f}; {seconds:.2f})")
    return cells
