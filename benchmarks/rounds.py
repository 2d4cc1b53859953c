"""From one shot to pooled quality: the loss against the number of rounds, and a picture."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import Finding, Report
from benchmarks.real_tables import FOLDER, TABLES
from fedmerdel import (
    Broadcast,
    Federation,
    FedMerDel,
    MerDel,
    Reply,
    bayes_labels,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
    run_rounds,
    score_samples,
    simulate,
)

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "results" / "rounds.svg"
SEEDS = range(3)
SHOWN = (0, 1, 2, 4, 8, 16, 30)
MOST = {  # per cent after 8 and after 30 rounds
    "Mexico": (0.2, 0.05),
    "CMS beneficiaries": (0.2, 0.05),
    "civics": (0.2, 0.05),
    "CMS inpatient ICD-9": (0.4, 0.15),
}
COLOURS = {
    "Mexico": "#0072B2",
    "CMS beneficiaries": "#009E73",
    "civics": "#D55E00",
    "CMS inpatient ICD-9": "#CC79A7",
}
POLICY = "opensafely"
POLICY_TABLES = ("Mexico", "civics")
POLICY_ROUNDS = 8


def run() -> Report:
    """Follow real tables through thirty rounds; then small sites, a policy, and sizes."""
    findings, rows = [], []
    curves: dict[str, NDArray[np.float64]] = {}
    if FOLDER.exists():
        for name in TABLES:
            losses, clusters = zip(*(_follow(name, seed) for seed in SEEDS), strict=True)
            curves[name] = np.mean(losses, axis=0)
            for at, most in zip((8, 30), MOST[name], strict=True):
                loss = curves[name][at]
                findings.append(
                    Finding(
                        f"{name}: loss of held-out log-likelihood after {at} rounds",
                        f"at most {most} %",
                        f"{loss:.3f} %",
                        bool(loss <= most),
                    )
                )
            told = [f"{curves[name][at]:.3f}" for at in SHOWN]
            rows.append([f"{name}, exact counts", *told, ", ".join(map(str, clusters))])
        for name in POLICY_TABLES:
            hidden, n_clusters = _follow_policy(name, 0)
            told = [f"{hidden[at]:.3f}" if at < len(hidden) else "" for at in SHOWN]
            rows.append([f"{name}, policy {POLICY}, seed 0", *told, str(n_clusters)])
        _draw(curves)
    findings += _small_sites() + _sizes()
    header = ["loss in %, rounds:", *map(str, SHOWN), "clusters at the end"]
    note = (
        "Loss: held-out log-likelihood of a row, a fifth of the rows, below that of `MerDel` on "
        "pooled rows with the same prior and options, in per cent of it; mean of "
        f"{len(SEEDS)} seeds. 0 is one shot; negative is better than pooled.\n\n"
        "![Loss against rounds](rounds.svg)"
    )
    return Report(findings, header, rows, note if curves else "No tables were found.")


def _split(name: str, seed: int) -> tuple[Any, Any, NDArray[Any]]:
    X, site = TABLES[name]()
    out = np.random.default_rng(seed).random(len(X)) < 0.2
    return X[~out], X[out], site[~out].astype(str)


def _follow(name: str, seed: int) -> tuple[list[float], int]:
    """Return the loss after each of 0 to 30 rounds with exact counts, and the clusters left."""
    kept, held, site = _split(name, seed)
    first = FedMerDel(random_state=seed).fit(kept, groups=site).federation_
    # The same first merge, of a study that agrees on rounds: only its hash is another.
    study = replace(first.study, rounds=SHOWN[-1])
    sent = [replace(summary, study_hash=study.hash) for summary in first.summaries]
    first = merge_sites(study, sent)
    tables = {name: kept[site == name] for name in first.sites}
    return _losses(first, tables, SHOWN[-1], held, _pooled_score(kept, held, seed))


def _follow_policy(name: str, seed: int) -> tuple[list[float], int]:
    """Return the same under a policy that hides small counts."""
    kept, held, site = _split(name, seed)
    study = draft_study(pd.DataFrame(kept), rounds=POLICY_ROUNDS, trusts_centre=True)
    study = replace(study, policy=policy_named(POLICY))
    tables = {name: kept[site == name] for name in np.unique(site).tolist()}
    first = merge_sites(study, [fit_site(study, table, n) for n, table in tables.items()])
    return _losses(first, tables, POLICY_ROUNDS, held, _pooled_score(kept, held, seed))


def _pooled_score(kept: Any, held: Any, seed: int) -> float:
    return MerDel(max_iter=5000, random_state=seed).fit(kept).score(held)


def _losses(
    federation: Federation, tables: dict[str, Any], n_rounds: int, held: Any, best: float
) -> tuple[list[float], int]:
    """Return the loss after each of so many rounds, in per cent, and the clusters left."""
    losses = []
    for number in range(n_rounds + 1):
        if number:
            study, broadcast = federation.study, federation.broadcast
            replies = [reply_site(study, broadcast, table, name) for name, table in tables.items()]
            federation, _ = federation.step(replies)
        reached = float(np.mean(score_samples(federation.model, held)))
        losses.append(100 * (best - reached) / abs(best))
    return losses, federation.n_clusters


def _small_sites() -> list[Finding]:
    """Fit 50 sites of 400 rows with 8 rounds."""
    gaps, exact = [], 0
    for seed in range(10):
        table = simulate(20_000, 100, 12, random_state=seed)
        site = np.random.default_rng(1000 + seed).permutation(np.arange(20_000) % 50)
        model = FedMerDel(rounds=8, random_state=seed).fit(table.X, groups=site)
        best = adjusted_rand_score(table.labels, bayes_labels(table, site))
        gaps.append(best - adjusted_rand_score(table.labels, model.labels_))
        exact += model.n_clusters_ == 12
    return [
        Finding(
            "50 sites x 400 rows after 8 rounds: ARI below Bayes labels' (mean, worst of 10)",
            "within 0.01",
            f"{np.mean(gaps):.4f}, {max(gaps):.4f}",
            bool(max(gaps) <= 0.01),
        ),
        Finding(
            "50 sites x 400 rows after 8 rounds: exactly 12 clusters",
            "10 of 10",
            f"{exact} of 10",
            exact == 10,
        ),
    ]


def _sizes() -> list[Finding]:
    """Measure a reply and a broadcast of 20 clusters and 255 variables on disk."""
    table = simulate(8000, 255, 20, random_state=0)
    study = replace(
        draft_study(pd.DataFrame(table.X), rounds=1, trusts_centre=True),
        policy=policy_named("none"),
    )
    federation = merge_sites(study, [fit_site(study, table.X, "leeds")])

    def ask(broadcast: Broadcast) -> list[Reply]:
        return [reply_site(study, broadcast, table.X, "leeds")]

    # After a round a broadcast has its cuts.
    federation = run_rounds(federation, ask, rounds=1)
    (reply,) = ask(federation.broadcast)
    with tempfile.TemporaryDirectory() as folder:
        reply.save(Path(folder) / "reply")
        federation.broadcast.save(Path(folder) / "broadcast")
        sizes = {
            part: sum(file.stat().st_size for file in (Path(folder) / part).iterdir()) / 1000
            for part in ("reply", "broadcast")
        }
    return [
        Finding(
            f"{what}, K = {federation.n_clusters}, P = 255, exact numbers",
            "under 500 kB",
            f"{size:.0f} kB",
            size < 500,
        )
        for what, size in sizes.items()
    ]


def _draw(curves: dict[str, NDArray[np.float64]]) -> None:
    """Draw the loss against rounds, one line a table."""
    mpl.use("svg")
    # Fixed, so that the same curves give the same file.
    with mpl.rc_context({"svg.hashsalt": "fedmerdel", "font.size": 11}):
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        for name, losses in curves.items():
            axes.plot(losses, color=COLOURS[name], marker="o", markersize=3, label=name)
        axes.axhline(0, color="#999999", linewidth=1)
        axes.set_xlim(-0.5, 30.5)
        axes.set_xticks([0, 1, 2, 4, 8, 16, 30])
        axes.set_xlabel("rounds after the one-shot merge")
        axes.set_ylabel("held-out log-likelihood\nbelow pooled rows', %")
        axes.legend(frameon=False, loc="upper right")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(PICTURE, metadata={"Date": None})
        plt.close(figure)
