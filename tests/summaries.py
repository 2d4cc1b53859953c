"""Made summaries of a site, and how two of them are compared."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from fedmerdel.release.protection import protect
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import evenly_shared, everyone
from tests.outcome_cells import YES_NO, yes_no

FILES = ["README.txt", "counts.csv", "overlap.csv", "summary.json"]


def make(
    seed: int = 0,
    policy: str = "opensafely",
    n_clusters: int = 3,
    codebook: Codebook | None = None,
    missing: float = 0.1,
    outcomes: tuple[str, ...] = ("death",),
) -> SiteSummary:
    rng = np.random.default_rng(seed)
    if codebook is None:
        texts = ("a", "b, c", 'say "d"')
        codebook = Codebook(
            (Variable("age", texts, "text"), Variable("sex", ("0", "1"), "integer"))
        )
    T = rng.uniform(40, 4000, n_clusters)
    parts = []
    for L in codebook.n_levels:
        shares = rng.dirichlet(np.ones(L + 1), n_clusters) * np.append(np.ones(L), missing)
        parts.append((shares / shares.sum(axis=1, keepdims=True))[:, :L] * T[:, None])
    S = np.concatenate(parts, axis=1)
    counts = {name: yes_no(T * rng.uniform(0, 0.2), T * 0.9) for name in outcomes}
    prior = uniform_prior(codebook.n_levels, 0.01, 20)
    sums = Sums(T, S, *evenly_shared(n_clusters, 20.0, rng), counts)
    out = protect(sums, everyone(sums), prior, POLICIES[policy])
    return SiteSummary(
        study_hash="0123abcd",
        site="leeds",
        software="fedmerdel 0.1.0",
        n_components=20,
        sums=out.released.sums,
        rest=out.released.rest,
        account=out.account,
        codebook=codebook,
        tables=dict.fromkeys(outcomes, YES_NO),
    )


def assert_same(one: SiteSummary, other: SiteSummary) -> None:
    assert type(one) is type(other)
    for a, b in zip(one.sums[:4], other.sums[:4], strict=True):
        assert a.tobytes() == b.tobytes()
        assert a.shape == b.shape
    assert list(one.sums.outcomes) == list(other.sums.outcomes)
    for name, counts in one.sums.outcomes.items():
        assert counts.tobytes() == other.sums.outcomes[name].tobytes()
    texts = ("study_hash", "site", "software", "n_components", "selected")
    for name in (*texts, "account", "codebook", "tables"):
        assert getattr(one, name) == getattr(other, name)


def content(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
