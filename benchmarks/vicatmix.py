"""Plain passes against the ELBO traces of the R package VICatMix, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from benchmarks.measure import Finding, Report
from fedmerdel.mixture.elbo import elbo
from fedmerdel.mixture.expectations import Expectations, expectations
from fedmerdel.mixture.passes import Workers, count_labels, expect_and_count
from fedmerdel.mixture.prior import uniform_prior
from fedmerdel.records import encode, infer_codebook, open_table

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data")) / "reference"
CLOSE = 1e-6


def run() -> Report:
    """Follow each recorded run from its start; its first E step has even weights."""
    findings, rows = [], []
    for path in sorted(FOLDER.glob("vicatmix_*.npz")):
        recorded = np.load(path)
        X = np.unpackbits(recorded["bits"], axis=1, count=int(recorded["n_cols"]))
        table = open_table(X)
        packed = encode(table, infer_codebook(table))
        n_clusters = int(recorded["K"])
        prior = uniform_prior(packed.packing.n_levels, float(recorded["alpha"]), n_clusters)
        start = recorded["start"].astype(np.int64)
        stats = count_labels(packed, start - start.min(), n_clusters, Workers())
        theta = Expectations(np.zeros(n_clusters), expectations(stats, prior).log_levels)
        trace = []
        for _ in recorded["elbo"]:
            stats = expect_and_count(packed, theta, Workers())
            trace.append(elbo(stats, prior))
            theta = expectations(stats, prior)
        off = float(np.abs(np.array(trace) - recorded["elbo"]).max())
        findings.append(
            Finding(
                f"{path.stem}: largest difference of the ELBO over {len(trace)} passes",
                f"at most {CLOSE:g}",
                f"{off:.1g}",
                off <= CLOSE,
            )
        )
        rows.append([path.stem, f"{recorded['elbo'][-1]:.6f}", f"{trace[-1]:.6f}"])
    note = "" if rows else "The recorded runs are not part of the project; none were found."
    return Report(findings, ["run", "VICatMix, last ELBO", "ours"], rows, note)
