"""Honest sites of real tables that are found odd, and what it takes to look for them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.federation import split_sites
from benchmarks.measure import Finding, Report, one_core, seconds
from benchmarks.real_tables import FOLDER, TABLES
from fedmerdel import DataError, Federation, Study, draft_study, fit_site, merge_sites, policy_named
from fedmerdel.centre.federation import merge_trusted

SEEDS = range(20, 24)
"""Limits were set on federations of other seeds: other sites, and other rows of them."""

POLICIES = ("none", "opensafely", "ons")
N_SITES = (4, 20)
MOST_ROWS = 4000


def run() -> Report:
    """Let sites of real tables take part, some at a time, and count those that are found odd."""
    findings, rows, n_sites, n_odd = [], [], 0, 0
    for name, load in TABLES.items():
        if not FOLDER.exists():
            break
        X, site = load()
        study, found = _study(X), []
        for policy in POLICIES:
            for seed in SEEDS:
                for most in N_SITES:
                    federation = _federation(study, policy, X, site, most, seed)
                    found.append((len(federation.sites), len({d.site for d in federation.doubts})))
        sites, odd = np.sum(found, axis=0).tolist()
        rows.append([name, str(len(found)), str(sites), str(odd)])
        n_sites, n_odd = n_sites + sites, n_odd + odd
    if rows:
        told = f"honest sites of real tables found odd, of {n_sites}"
        findings.append(Finding(told, "at most 1 in 100", str(n_odd), n_odd <= n_sites / 100))
    header = ["table", "federations", "sites", "odd"]
    note = "By state or country, 4 or 20 of them, 4,000 rows of each at most, under three policies."
    return Report(findings + _times(), header, rows, note if rows else "No table was found.")


def _study(X: Any) -> Study:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare levels
        return draft_study(X, name="odd sites")


def _federation(
    study: Study, policy: str, X: Any, site: NDArray[np.generic], most: int, seed: int
) -> Federation:
    rng = np.random.default_rng(seed)
    names, sizes = np.unique(site, return_counts=True)
    chosen, sent = rng.permutation(names[sizes >= 100])[:most], []
    agreed = replace(study, policy=policy_named(policy))
    for each in chosen:
        at = np.sort(rng.permutation(np.flatnonzero(site == each))[:MOST_ROWS])
        part = X[at] if isinstance(X, np.ndarray) else X.iloc[at]
        try:
            sent.append(fit_site(agreed, part, f"site {each}"))
        except DataError:  # too small for its policy
            continue
    return merge_trusted(agreed, sent, "auto", "correlation")


def _times() -> list[Finding]:
    """Time a merge with and without a look for odd sites."""
    found = []
    for n_sites in (20, 300):
        sent = split_sites(n_sites)
        what = sent.study, sent.summaries
        with one_core():
            alone = seconds(partial(merge_trusted, *what, "auto", "correlation"))
            looked = seconds(partial(merge_sites, *what))
        measured = f"{looked:.2f} s, {alone:.2f} s without"
        name = f"merge of {n_sites} sites x 20 clusters with a look for odd sites"
        found.append(Finding(name, "under 10 s", measured, looked < 10))
    return found
