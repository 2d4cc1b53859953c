"""Every figure of `fedmerdel.plot`, from made hospitals: writes docs/gallery.

The same code writes the same bytes, so that a change of a figure is seen as a change of its file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

from fedmerdel import (
    Federation,
    GlobalModel,
    MerDel,
    draft_study,
    fit_site,
    merge_sites,
    plot,
    reply_site,
    simulate,
)

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery"
HOSPITALS = ("Bradford", "Durham", "Hull", "Leeds", "Ripon", "Sheffield", "Whitby", "York")

# In about the order of how frequent they are.
CONDITIONS = (
    "hypertension", "depression", "asthma", "osteoarthritis", "diabetes", "obesity", "anxiety",
    "hypothyroidism", "chronic kidney disease", "coronary heart disease", "cancer", "eczema",
    "hearing loss", "COPD", "atrial fibrillation", "migraine", "stroke", "heart failure",
    "psoriasis", "osteoporosis", "glaucoma", "irritable bowel", "epilepsy", "rheumatoid arthritis",
    "dementia", "gout", "liver disease", "Parkinson's disease", "schizophrenia", "sleep apnoea",
)  # fmt: skip

STYLE = {"svg.hashsalt": "fedmerdel", "svg.fonttype": "none"}
"""Text stays text, and names inside a file are the same every time."""


def main() -> None:
    """Write every figure, and a picture of the report that they are from."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    federation, table = hospitals()
    photograph(federation)
    for name, figure in figures(federation, table):
        with mpl.rc_context(STYLE):
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        print(f"{name:12s} {(FOLDER / f'{name}.svg').stat().st_size / 1000:4.0f} kB")


def photograph(federation: Federation) -> None:
    """Write what a browser shows of the report's beginning, if there is a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium: the picture of the report stays as it is")
        return
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder, sync_playwright() as play:
        page = Path(folder) / "report.html"
        federation.report(page, title="Eight made hospitals", date="2026-11-16")
        window = play.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1280, "height": 1180}
        )
        window.goto(page.as_uri())
        window.screenshot(path=FOLDER / "report.png")


def figures(federation: Federation, table: pa.Table) -> Iterator[tuple[str, Any]]:
    """Draw each figure and say its name; those of what sites sent need the federation."""
    model = federation.model
    yield "heatmap", plot.heatmap(model).figure
    ratio = plot.heatmap(model, "ratio", first="distinguishing", most=20, clusters="alike")
    yield "ratio", ratio.figure
    yield "sites", plot.sites(federation).figure
    yield "site_comparison", plot.site_comparison(coded_otherwise(), "Leeds", "York").figure
    yield "outcomes", plot.outcomes(model, "death").figure
    yield "lineage", plot.lineage(federation).figure
    yield "certainty", plot.certainty(model).figure
    yield "variables", plot.variables(model).figure
    yield "elbo", plot.elbo(federation).figure
    yield "fit", plot.elbo(MerDel(random_state=1).fit(table)).figure
    yield "images", plot.images(digits(), (8, 8))


def hospitals() -> tuple[Federation, pa.Table]:
    """Return what eight hospitals found together, and all their patients.

    Twelve clusters, half of them at five hospitals only. Six of the variables are noise.
    """
    rng = np.random.default_rng(3)
    made = simulate(
        16_000, 30, 12, beta=(0.5, 1.5), noisy=0.2, size_range=(400, 3000), random_state=5
    )
    mix = rng.dirichlet(np.full(8, 2.0), size=12)
    for k in range(0, 12, 2):
        mix[k, rng.permutation(8)[:3]] = 0.0
    mix /= mix.sum(axis=1, keepdims=True)
    hospital = np.array([rng.choice(8, p=mix[k]) for k in made.labels])
    death = rng.random(len(hospital)) < np.linspace(0.01, 0.2, 12)[made.labels]
    by_frequency = np.argsort(-made.X.mean(axis=0), kind="stable")
    table = pa.table(
        {name: made.X[:, j] for name, j in zip(CONDITIONS, by_frequency, strict=True)}
        | {"death": death.astype(np.int64)}
    )
    study = draft_study(table, name="gallery", outcomes=["death"])
    summaries = [
        fit_site(study, table.filter(pa.array(hospital == b)), site=site)
        for b, site in enumerate(HOSPITALS)
    ]
    return named(merge_sites(study, summaries)), table.drop_columns(["death"])


def coded_otherwise() -> Federation:
    """Return two hospitals after a round; York records one condition of a cluster more often."""
    made = simulate(6000, 12, 4, beta=(0.5, 1.0), random_state=2)
    at_york = np.arange(6000) >= 3000
    X = made.X.copy()
    inside = made.labels == 1
    more = at_york & inside & (np.random.default_rng(1).random(6000) < 0.5)
    X[more, X[inside].mean(axis=0).argmin()] = 1
    table = pa.table({name: X[:, j] for j, name in enumerate(CONDITIONS[:12])})
    study = draft_study(table, name="two hospitals", rounds=1, trusts_centre=True)
    parts = {"Leeds": table.slice(0, 3000), "York": table.slice(3000)}
    federation = merge_sites(study, [fit_site(study, part, site) for site, part in parts.items()])
    sent = federation.broadcast
    replies = [reply_site(study, sent, part, site) for site, part in parts.items()]
    return federation.step(replies)[0]


def named(federation: Federation) -> Federation:
    """Name each cluster by what it has most more of."""
    names = {}
    for cluster in federation.describe():
        marks = [
            level.variable
            for level in cluster.levels
            if level.level == "1" and level.prevalence > 0.3
        ]
        names[cluster.number] = ", ".join(marks[:2])
    return federation.named(names)


def digits() -> GlobalModel:
    """Return clusters of scikit-learn's handwritten digits, as if two places had them."""
    pixels = load_digits().data > 7
    table = pa.table({f"pixel_{j}": pixels[:, j] for j in np.flatnonzero(pixels.any(axis=0))})
    study = replace(draft_study(table, name="digits"), max_clusters=15)
    half = len(pixels) // 2
    parts = {"one": table.slice(0, half), "two": table.slice(half)}
    summaries = [fit_site(study, part, site=site) for site, part in parts.items()]
    return merge_sites(study, summaries).model


if __name__ == "__main__":
    main()
