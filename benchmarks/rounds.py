"""From one shot to pooled quality: the loss against the number of exchanges, and a picture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
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
    FedMerDel,
    GlobalModel,
    MerDel,
    bayes_labels,
    draft_study,
    fit_site,
    merge_onto,
    merge_sites,
    policy_named,
    score_samples,
    simulate,
    update_site,
)
from fedmerdel.fitting.passes import Workers
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import encode
from fedmerdel.records.packing import repack
from fedmerdel.records.tables import open_table
from fedmerdel.site.update import exact_reply

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "results" / "rounds.svg"
SEEDS = range(3)
SHOWN = (0, 1, 2, 4, 8, 16, 30)
MOST = {  # per cent after 8 and after 30 exchanges
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
POLICY_EXCHANGES = 8


def run() -> Report:
    """Follow real tables through thirty exchanges; then small sites, a policy, and sizes."""
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
                        f"{name}: loss of held-out log-likelihood after {at} exchanges",
                        f"at most {most} %",
                        f"{loss:.3f} %",
                        bool(loss <= most),
                    )
                )
            told = [f"{curves[name][at]:.3f}" for at in SHOWN]
            rows.append([f"{name}, exact counts", *told, ", ".join(map(str, clusters))])
        for name in POLICY_TABLES:
            hidden, n_clusters = _follow_files(name, 0)
            told = [f"{hidden[at]:.3f}" if at < len(hidden) else "" for at in SHOWN]
            rows.append([f"{name}, policy {POLICY}, seed 0", *told, str(n_clusters)])
        _draw(curves)
    findings += _small_sites() + _sizes()
    header = ["loss in %, exchanges:", *map(str, SHOWN), "clusters at the end"]
    note = (
        "Loss: held-out log-likelihood of a row, a fifth of the rows, below that of `MerDel` on "
        "pooled rows with the same prior and options, in per cent of it; mean of "
        f"{len(SEEDS)} seeds. 0 is one shot; negative is better than pooled.\n\n"
        "![Loss against exchanges](rounds.svg)"
    )
    return Report(findings, header, rows, note if curves else "No tables were found.")


def _split(name: str, seed: int) -> tuple[Any, Any, NDArray[Any]]:
    X, site = TABLES[name]()
    out = np.random.default_rng(seed).random(len(X)) < 0.2
    return X[~out], X[out], site[~out].astype(str)


def _follow(name: str, seed: int) -> tuple[list[float], int]:
    """Return the loss after each of 0 to 30 exchanges, and the clusters at the end."""
    kept, held, site = _split(name, seed)
    best = MerDel(max_iter=5000, random_state=seed).fit(kept).score(held)
    first = FedMerDel(random_state=seed).fit(kept, groups=site)
    losses = []
    model = first.model_
    for following in _exchanges(first, kept, site, SHOWN[-1]):
        model = following
        reached = float(np.mean(score_samples(model, held)))
        losses.append(100 * (best - reached) / abs(best))
    return losses, model.n_clusters


def _exchanges(
    first: FedMerDel, X: Any, site: NDArray[Any], n_exchanges: int
) -> Iterator[GlobalModel]:
    """Yield the one-shot model, and the model after each exchange with exact counts."""
    rows = encode(open_table(X), first.codebook_, owner="FedMerDel")
    model = first.model_
    parts = {
        name: repack(collapse(rows.take(np.flatnonzero(site == name)))[0]) for name in model.sites
    }
    yield model
    for _ in range(n_exchanges):
        sent = model.broadcast
        replies = [exact_reply(sent, part, name, Workers()) for name, part in parts.items()]
        model = merge_onto(model, replies)
        yield model


def _follow_files(name: str, seed: int) -> tuple[list[float], int]:
    """Return the loss after each exchange under a policy that hides small counts."""
    kept, held, site = _split(name, seed)
    best = MerDel(max_iter=5000, random_state=seed).fit(kept).score(held)
    study = replace(draft_study(pd.DataFrame(kept)), policy=policy_named(POLICY))
    tables = {name: kept[site == name] for name in np.unique(site).tolist()}
    model = merge_sites(study, [fit_site(study, table, n) for n, table in tables.items()])
    losses = []
    for at in range(POLICY_EXCHANGES + 1):
        if at:
            model = merge_onto(model, [update_site(model, t, n) for n, t in tables.items()])
        reached = float(np.mean(score_samples(model, held)))
        losses.append(100 * (best - reached) / abs(best))
    return losses, model.n_clusters


def _small_sites() -> list[Finding]:
    """Fit 50 sites of 400 rows with 8 exchanges."""
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
            "50 sites x 400 rows after 8 exchanges: ARI below Bayes labels' (mean, worst of 10)",
            "within 0.01",
            f"{np.mean(gaps):.4f}, {max(gaps):.4f}",
            bool(max(gaps) <= 0.01),
        ),
        Finding(
            "50 sites x 400 rows after 8 exchanges: exactly 12 clusters",
            "10 of 10",
            f"{exact} of 10",
            exact == 10,
        ),
    ]


def _sizes() -> list[Finding]:
    """Measure a reply and a broadcast of 20 clusters and 255 variables on disk."""
    table = simulate(8000, 255, 20, random_state=0)
    study = replace(draft_study(pd.DataFrame(table.X)), policy=policy_named("none"))
    model = merge_sites(study, [fit_site(study, table.X, "leeds")])
    model = merge_onto(model, [update_site(model, table.X, "leeds")])
    reply = update_site(model, table.X, "leeds")
    with tempfile.TemporaryDirectory() as folder:
        reply.save(Path(folder) / "reply")
        model.broadcast.save(Path(folder) / "broadcast")
        sizes = {
            part: sum(file.stat().st_size for file in (Path(folder) / part).iterdir()) / 1000
            for part in ("reply", "broadcast")
        }
    return [
        Finding(
            f"{what}, K = {model.n_clusters}, P = 255, exact numbers",
            "under 500 kB",
            f"{size:.0f} kB",
            size < 500,
        )
        for what, size in sizes.items()
    ]


def _draw(curves: dict[str, NDArray[np.float64]]) -> None:
    """Draw the loss against exchanges, one line a table."""
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
        axes.set_xlabel("exchanges after the one-shot merge")
        axes.set_ylabel("held-out log-likelihood\nbelow pooled rows', %")
        axes.legend(frameon=False, loc="upper right")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(PICTURE, metadata={"Date": None})
        plt.close(figure)
