"""Several starts: one, the best by the ELBO, and what all of them agree on."""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import Finding, Report, in_turns, one_core, seconds
from fedmerdel import MerDel, bayes_labels, consensus, simulate
from fedmerdel.fitting.consensus import agree_by_clusters, agree_by_rows

SCENARIOS = {"1.4": (1000, 0.25), "1.5": (1500, 0.4)}
PRIORS = ("fixed", "learned")
N_SEEDS = 5
N_STARTS = 20
FASTER = 1.5
BIG = 100_000
KINDS = 5000


def run() -> Report:
    """Measure ARI and time on the noisy simulations of the paper, and the gain by threads."""
    rows, by_prior = [], {}
    with one_core():
        for prior in PRIORS:
            for name, (n_rows, noisy) in SCENARIOS.items():
                found = np.array([_one(n_rows, noisy, prior, seed) for seed in range(N_SEEDS)])
                by_prior[name, prior] = found
                mean = found.mean(axis=0)
                rows.append(
                    [
                        name,
                        prior,
                        *(f"{ari:.3f}" for ari in mean[:5]),
                        *(f"{s:.2f}" for s in mean[5:]),
                    ]
                )
    helps = {
        prior: np.concatenate([by_prior[name, prior] for name in SCENARIOS]) for prior in PRIORS
    }
    faster = _faster()
    big, small = _search_seconds()
    return Report(
        [
            *(
                Finding(
                    f"ARI of the consensus above that of the best of 20 by ELBO, prior {prior!r}",
                    "at least 0",
                    f"{(table[:, 2] - table[:, 1]).mean():+.4f} "
                    f"({(table[:, 2] - table[:, 1]).min():+.4f} to "
                    f"{(table[:, 2] - table[:, 1]).max():+.4f})",
                    bool((table[:, 2] - table[:, 1]).mean() >= 0),
                )
                for prior, table in helps.items()
            ),
            Finding(
                "ARI of 'clusters' above that of 'rows', least of all tables",
                "at least -0.01",
                f"{min((t[:, 2] - t[:, 3]).min() for t in helps.values()):+.4f}",
                all(bool((t[:, 2] - t[:, 3]).min() >= -0.01) for t in helps.values()),
            ),
            Finding(
                "four starts, 20,000 x 100: time on one thread / on two",
                f"at least {FASTER}",
                f"{faster:.2f}",
                faster >= FASTER,
            ),
        ],
        [
            "simulation",
            "prior",
            "one start",
            "best of 20",
            "'clusters'",
            "'rows'",
            "Bayes labels",
            "fits s",
            "'clusters' s",
            "'rows' s",
        ],
        rows,
        f"ARI, means of {N_SEEDS} tables; one start is the mean of the 20. Seconds on one core: of "
        "the 20 fits, and of the search for a consensus. Search alone, 20 starts that err in 10 % "
        f"of the rows: 'clusters' with {BIG:,} kinds of rows {big:.1f} s, 'rows' with {KINDS:,} "
        f"{small:.1f} s.",
    )


def _one(n_rows: int, noisy: float, prior: str, seed: int) -> list[float]:
    """Return ARI of one start, of the best, of both ways and of the Bayes labels; seconds."""
    table = simulate(n_rows, 100, 10, size_range=(50, 200), noisy=noisy, random_state=seed)
    model = MerDel(prior=prior, random_state=seed)
    began = time.perf_counter()
    agreed = consensus(model, table.X, n_starts=N_STARTS)
    whole = time.perf_counter() - began
    kinds, index, counts = np.unique(agreed.starts, axis=1, return_inverse=True, return_counts=True)
    weights = counts.astype(np.float64)
    most = model.fit(table.X)._prior.n_components
    by_rows = agree_by_rows(kinds, weights, most)[index.reshape(-1)]
    by_clusters_s = seconds(lambda: agree_by_clusters(kinds, weights))
    by_rows_s = seconds(lambda: agree_by_rows(kinds, weights, most))
    starts = [adjusted_rand_score(table.labels, labels) for labels in agreed.starts]
    return [
        float(np.mean(starts)),
        starts[int(agreed.lower_bounds.argmax())],
        adjusted_rand_score(table.labels, agreed.labels),
        adjusted_rand_score(table.labels, by_rows),
        adjusted_rand_score(table.labels, bayes_labels(table)),
        whole - by_clusters_s,
        by_clusters_s,
        by_rows_s,
    ]


def _faster() -> float:
    X = simulate(20_000, 100, 12, random_state=0).X
    two, one = (MerDel(n_init=4, n_jobs=n, random_state=1) for n in (2, 1))
    return in_turns(lambda: two.fit(X), lambda: one.fit(X), times=5)[2]


def _search_seconds() -> tuple[float, float]:
    """Return the seconds of the search with very many kinds of rows, and with many."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, BIG)
    wrong = rng.random((N_STARTS, BIG)) < 0.1
    starts = np.where(wrong, rng.integers(0, 10, (N_STARTS, BIG)), truth)
    ones = np.ones(BIG)
    with one_core():
        big = seconds(lambda: agree_by_clusters(starts, ones))
        small = seconds(lambda: agree_by_rows(starts[:, :KINDS], ones[:KINDS], 20))
    return big, small
