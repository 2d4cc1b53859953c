"""Rounds of sums: the model that comes of totals with noise alone, against pooled rows.

The searches' constants were chosen on seed 0 of ICD-9, of the 200-row sites and of the simulation;
none of these is here. Noise comes from seeds: it is that of a study, and it protects nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple
from warnings import catch_warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.hidden import BY_SITE
from benchmarks.measure import Finding, Report
from benchmarks.real_tables import FOLDER
from fedmerdel import MerDel, Study, assign, bayes_labels, policy_named, score_samples, simulate
from fedmerdel.centre.federation import model_of_total
from fedmerdel.centre.summed import summed_up
from fedmerdel.errors import CeilingWarning
from fedmerdel.estimators.summed import totals_of
from fedmerdel.fitting.passes import Workers
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import encode
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.records.tables import open_table
from fedmerdel.study.promise import DEFAULT_NOISE, Promise
from fedmerdel.summing.rounds import State, follow, start
from fedmerdel.summing.work import scheme_of
from fedmerdel.sums.cuts import Cuts

SEEDS = (1, 2, 3)
SHOWN = (8, 30)
POLICIES = ("opensafely", "none")
MOST = {  # per cent after 8 and 30 rounds, of the model that the sites get
    "CMS inpatient ICD-9": (0.3, 0.05),
    "civics": (0.4, 0.1),
    "Mexico": (0.4, 0.1),
    "CMS beneficiaries": (0.4, 0.1),
    "ICD-9, ten sites of 200 rows, 216 columns": (1.5, 1.0),
}
SIMULATED_ROUNDS = 16
SIMULATED = f"50 sites x 400 simulated rows, {SIMULATED_ROUNDS} rounds"


class Losses(NamedTuple):
    """Of one table and seed: in per cent of the pooled score, with each policy after each of SHOWN.

    Attributes
    ----------
    sums : list of float
        Policy by policy, those of `SHOWN` in turn.
    one : float
        Of one cluster with pooled margins.
    clusters : list of int
        Of the models in `sums`; then those of the pooled one.
    """

    sums: list[float]
    one: float
    clusters: list[int]


class Recovery(NamedTuple):
    """Of one simulated table: ARI, with each policy and best possible; clusters of each policy."""

    aris: list[float]
    clusters: list[int]


def run() -> Report:
    """Follow each table, as many seeds as there are, and compare with pooled rows."""
    names = list(BY_SITE) if FOLDER.exists() else []
    losses = {name: [real(name, seed) for seed in SEEDS] for name in names}
    return report(losses, [simulated(seed) for seed in SEEDS])


def report(losses: dict[str, list[Losses]], recoveries: list[Recovery]) -> Report:
    """Return findings and table of what was measured."""
    findings, rows = [], []
    for name, found in losses.items():
        means = np.mean([each.sums for each in found], axis=0)
        one = float(np.mean([each.one for each in found]))
        for at, n_rounds in enumerate(SHOWN):
            what = f"{name}: loss after {n_rounds} rounds, policy {POLICIES[0]}"
            what += f" (mean of {len(found)}; one cluster's)"
            loss, most = float(means[at]), MOST[name][at]
            told = f"{loss:.3f} %; {one:.1f} %"
            findings.append(Finding(what, f"at most {most} %", told, bool(loss <= most)))
        clusters = ["/".join(map(str, each.clusters)) for each in found]
        rows.append(
            [name, *(f"{loss:.3f} %" for loss in means), f"{one:.1f} %", ", ".join(clusters)]
        )
    if recoveries:
        aris = np.mean([each.aris for each in recoveries], axis=0)
        gaps = [each.aris[-1] - each.aris[0] for each in recoveries]
        counts = [each.clusters[0] for each in recoveries]
        findings += [
            Finding(
                f"{SIMULATED}: ARI, best possible (mean of {len(gaps)}); worst gap",
                "within 0.006",
                f"{aris[0]:.4f}, {aris[-1]:.4f}; {max(gaps):.4f}",
                bool(aris[-1] - aris[0] <= 0.006),
            ),
            Finding(
                f"{SIMULATED}: clusters",
                "12",
                ", ".join(map(str, counts)),
                all(count == 12 for count in counts),
            ),
        ]
    header = [
        "loss against pooled rows",
        *(f"{policy}, {n_rounds} rounds" for policy in POLICIES for n_rounds in SHOWN),
        "one cluster, pooled",
        "clusters, as columns; pooled",
    ]
    note = (
        f"Promise `sums`, noise {DEFAULT_NOISE:g}. Loss: held-out log-likelihood of a row below "
        "that of `MerDel` on pooled rows, in per cent of it; negative is better than pooled. Under "
        f"policy {POLICIES[0]} the model that sites get, under none what centre and sites see. "
        "Constants were chosen on seed 0; these are of seeds 1, 2 and 3, as many as a figure says."
    )
    return Report(findings, header, rows, note)


def real(name: str, seed: int) -> Losses:
    """Measure one split of a real table."""
    kept, held, site = BY_SITE[name](seed)
    pooled = MerDel(max_iter=5000, random_state=seed).fit(kept)
    with catch_warnings(action="ignore", category=CeilingWarning):  # one is what is asked for
        one = MerDel(max_clusters=1, random_state=seed).fit(kept).score(held)
    found = models(pooled, kept, site, SHOWN, seed)
    turned = [found[n_rounds, policy] for policy in POLICIES for n_rounds in SHOWN]
    best = pooled.score(held)
    scores = [*(float(np.mean(score_samples(model, held))) for model in turned), one]
    *losses, alone = (100.0 * (best - score) / abs(best) for score in scores)
    clusters = [*(model.n_clusters for model in turned), pooled.n_clusters_]
    return Losses(losses, alone, clusters)


def simulated(seed: int) -> Recovery:
    """Measure fifty sites of 400 simulated rows."""
    table = simulate(20_000, 100, 12, random_state=seed)
    site = np.arange(20_000) % 50
    pooled = MerDel(random_state=seed).fit(table.X)
    found = models(pooled, table.X, site, (SIMULATED_ROUNDS,), seed)
    aris, clusters = [], []
    for policy in POLICIES:
        model, labels = found[SIMULATED_ROUNDS, policy], np.empty(len(site), dtype=np.int64)
        for b in range(50):
            labels[site == b] = assign(model, table.X[site == b]).labels
        aris.append(float(adjusted_rand_score(table.labels, labels)))
        clusters.append(model.n_clusters)
    best = float(adjusted_rand_score(table.labels, bayes_labels(table, site)))
    return Recovery([*aris, best], clusters)


def models(
    pooled: MerDel, table: object, site: np.ndarray, shown: tuple[int, ...], seed: int
) -> dict[tuple[int, str], GlobalModel]:
    """Return the models after so many rounds, under each policy."""
    book, none = pooled.codebook_, policy_named("none")
    promise = Promise("sums", noise=DEFAULT_NOISE)
    study = Study("sums", book, promise=promise, rounds=shown[-1], policy=none, seed=seed)
    rows = encode(open_table(table), book, None, owner="benchmark")
    parts = [rows.take(np.flatnonzero(site == each)) for each in np.unique(site)]
    found = {}
    for n_rounds, state in zip(shown, ends(study, parts, shown), strict=True):
        for policy in POLICIES:
            under = replace(study, policy=policy_named(policy))
            total = summed_up(under, state.sums, state.prior)
            found[n_rounds, policy] = model_of_total(under, total, len(parts), n_rounds)
    return found


def ends(study: Study, parts: list[PackedRows], shown: tuple[int, ...]) -> Iterator[State]:
    """Follow one run, and give what it would have ended with after so many rounds."""
    scheme = scheme_of(study, patient=True)
    rows = [repack(collapse(part)[0]) for part in parts]
    rng = np.random.default_rng([study.seed, len(rows)])
    state = start(scheme)
    with Workers(1) as workers:
        while state.question is not None:
            asked = state.question
            if asked.number in shown and not asked.is_last:
                nothing = Cuts(np.zeros(0), np.zeros((0, len(asked.eps))))
                last = asked._replace(
                    cuts=nothing, uncut=np.zeros(0, dtype=bool), cells=state.cells
                )
                totals = totals_of(last, scheme, study.seed, rows, rng, workers)
                yield follow(scheme, state._replace(question=last), totals, study.seed)
            totals = totals_of(asked, scheme, study.seed, rows, rng, workers)
            state = follow(scheme, state, totals, study.seed)
    yield state
