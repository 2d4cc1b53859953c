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
MOST = {
    ("Mexico", "fixed"): 0.3,
    ("Mexico", "learned"): None,
    ("CMS beneficiaries", "fixed"): 0.3,
    ("CMS beneficiaries", "learned"): None,
    ("civics", "fixed"): 0.3,
    ("civics", "learned"): None,
    ("CMS inpatient ICD-9", "fixed"): None,
    ("CMS inpatient ICD-9", "learned"): 1.0,
}
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
        for prior in ("fixed", "learned"):
            losses = []
            for seed in SEEDS:
                out = np.random.default_rng(seed).random(len(X)) < 0.2
                kept, held = X[~out], X[out]
                pooled = MerDel(max_iter=5000, prior=prior, random_state=seed).fit(kept)
                one_shot = FedMerDel(prior=prior, random_state=seed).fit(kept, groups=site[~out])
                best, reached = pooled.score(held), one_shot.score(held)
                losses.append(100 * (best - reached) / abs(best))
                rows.append(
                    [
                        name,
                        prior,
                        str(seed),
                        str(len(np.unique(site))),
                        f"{best:.4f} ({pooled.n_clusters_})",
                        f"{reached:.4f} ({one_shot.n_clusters_})",
                        f"{losses[-1]:.3f} %",
                    ]
                )
            loss, most = float(np.mean(losses)), MOST[name, prior]
            findings.append(
                Finding(
                    f"{name}, {prior} prior: loss of held-out log-likelihood, mean of {len(SEEDS)}",
                    "" if most is None else f"at most {most} %",
                    f"{loss:.3f} %",
                    most is None or loss <= most,
                )
            )
    header = ["table", "prior", "seed", "sites", "pooled (clusters)", "one-shot (clusters)", "loss"]
    note = "How sites fit was chosen on these splits." if rows else "None of the tables was found."
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


def _inpatient() -> tuple[NDArray[np.uint8], NDArray[np.generic]]:
    """States with 300 people at least: 34 of them, with a thousand each on average."""
    packed = np.load(FOLDER / "synpuf_inpatient_patient_x_icd3.npz")
    X = np.unpackbits(packed["bits"], axis=1, count=int(packed["n_cols"]))
    state = packed["state"]
    many = np.bincount(state)[state] >= 300
    return X[many], state[many]


TABLES = {
    "Mexico": _mexico,
    "CMS beneficiaries": _beneficiaries,
    "civics": _civics,
    "CMS inpatient ICD-9": _inpatient,
}
