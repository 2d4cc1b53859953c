"""A federation's study run again on made-up rows: which clusters come back, and how many."""

from __future__ import annotations

import csv
import io
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import (
    CeilingWarning,
    Federation,
    FederationStability,
    OptionError,
    Replicates,
    federation_stability,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
    simulate,
)
from fedmerdel.centre.step import step
from fedmerdel.estimators import federation_stability as module
from fedmerdel.estimators import made_up_sites
from fedmerdel.estimators.made_up_sites import everyone, site_sources
from fedmerdel.fitting.passes import Workers, count_together
from fedmerdel.records.encode import encode
from fedmerdel.records.packing import pack_levels, plan_packing
from fedmerdel.records.simulate import SimulatedTable
from fedmerdel.records.tables import open_table
from fedmerdel.sums.agreement import most_alike
from fedmerdel.sums.predictive import draw_levels, mean_levels
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.command_line import Said, done, refused
from tests.federations import made_study
from tests.seeds import Record, over
from tests.signing import CENTRE, key

TABLE = simulate(450, 16, 3, beta=(0.3, 0.3), random_state=3)
SITES = ("hull", "leeds", "york")


def federation_of(
    tables: dict[str, np.ndarray], n_levels: np.ndarray | None = None, **options: object
) -> Federation:
    X = next(iter(tables.values()))
    study = made_study(
        np.full(X.shape[1], 2) if n_levels is None else n_levels,
        **{"prior": "learned", "max_clusters": "auto", **options},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return merge_sites(study, [fit_site(study, X, site) for site, X in tables.items()])


def thirds(X: np.ndarray) -> dict[str, np.ndarray]:
    return {site: X[b::3] for b, site in enumerate(SITES)}


@pytest.fixture(scope="module")
def clear() -> Federation:
    return federation_of(thirds(TABLE.X))


# Made-up rows


@settings(deadline=None)  # a kernel may have to be compiled
@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.booleans(), st.integers(0, 2**20))
def test_level_numbers_are_packed_as_a_table_is(
    levels: list[int], lacking: bool, seed: int
) -> None:
    rng, n_levels = np.random.default_rng(seed), np.array(levels)
    X = rng.integers(0, n_levels, (12, len(levels)))
    if lacking:
        X[rng.random(X.shape) < 0.3] = -1
    packing = plan_packing(n_levels, (X < 0).any(axis=0), 16)
    study = made_study(np.maximum(n_levels, 1))
    table = open_table(np.where(X < 0, np.nan, X.astype(float)))
    expected = encode(table, study.codebook)
    found = pack_levels(X, packing)
    assert np.array_equal(found.codes, expected.codes)
    assert np.array_equal(found.weights, expected.weights)


def test_drawn_levels_are_those_of_the_posterior() -> None:
    prior = uniform_prior(np.array([2, 3]), 0.01, 5)
    sums = Sums(
        np.array([30.0, 4.0]), np.array([[20.0, 10, 5, 5, 20], [0, 4, 1, 1, 2]]), np.zeros(2)
    )
    rng = np.random.default_rng(0)
    drawn = np.array([draw_levels(sums, prior, rng) for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), mean_levels(sums, prior), atol=0.01)
    eps = prior.posterior(sums.S)[0, 0]
    share, total = mean_levels(sums, prior)[0, 0], prior.posterior(sums.S)[0, :2].sum()
    assert eps == pytest.approx(share * total)
    assert drawn[:, 0, 0].var() == pytest.approx(share * (1 - share) / (total + 1), rel=0.1)


def test_rows_are_made_up_as_each_site_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many, with its levels, and with entries missing where they are."""
    monkeypatch.setattr(made_up_sites, "PART", 100)
    X = TABLE.X.astype(float)
    X[::3, 4] = np.nan  # hull never recorded it
    X[1::3, 5] = np.where(np.arange(150) % 4 == 0, np.nan, X[1::3, 5])
    federation = federation_of(thirds(X))
    rng = np.random.default_rng(0)
    with Workers() as workers:
        for b, source in enumerate(site_sources(federation)):
            again = source.rows_again(rng)
            sums = count_together(again, workers)
            assert again.n_rows == 150
            here = X[b::3]
            entries = sums.S[0].reshape(-1, 2).sum(axis=1)
            np.testing.assert_allclose(entries, np.sum(~np.isnan(here), axis=0), atol=40)
            assert (entries[4] == 0) == (b == 0)
            yes = sums.S[0].reshape(-1, 2)[:, 1]
            np.testing.assert_allclose(yes, np.nansum(here, axis=0), atol=60)
        assert everyone(federation).rows(250, rng).n_rows == 250


@given(
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_likeness_is_that_of_the_sets(one: list[int], other: list[int]) -> None:
    labels, others = np.array(one), np.array(other)
    found, which = most_alike(labels, others, np.ones(6), 4)
    for k in range(4):
        mine = labels == k
        alike = [
            (mine & (others == m)).sum() / max((mine | (others == m)).sum(), 1) for m in range(4)
        ]
        assert found[k] == pytest.approx(max(alike))
        assert alike[which[k]] == pytest.approx(max(alike))
    above = which[found > 0.5]
    assert len(set(above.tolist())) == len(above)


# Of a federation


def test_clear_clusters_come_back_and_so_does_their_number(clear: Federation) -> None:
    found = federation_stability(clear, n_bootstrap=3)
    for each in (found.new_rows, found.other_sites):
        assert each.likeness.shape == each.shares.shape == (3, 3)
        assert each.counts == {3: 3}
        assert np.all(each.found_again == 1)
        assert each.mean_likeness.min() > 0.9
    low, high = found.new_rows.share_range().T
    assert np.all((low <= high) & (high < 0.5) & (low > 0.2))
    assert found.names == ("cluster 0", "cluster 1", "cluster 2")
    np.testing.assert_allclose(found.rows.sum(), 450)


def test_the_seed_decides_and_not_the_threads(clear: Federation) -> None:
    one, two = (federation_stability(clear, n_bootstrap=2, n_jobs=n) for n in (1, 2))
    assert one.to_csv() == two.to_csv()
    assert one.to_csv() != federation_stability(clear, n_bootstrap=2, random_state=5).to_csv()


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_rounds_are_gone_through_again(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = thirds(TABLE.X)
    once = federation_of(tables, policy=policy_named(policy))
    again, _ = once.step(
        [reply_site(once.study, once.broadcast, X, site) for site, X in tables.items()]
    )
    steps = []
    monkeypatch.setattr(module, "step", lambda *given: steps.append(given) or step(*given))
    found = federation_stability(again, n_bootstrap=2)
    assert len(steps) == 4  # of two draws, with all sites and with some
    assert found.new_rows.counts == {3: 2}
    assert found.new_rows.mean_likeness.min() > (0.9 if policy == "none" else 0.6)


def test_a_cluster_of_one_site_depends_on_the_site() -> None:
    """With new rows it comes back; where the site is not drawn it can't."""
    tables = {
        site: X[(site == "hull") | (labels > 0)]
        for (site, X), labels in zip(
            thirds(TABLE.X).items(), (TABLE.labels[b::3] for b in range(3)), strict=True
        )
    }
    federation = federation_of(tables)
    assert len(federation.lone_clusters) == 1
    lone = federation.lone_clusters[0].cluster
    found = federation_stability(federation, n_bootstrap=10, random_state=1)
    assert found.new_rows.found_again[lone] == 1
    assert 0.2 <= found.other_sites.found_again[lone] <= 0.9
    assert np.isnan(found.other_sites.shares[:, lone]).any()


def test_one_site_has_no_others() -> None:
    found = federation_stability(federation_of({"hull": TABLE.X[:150]}), n_bootstrap=2)
    assert found.other_sites.likeness.shape == (0, 3)
    assert "other sites" not in str(found)
    assert "drawn" not in found.to_csv()


def test_whatever_the_study_asks_for_besides() -> None:
    """Outcomes, checks, weights and keys are no matter of made-up rows."""
    study = made_study(
        np.full(16, 2),
        prior="learned",
        outcomes=["died"],
        checks=True,
        weight="w",
        centre_key=CENTRE.public,
        site_keys={site: key(b).public for b, site in enumerate(SITES)},
    )
    sent = []
    for b, (site, X) in enumerate(thirds(TABLE.X).items()):
        frame = pd.DataFrame(X, columns=list(study.codebook.names))
        frame["died"], frame["w"] = np.arange(150) % 2, 1.0
        sent.append(fit_site(study, frame, site).signed(key(b)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CeilingWarning)
        federation = merge_sites(study, sent)
    assert federation_stability(federation, n_bootstrap=2).new_rows.found_again.min() == 1


# Shown


FOUND = FederationStability(
    ("frail", "cluster 1"),
    np.array([1200.0, 7.0]),
    Replicates(
        np.array([2, 3]),
        np.array([[1.0, 0.5], [0.8, 0.9]]),
        np.array([[0.9, np.nan], [0.8, 0.01]]),
    ),
    Replicates(np.array([2, 2]), np.array([[1.0, 0.2], [1.0, 0.2]]), np.array([[0.9, np.nan]] * 2)),
)


def test_it_is_shown_as_a_table() -> None:
    assert str(FOUND).splitlines() == [
        "  cluster   rows  new rows  found again  other sites  found again   share of rows",
        "    frail  1,200      0.90         100%         1.00         100%  80.5% to 89.5%",
        "cluster 1      7      0.70          50%         0.20           0%    1.0% to 1.0%",
        "clusters with new rows: 2 in 1 of 2, 3 in 1 of 2 draws",
        "clusters with other sites: 2 in 2 of 2 draws",
    ]


def test_the_file_has_every_draw() -> None:
    lines = list(csv.DictReader(io.StringIO(FOUND.to_csv())))
    assert len(lines) == 8
    assert lines[1] == {
        "draw": "1",
        "sites": "all",
        "clusters": "2",
        "cluster": "1",
        "name": "cluster 1",
        "likeness": "0.5",
        "share": "",
    }
    assert Counter(line["sites"] for line in lines) == {"all": 4, "drawn": 4}
    evil = replace(FOUND, names=("=cmd()", "a,b"))
    assert "'=cmd()" in evil.to_csv()


def test_never_found_again_has_no_share() -> None:
    assert np.isnan(FOUND.other_sites.share_range()[1]).all()
    assert "-" in str(replace(FOUND, new_rows=FOUND.other_sites)).splitlines()[2]


# Refused


def test_refusals(clear: Federation) -> None:
    with pytest.raises(OptionError, match="federation: give a Federation"):
        federation_stability(clear.model)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="n_bootstrap: give a whole number of at least 1"):
        federation_stability(clear, n_bootstrap=0)
    with pytest.raises(OptionError, match="n_jobs"):
        federation_stability(clear, n_jobs=0)


def test_a_line_shows_the_draws(clear: Federation, capsys: pytest.CaptureFixture[str]) -> None:
    federation_stability(clear, n_bootstrap=2)
    assert capsys.readouterr().out == ""
    federation_stability(clear, n_bootstrap=2, verbose=1)
    assert "2/2" in capsys.readouterr().out


def test_the_command(run, clear: Federation, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    clear.named({0: "frail"}).save(tmp_path / "centre")
    asked = ("stability", "centre", "-o", "draws.csv", "--draws", "2", "--seed", "3")
    assert "nats (±" in done(run("describe", "centre"))
    said: Said = run(*asked)
    assert "frail" in done(said)
    assert "3 in 2 of 2 draws" in said.out
    written = (tmp_path / "draws.csv").read_text()
    expected = federation_stability(clear.named({0: "frail"}), n_bootstrap=2, random_state=3)
    assert list(csv.reader(io.StringIO(written))) == list(
        csv.reader(io.StringIO(expected.to_csv()))
    )
    done(run(*asked, "--threads", "2"))
    assert (tmp_path / "draws.csv").read_text() == written
    refused(run("stability", "centre", "-o", "leeds.csv"), "is no table of draws")
    refused(run("stability", "nowhere", "-o", "draws.csv"), "nowhere")
    refused(run("stability", "centre", "-o", "draws.csv", "--draws", "0"), "--draws")


# Against new rows from the truth


def fresh(table: SimulatedTable, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """New rows of the true mixture, with a site's own shares of the clusters."""
    z = rng.choice(labels, size=len(labels))
    chance = rng.random((len(z), len(table.level_probabilities)))
    upper = np.stack([p[:, 0] for p in table.level_probabilities], axis=1)
    return np.asarray((chance >= upper[z]).astype(np.uint8))


@over(range(1), range(10, 20))
@pytest.mark.parametrize("kind", ["apart", "overlapping", "rare"])
def test_clusters_come_back_as_often_as_with_new_rows_from_the_truth(
    kind: str, seeds: range, record_property: Record
) -> None:
    """Made-up rows stand for rows that the same hospitals would have next year."""
    n_draws, made, true, same = (2, [], [], []) if len(seeds) == 1 else (6, [], [], [])
    for seed in seeds:
        table = {
            "apart": lambda s: simulate(1200, 25, 3, random_state=s),
            "overlapping": lambda s: simulate(1200, 16, 3, beta=(2.0, 2.0), random_state=s),
            "rare": lambda s: simulate(
                1200, 25, 4, cluster_sizes=[500, 400, 250, 50], random_state=s
            ),
        }[kind](seed)
        parts = {site: np.arange(b, len(table.X), 3) for b, site in enumerate(SITES)}
        federation = federation_of({site: table.X[at] for site, at in parts.items()})
        found = federation_stability(federation, n_bootstrap=n_draws, random_state=seed).new_rows
        same += (found.n_clusters == federation.n_clusters).tolist()
        rng = np.random.default_rng(seed)
        judges = everyone(federation).rows(5000, rng)
        again = []
        for _ in range(n_draws):
            new = {site: fresh(table, table.labels[at], rng) for site, at in parts.items()}
            again.append(_likeness(federation, federation_of(new), judges))
        made += found.found_again.tolist()
        true += np.mean(np.array(again) >= 0.75, axis=0).tolist()
    far = float(np.mean(np.abs(np.array(made) - true)))
    record_property(
        f"{kind}: found again with made-up rows, with new ones; same number; mean distance",
        f"{np.mean(made):.2f}, {np.mean(true):.2f}; {np.mean(same):.2f}; {far:.2f}, below 0.15",
    )
    if len(seeds) > 1:
        assert far < 0.15
        assert kind != "apart" or np.mean(same) >= 0.9
    assert abs(np.mean(made) - np.mean(true)) < (0.1 if len(seeds) > 1 else 0.5)


def _likeness(one: Federation, other: Federation, judges) -> np.ndarray:  # type: ignore[no-untyped-def]
    from fedmerdel.estimators.federation_stability import _labels

    with Workers() as workers:
        labels, others = (_labels(each, judges, workers) for each in (one, other))
    return most_alike(labels, others, judges.weights, one.n_clusters)[0]
