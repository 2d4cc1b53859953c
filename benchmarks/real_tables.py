"""Real tables by natural site: the one-shot model against pooled rows, on rows held out."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.measure import Finding, Report
from fedmerdel import FedMerDel, MerDel

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data")) / "health"
MOST = 0.3
SEEDS = range(3)

COMORBIDITIES = [
    "DIABETES", "EPOC", "ASMA", "INMUSUPR", "HIPERTENSION", "OTRA_COM", "CARDIOVASCULAR",
    "OBESIDAD", "RENAL_CRONICA", "TABAQUISMO", "NEUMONIA",
]  # fmt: skip
DUTIES = [
    "obey", "rights", "local", "work", "envir", "vote", "history", "respect", "news", "protest",
    "discuss", "party",
]  # fmt: skip


def run() -> Report:
    """Hold out a fifth of the rows, fit the rest pooled and one-shot, and score."""
    findings, rows = [], []
    for name, load in TABLES.items():
        if not FOLDER.exists():
            break
        X, site = load()
        losses = []
        for seed in SEEDS:
            out = np.random.default_rng(seed).random(len(X)) < 0.2
            kept, held = X[~out], X[out]
            pooled = MerDel(max_iter=5000, random_state=seed).fit(kept)
            one_shot = FedMerDel(random_state=seed).fit(kept, groups=site[~out])
            best, reached = pooled.score(held), one_shot.score(held)
            losses.append(100 * (best - reached) / abs(best))
            rows.append(
                [
                    name,
                    str(seed),
                    str(len(np.unique(site))),
                    f"{best:.4f} ({pooled.n_clusters_})",
                    f"{reached:.4f} ({one_shot.n_clusters_})",
                    f"{losses[-1]:.3f} %",
                ]
            )
        loss = float(np.mean(losses))
        findings.append(
            Finding(
                f"{name}: loss of held-out log-likelihood per row, mean of {len(SEEDS)}",
                f"at most {MOST} %",
                f"{loss:.3f} %",
                loss <= MOST,
            )
        )
    header = ["table", "seed", "sites", "pooled (clusters)", "one-shot (clusters)", "loss"]
    note = "" if rows else "The tables are not part of the project; none were found."
    return Report(findings, header, rows, note)


def _mexico() -> tuple[pd.DataFrame, NDArray[np.generic]]:
    table = pd.read_parquet(FOLDER / "covid_mexico2023_235k.parquet")
    known = table[COMORBIDITIES].isin([1, 2])
    return (table[COMORBIDITIES] == 1).astype(float).where(known), table["ENTIDAD_UM"].to_numpy()


def _beneficiaries() -> tuple[pd.DataFrame, NDArray[np.generic]]:
    table = pd.read_parquet(FOLDER / "synpuf_beneficiary_2008_2010.parquet")
    return table[[name for name in table if name.startswith("SP_")]], table["STATE"].to_numpy()


def _civics() -> tuple[pd.DataFrame, NDArray[np.generic]]:
    table = pd.read_csv(FOLDER / "iea_civics_22countries.csv.gz")
    return table[DUTIES], table["COUNTRY"].to_numpy()


TABLES = {"Mexico": _mexico, "CMS beneficiaries": _beneficiaries, "civics": _civics}
