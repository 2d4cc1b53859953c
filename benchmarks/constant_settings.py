"""What is fitted to see what a number that steers searches changes: one setting a function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, f1_score

from benchmarks.constant_tables import (
    N_TABLES,
    TABLES,
    counted_evidence,
    counted_rows,
    each_federation,
    one_shot,
    rows_of,
    table_of,
)
from benchmarks.measure import instead
from fedmerdel import (
    Broadcast,
    Federation,
    FedMerDel,
    MerDel,
    Reply,
    Study,
    assign,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
    run_rounds,
    score_samples,
)
from fedmerdel.fitting.class_starts import climb_from_starts
from fedmerdel.records.infer import infer_codebook
from fedmerdel.records.simulate import SimulatedTable
from fedmerdel.records.tables import open_table
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.elbo import elbo


class Outcome(NamedTuple):
    """What one fit came to.

    Attributes
    ----------
    nats : float
        ELBO or log-likelihood, for each row.
    score : float
        ARI, or F1 of the variables that were selected.
    clusters : float
        How many.
    work : float
        Passes, rounds or evaluations: counted, not timed.
    mark : str
        The same for two fits that ended alike.
    """

    nats: float
    score: float
    clusters: float
    work: float
    mark: str


def _fits() -> list[Outcome]:
    """Fit every table: ELBO, ARI, passes over the rows."""
    return [_fit(name, seed) for name in TABLES for seed in range(N_TABLES) if name != "many"]


def _fit(name: str, seed: int, **options: Any) -> Outcome:
    table = table_of(name, seed)
    with counted_rows() as work:
        model = MerDel(random_state=seed, **options).fit(table.X)
    n_rows, labels = len(table.X), model.labels_
    ari = adjusted_rand_score(table.labels, labels)
    nats = model.lower_bound_ / n_rows
    return Outcome(nats, ari, model.n_clusters_, sum(work) / n_rows, _mark(labels))


def _moves() -> list[Outcome]:
    """Fit where merges need passes to pay: rows without clusters, or more than there may be."""
    return [
        _fit(name, seed, max_clusters=most)
        for name, most in (("no clusters", 20), ("no clusters", 4), ("many", 5), ("noisy", 5))
        for seed in range(N_TABLES + 2)
    ]


def _narrow() -> list[Outcome]:
    """Fit where passes are slow: rows that differ by degrees."""
    return [_fit("no clusters", seed) for seed in range(2 * N_TABLES)]


def _room() -> list[Outcome]:
    """Fit where there are more clusters than the first room has."""
    return [_fit("many", seed) for seed in range(N_TABLES)]


def _held_out() -> list[Outcome]:
    """Fit half of the rows and score the others: another prior's ELBO is of another model."""
    found = []
    for name in ("few rows", "noisy", "overlapping", "wide"):
        for seed in range(N_TABLES):
            table = table_of(name, seed)
            half = len(table.X) // 2
            with counted_rows() as work:
                book = infer_codebook(open_table(table.X))
                model = MerDel(codebook=book, random_state=seed).fit(table.X[:half])
            labels = model.predict(table.X)
            ari = adjusted_rand_score(table.labels, labels)
            nats = model.score(table.X[half:])
            found.append(Outcome(nats, ari, model.n_clusters_, sum(work) / half, _mark(labels)))
    return found


def _variables(**options: Any) -> list[Outcome]:
    """Fit noisy tables: F1 of the variables that tell clusters apart."""
    found = []
    for seed in range(2 * N_TABLES):
        table = table_of("noisy", seed)
        with counted_rows() as work:
            model = MerDel(random_state=seed, **options).fit(table.X)
        f1 = f1_score(table.relevant, model.selected_)
        nats = model.lower_bound_ / len(table.X)
        passes = sum(work) / len(table.X)
        found.append(Outcome(nats, f1, model.n_clusters_, passes, _mark(model.selected_)))
    return found


def _selection() -> list[Outcome]:
    return _variables(variable_selection=True)


def _paper() -> list[Outcome]:
    """Fit by the paper's recipe."""
    names = ("few rows", "noisy")
    return [_fit(name, seed, recipe="paper") for name in names for seed in range(N_TABLES)]


def _classes() -> list[Outcome]:
    """Climb to latent classes from several starts: mean log-likelihood, passes."""
    found = []
    for name in ("few rows", "overlapping"):
        for seed in range(N_TABLES):
            rows, K = rows_of(name, seed), TABLES[name]["n_clusters"]
            seeds = np.random.SeedSequence(seed).spawn(5)
            with counted_rows() as work:
                climbs = climb_from_starts(rows, K, seeds, 1e-9 * rows.n_rows, 5000, 1)
            reached = [climb.found.log_likelihood / rows.n_rows for climb in climbs]
            best = sum(nats > max(reached) - 1e-6 for nats in reached) / len(reached)
            mark = ", ".join(f"{nats:.6f}" for nats in reached)
            passes = sum(work) / rows.n_rows
            found.append(Outcome(float(np.mean(reached)), best, K, passes, mark))
    return found


def _merges() -> list[Outcome]:
    """Merge what sites have sent, all pairs and by the tree."""
    found = []
    for _, (study, sent, table) in each_federation("none"):
        for search in ("exact", "tree"):
            with counted_evidence() as work:
                model = merge_sites(study, sent, search)
            found.append(_federated(model, table, sum(work)))
    return found


def _hidden() -> list[Outcome]:
    """Merge what sites have sent under a policy that hides small counts."""
    found = []
    for _, (study, sent, table) in each_federation("opensafely"):
        with counted_evidence() as work:
            model = merge_sites(study, sent)
            outcome = _federated(model, table, 0.0)
        found.append(outcome._replace(work=sum(work)))
    return found


def _rounds() -> list[Outcome]:
    """Go on with rounds until they no longer pay: ELBO, rounds."""
    found = []
    for at, (study, sent, table) in each_federation("none"):
        sites = {s.site: table.X[int(s.site) :: len(sent)] for s in sent}

        def ask(
            broadcast: Broadcast, study: Study = study, sites: dict[str, Any] = sites
        ) -> list[Reply]:
            return [reply_site(study, broadcast, X, site) for site, X in sites.items()]

        federation = run_rounds(one_shot(at), ask, "auto")
        outcome = _federated(federation, table, len(federation.record))
        found.append(outcome._replace(nats=federation.lower_bound / len(table.X)))
    return found


def _sites() -> list[Outcome]:
    """Fit small sites and merge: passes over their rows."""
    found = []
    for name, n_sites in (("few rows", 4), ("noisy", 4), ("overlapping", 2)):
        for seed in range(N_TABLES):
            table = table_of(name, seed)
            with counted_rows() as work:
                site = np.arange(len(table.X)) % n_sites
                model = FedMerDel(random_state=seed).fit(table.X, groups=site)
            found.append(_labelled(model, table, sum(work) / len(table.X)))
    return found


def _batches() -> list[Outcome]:
    """Fit random batches of one large table."""
    found = []
    for name in ("large", "large, overlapping"):
        for seed in range(2):
            table = table_of(name, seed)
            with counted_rows() as work:
                model = FedMerDel(random_state=seed).fit(table.X)
            found.append(_labelled(model, table, sum(work) / len(table.X)))
    return found


def _large_site() -> list[Outcome]:
    """Fit one site in batches of 500 rows."""
    local_fit = import_module("fedmerdel.site.local_fit")
    found = []
    for name in ("overlapping", "wide"):
        for seed in range(2):
            table = table_of(name, seed)
            study = replace(draft_study(table.X), policy=policy_named("none"), seed=seed)
            with instead(local_fit, "BATCH_ROWS", 500), counted_rows() as work:
                sent = fit_site(study, table.X, "a")
            model = merge_sites(study, [sent])
            labels = assign(model.model, table.X).labels
            ari = adjusted_rand_score(table.labels, labels)
            reached = elbo(sent.sums, study_prior(study, study.n_components))
            nats, passes = reached / len(table.X), sum(work) / len(table.X)
            found.append(Outcome(nats, ari, model.n_clusters, passes, _mark(labels)))
    return found


def _federated(federation: Federation, table: SimulatedTable, work: float) -> Outcome:
    model, n_sites = federation.model, len(federation.sites)
    labels = np.empty(len(table.X), dtype=np.int64)
    for b in range(n_sites):
        part = slice(b, None, n_sites)
        labels[part] = assign(model, table.X[part]).labels
    ari = adjusted_rand_score(table.labels, labels)
    nats = float(np.mean(score_samples(model, table.X)))
    return Outcome(nats, ari, model.n_clusters, work, _mark(labels))


def _labelled(model: FedMerDel, table: SimulatedTable, work: float) -> Outcome:
    ari = adjusted_rand_score(table.labels, model.labels_)
    nats = model.score(table.X)
    return Outcome(nats, ari, model.n_clusters_, work, _mark(model.labels_))


def _mark(labels: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(labels).tobytes()).hexdigest()


SETTINGS: dict[str, Callable[[], list[Outcome]]] = {
    "fits": _fits,
    "moves": _moves,
    "narrow": _narrow,
    "room": _room,
    "held out": _held_out,
    "variables": _variables,
    "selection": _selection,
    "merges": _merges,
    "rounds": _rounds,
    "hidden": _hidden,
    "sites": _sites,
    "batches": _batches,
    "large site": _large_site,
    "classes": _classes,
    "paper": _paper,
}
