"""Rates of outcomes in clusters: how often their intervals hold the truth, and against StepMix.

Clusters are matched to the true ones by the rows that they share. A federation that found another
number of clusters, or two of one true cluster, has no rates to compare; it is counted apart.

It takes hours on one core. So each federation's line is kept in `KEPT` as it comes, and a run that
is stopped (Ctrl-C) tells what there is; the next one goes on from there. Delete the file to measure
other code.
"""

from __future__ import annotations

import csv
import warnings
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from stepmix.stepmix import StepMix

from benchmarks.measure import Finding, Report
from fedmerdel import (
    Codebook,
    GlobalModel,
    Outcome,
    Promise,
    Study,
    Variable,
    assign,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
)
from fedmerdel.centre.federation import model_of_total
from fedmerdel.centre.summed import summed_up
from fedmerdel.fitting.passes import Workers
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.site_table import study_rows
from fedmerdel.site.tally_site import tally_rows
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.summing.rounds import follow, start
from fedmerdel.summing.tally import STEPS
from fedmerdel.summing.work import scheme_of

KEPT = Path(__file__).resolve().parents[1] / "docs" / "results" / "outcome-rates.csv"

ROUNDS = 5
N_FEDERATIONS = {0: 200, ROUNDS: 40}
"""Of each setting, by the number of rounds."""

SEED = 30_000
"""Nothing was chosen on federations of these seeds."""

RATES, SHARES = np.array([0.05, 0.15, 0.30, 0.50]), np.array([0.35, 0.30, 0.20, 0.15])
N_VARIABLES = {0.64: 20, 0.87: 37, 0.95: 53}
"""Variables with levels from Beta(1, 3) that give this ARI at best."""

LIMITS = {"none": (0.93, 0.97), "opensafely": (0.90, 0.99), "sums": (0.93, 0.97)}
"""By policy of one shot; or of sums over the sites, with the usual noise and no policy."""

SUMS_ROUNDS = 14
MOST_ERROR = {("none", 6000): 0.011, ("opensafely", 6000): 0.012, ("none", 24000): 0.005}

Floats = NDArray[np.float64]


class Made(NamedTuple):
    """Rows of a population with known clusters and rates."""

    X: pd.DataFrame
    y: NDArray[np.int64]
    labels: NDArray[np.int64]
    rates: Floats


class Setting(NamedTuple):
    """What federations have in common."""

    n_sites: int
    best: float
    policy: str
    n_rows: int
    rounds: int

    @property
    def name(self) -> str:
        """What the table says."""
        rounds = SUMS_ROUNDS if self.policy == "sums" else self.rounds
        shot = "one shot" if rounds == 0 else f"{rounds} rounds"
        sites = f"{self.n_sites} sites, ARI {self.best}, {self.policy}"
        return f"{sites}, {self.n_rows:,} rows, {shot}"


Known = tuple[float, float, float] | None
"""Coverage, mean error, and that of raw shares; None if the clusters are others."""

SETTINGS = [
    Setting(*each, rounds)
    for each in product((4, 20), N_VARIABLES, LIMITS, (6000, 24000))
    for rounds in ((0, ROUNDS) if each[1:3] == (0.64, "none") else (0,))
]


def run() -> Report:
    """Simulate federations, and compare their rates with the true ones and with StepMix's."""
    found = _kept()
    try:
        _add(found)
    except KeyboardInterrupt:
        print("stopped: this is what there is", flush=True)
    findings, lines = [], []
    for setting in SETTINGS:
        each_one = [known for (of, _), known in found.items() if of == setting]
        known = [each for each in each_one if each is not None]
        if not known:
            continue
        name, policy, n_rows = setting.name, setting.policy, setting.n_rows
        covered, errors, raw = (np.mean([each[at] for each in known]) for at in range(3))
        low, high = LIMITS[policy]
        spread = np.sqrt(0.95 * 0.05 / (len(RATES) * len(known)))
        told = f"{covered:.3f}, chance ± {spread:.3f}"
        reached = bool(low <= covered <= high)
        findings.append(Finding(f"coverage: {name}", f"{low:.2f} to {high:.2f}", told, reached))
        most = MOST_ERROR.get((policy, n_rows))
        if most is not None:
            told = f"{errors:.4f}"
            findings.append(Finding(f"mean error: {name}", f"{most}", told, bool(errors <= most)))
        count = f"{len(known)}"
        others = f"{len(each_one) - len(known)}"
        lines.append([name, count, others, f"{covered:.3f}", f"{errors:.4f}", f"{raw:.4f}"])
    header = [
        "federations", "compared", "other clusters", "coverage", "mean error", "uncorrected"
    ]  # fmt: skip
    note = (
        "Simulated federations, four clusters of 35 to 15 % with rates of 5 to 50 %. *Other "
        "clusters*: not the four, so that there is nothing to compare. *Uncorrected* is the mean "
        "error of the raw shares. *Chance* is the standard deviation of the coverage of as many "
        "independent intervals; the rates of one federation are not quite independent."
    )
    return Report([*findings, *_stepmix()], header, lines, note)


def _add(found: dict[tuple[Setting, int], Known]) -> None:
    """Simulate what is missing, a federation of each setting after the other; keep each."""
    for rounds, number in (
        (rounds, n) for rounds, most in N_FEDERATIONS.items() for n in range(most)
    ):
        for setting in SETTINGS:
            at = setting, SEED + number
            if setting.rounds != rounds or at in found:
                continue
            found[at] = _one(at[1], *setting)
            with KEPT.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(
                    [*setting, at[1], *(round(part, 6) for part in found[at] or ())]
                )


def _kept() -> dict[tuple[Setting, int], Known]:
    """Return what earlier runs have measured."""
    if not KEPT.exists():
        KEPT.write_text("sites,ari,policy,rows,rounds,seed,coverage,error,uncorrected\n")
    found: dict[tuple[Setting, int], Known] = {}
    with KEPT.open(newline="") as file:
        for sites, best, policy, rows, rounds, seed, *known in list(csv.reader(file))[1:]:
            setting = Setting(int(sites), float(best), policy, int(rows), int(rounds))
            covered, error, raw = map(float, known) if known else (0.0, 0.0, 0.0)
            found[setting, int(seed)] = (covered, error, raw) if known else None
    return found


def made_rows(seed: int, best: float, n_rows: int) -> Made:
    """Draw rows that can be assigned with this ARI at best, and whether each died."""
    rng = np.random.default_rng([seed, int(100 * best), n_rows])
    P, K = N_VARIABLES[best], len(SHARES)
    levels, rates = rng.beta(1.0, 3.0, (K, P)), rng.permutation(RATES)
    labels = rng.choice(K, n_rows, p=SHARES)
    X = (rng.random((n_rows, P)) < levels[labels]).astype(int)
    names = [f"v{j}" for j in range(P)]
    y = (rng.random(n_rows) < rates[labels]).astype(int)
    return Made(pd.DataFrame(X, columns=names), y, labels, rates)


def _one(seed: int, n_sites: int, best: float, policy: str, n_rows: int, rounds: int) -> Known:
    """Simulate one federation."""
    made = made_rows(seed, best, n_rows)
    variables = tuple(Variable(name, ("0", "1"), "integer") for name in made.X.columns)
    sums = policy == "sums"
    study = Study(
        "rates",
        Codebook(variables),
        policy=policy_named("none" if sums else policy),
        promise=Promise("sums") if sums else Promise(),
        outcomes=(Outcome("died"),),
        rounds=SUMS_ROUNDS if sums else rounds,
        seed=seed,
    )
    table = made.X.assign(died=made.y)
    tables = {f"site {b:02d}": table.iloc[b::n_sites] for b in range(n_sites)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if sums:
            model = _added_up(study, list(tables.values()))
        else:
            federation = merge_sites(study, [fit_site(study, t, s) for s, t in tables.items()])
            for _ in range(rounds):
                sent = federation.broadcast
                replies = [reply_site(study, sent, t, s) for s, t in tables.items()]
                federation, _ = federation.step(replies)
            model = federation.model
    given = assign(model, made.X)
    at = matched_clusters(given.labels, made, model.n_clusters)
    if at is None:
        return None
    true = made.rates[at]
    found = model.outcome_rates("died")
    covered = [rate.low <= t <= rate.high for rate, t in zip(found, true, strict=True)]
    errors = [abs(rate.share - t) for rate, t in zip(found, true, strict=True)]
    raw = given.probabilities.T @ made.y / given.probabilities.sum(axis=0)
    return float(np.mean(covered)), float(np.mean(errors)), float(np.abs(raw - true).mean())


def _added_up(study: Study, tables: list[pd.DataFrame]) -> GlobalModel:
    """Return what rounds of sums lead to, outcomes included."""
    scheme, workers = scheme_of(study, patient=True), Workers(1)
    rng, state = np.random.default_rng(study.seed), start(scheme)
    rows = [study_rows(study, table) for table in tables]
    outcomes = [site_outcomes(study, table) for table in tables]
    scale = scheme.noise * STEPS / np.sqrt(len(tables))
    while (asked := state.question) is not None:
        totals = np.zeros(0, dtype=np.int64)
        for b, (own, died) in enumerate(zip(rows, outcomes, strict=True)):
            cells = died if asked.is_last else {}
            told = tally_rows(asked, scheme.prior, own, cells, [b], workers).to_vector()
            told = told + discrete_noise(scale, len(told), rng)
            totals = told if b == 0 else totals + told
        state = follow(scheme, state, totals, study.seed)
    total = summed_up(study, state.sums, state.prior)
    return model_of_total(study, total, len(tables), SUMS_ROUNDS)


def matched_clusters(
    labels: NDArray[np.int64], made: Made, n_clusters: int
) -> NDArray[np.int64] | None:
    """Return the true cluster of each one found; None if they are not the true ones."""
    shared = np.zeros((n_clusters, len(made.rates)))
    np.add.at(shared, (labels, made.labels), 1.0)
    if n_clusters != len(made.rates):
        return None
    _, at = linear_sum_assignment(-shared)
    return at if np.array_equal(shared.argmax(axis=1), at) else None


def _stepmix() -> list[Finding]:
    """Compare with three-step estimates of StepMix on pooled rows, given the number of classes."""
    far: dict[str, list[float]] = {"BCH": [], "ML": []}
    for seed in range(10):
        made = made_rows(SEED + 5000 + seed, 0.87, 6000)
        variables = tuple(Variable(name, ("0", "1"), "integer") for name in made.X.columns)
        study = Study(
            "one", Codebook(variables), policy=policy_named("none"), outcomes=(Outcome("died"),)
        )
        table = made.X.assign(died=made.y)
        model = merge_sites(study, [fit_site(study, table, "all")]).model
        if matched_clusters(assign(model, made.X).labels, made, model.n_clusters) is None:
            continue
        ours = np.array([rate.share for rate in model.outcome_rates("died")])
        for way, apart in far.items():
            fitted = StepMix(
                n_components=4, measurement="binary", structural="binary", n_steps=3,
                correction=way, n_init=5, random_state=seed, progress_bar=0, verbose=0,
            )  # fmt: skip
            fitted.fit(made.X, pd.DataFrame({"died": made.y}))
            theirs = np.asarray(fitted.get_parameters()["structural"]["pis"]).ravel()
            labels = fitted.predict(made.X, pd.DataFrame({"died": made.y}))
            shared = np.zeros((4, 4))
            np.add.at(shared, (labels, assign(model, made.X).labels), 1.0)
            row, column = linear_sum_assignment(-shared)
            apart.append(float(np.abs(theirs[row] - ours[column]).max()))
    return [
        Finding(
            f"largest difference from StepMix's three-step {way}, {len(apart)} pooled tables",
            "0.01", f"{max(apart):.4f}, median {np.median(apart):.4f}", max(apart) <= 0.01,
        )
        for way, apart in far.items()
    ]  # fmt: skip
