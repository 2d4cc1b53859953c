"""Effects of covariates on membership in a federation: from released counts alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

from fedmerdel import (
    Federation,
    FileError,
    GlobalModel,
    Membership,
    OptionError,
    Study,
    Term,
    fit_site,
    merge_sites,
    reply_site,
)
from fedmerdel.centre.covariates import ADDED_UP, _noise, covariate_cells
from fedmerdel.inference.regression import Cells, prior_precision, regress, taken_back
from fedmerdel.model.membership import SITE, terms_of
from fedmerdel.study.outcome import COVARIATES
from tests.command_line import Run, done
from tests.covariate_tables import AGE, SEX, drawn, name, of_federation, study_of
from tests.seeds import Record, over

P = 30
TABLE = drawn(7, 3, 600, P)


def merged(study: Study) -> Federation:
    sites = [fit_site(study, rows, name(b)) for b, rows in enumerate(TABLE.sites)]
    return merge_sites(study, sites)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return merged(study_of(P, rounds=2))


# The counts, and what is made of them.


@pytest.mark.parametrize("rounds", [0, 1])
def test_cells_are_what_sites_counted(federation: Federation, rounds: int) -> None:
    study = federation.study
    for _ in range(rounds):
        sites = enumerate(TABLE.sites)
        replies = [reply_site(study, federation.broadcast, rows, name(b)) for b, rows in sites]
        federation, _ = federation.step(replies)
    found = covariate_cells(federation.counting, study)
    parts = zip(found, federation.counting.sites, strict=True)
    for b, (cells, site) in enumerate(parts):
        told = site.summary.sums.outcomes[COVARIATES]
        for v, g in np.ndindex(*cells.counts.shape):
            own = [told[c, v] for c in range(len(told)) if site.place[c] == g]
            assert cells.counts[v, g] == pytest.approx(sum(own))
        assert cells.counts.sum() == pytest.approx(len(TABLE.sites[b]))
        np.testing.assert_array_equal(cells.design[:, 4:], np.tile(np.eye(3)[b, 1:], (6, 1)))
        assert not cells.noise.any()
    effects = regress(found, prior_precision(6))
    told = [each.log_odds_ratio for each in federation.covariate_effects()]
    np.testing.assert_allclose(told, effects.coefficients[1:].T.ravel())


def test_noise_of_a_policy_moves_rows_between_clusters() -> None:
    """What other clusters gain the rest loses: with counts of two clusters, all of it."""
    variance = np.array([[4.0, 1.0], [7.0, 3.0], [3.0, 2.0]])
    found = _noise(variance, 1, np.eye(3))
    np.testing.assert_allclose(found[0], ADDED_UP * np.array([[4, -4, 0], [-4, 7, -3], [0, -3, 3]]))
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 0.0, atol=1e-12)
    alone = _noise(variance, None, np.eye(3))[1]
    np.testing.assert_allclose(alone, ADDED_UP * np.diag([1.0, 3.0, 2.0]))
    # Clusters that are one at the centre: between them nothing moved.
    together = _noise(variance, 1, np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(together[0], ADDED_UP * np.array([[3, -3], [-3, 3]]), atol=1e-12)


def test_counts_under_a_policy_are_as_far_from_the_rows_as_is_told() -> None:
    """The same local clusters with and without it: mean square of what differs."""
    found, told = [], []
    for seed in range(3):
        for b, rows in enumerate(drawn(seed, 4, 1500, P).sites):
            exact = fit_site(study_of(P), rows, name(b))
            protected = fit_site(study_of(P, "opensafely"), rows, name(b))
            if exact.n_clusters != protected.n_clusters:
                continue
            cells = protected.sums.outcomes[COVARIATES]
            apart = cells - exact.sums.outcomes[COVARIATES]
            variance = protected.mechanism.variance(cells.copy(), protected.rest)
            noise = _noise(variance, protected.rest, np.eye(len(cells)))
            seen = (cells > 0).T
            found.append(np.mean(apart.T[seen] ** 2))
            told.append(np.mean(np.diagonal(noise, axis1=1, axis2=2)[seen]))
    assert 0.75 < np.mean(found) / np.mean(told) < 1.25


@pytest.mark.parametrize("policy", ["opensafely", "none"])
def test_under_a_policy_nothing_new_leaves(policy: str) -> None:
    """Effects follow from the summaries as they were: one table of patterns by cluster."""
    study = study_of(P, policy)
    sent = [fit_site(study, rows, name(b)) for b, rows in enumerate(TABLE.sites)]
    for summary in sent:
        assert set(summary.sums.outcomes) == {COVARIATES}
        cells = summary.sums.outcomes[COVARIATES]
        assert cells.shape == (summary.n_clusters, 6)
        if policy != "none":
            smallest = summary.mechanism.smallest
            assert np.all((cells == 0) | (cells >= smallest))
    loaded = [type(each).from_bytes(each.to_bytes()) for each in sent]
    first, again = (merge_sites(study, each).covariate_effects() for each in (sent, loaded))
    assert first == again


def test_stepmix_in_three_steps_finds_the_same() -> None:
    """On the same pooled rows and the same measurement model: BCH, and ML for hard labels."""
    pytest.importorskip("stepmix")
    from stepmix.corrections import compute_bch_matrix
    from stepmix.stepmix import StepMix

    rows = TABLE.sites[0]
    X = rows.iloc[:, :P].to_numpy()
    v = rows["age"].map(AGE.levels.index).to_numpy() * 2 + (rows["sex"] == "m").to_numpy()
    design = np.array([[1, a == 1, a == 2, s] for a in range(3) for s in range(2)], dtype=float)
    for correction, assignment in (("BCH", "modal"), ("BCH", "soft"), ("ML", "modal")):
        theirs = StepMix(
            n_components=3, measurement="binary", structural="covariate", n_steps=3,
            correction=correction, assignment=assignment, random_state=1, abs_tol=1e-9,
            max_iter=1000, progress_bar=0, structural_params={"max_iter": 50, "tol": 1e-9},
        )  # fmt: skip
        theirs.fit(X, design[v][:, 1:])
        r = theirs.predict_proba_class(X)
        counted = np.eye(3)[r.argmax(axis=1)] if assignment == "modal" else r
        counts = np.array([counted[v == each].sum(axis=0) for each in range(6)])
        D = compute_bch_matrix(r, assignment)[0].T
        cells = Cells(design, counts, D, np.zeros((3, 3, 3)), np.zeros((6, 3, 3)))
        ours = regress([taken_back(cells) if correction == "BCH" else cells], np.zeros(4))
        beta = theirs._sm.parameters["beta"]
        expected = (beta - beta[0]).T[:, 1:]
        np.testing.assert_allclose(ours.coefficients, expected, atol=1e-3)


# What the model says.


def test_effects_are_normal_intervals_of_coefficients() -> None:
    rng = np.random.default_rng(1)
    half = rng.normal(0, 0.1, (6, 6))
    found = Membership(terms_of((AGE, SEX)), rng.normal(0, 1, (3, 2)), half @ half.T)
    effects = found.effects()
    assert [(e.cluster, e.level) for e in effects] == [
        (k, level) for k in (1, 2) for level in ("middle", "old", "m")
    ]
    errors = np.sqrt(np.diag(found.covariance))
    for at, effect in enumerate(effects):
        value = found.coefficients.T.ravel()[at]
        assert effect.log_odds_ratio == pytest.approx(value)
        assert effect.standard_error == pytest.approx(errors[at])
        low, high = norm.interval(0.95, value, errors[at])
        assert (effect.low, effect.high) == pytest.approx((low, high), abs=1e-6)
        assert effect.p_value == pytest.approx(2 * norm.sf(abs(value) / errors[at]))
        assert effect.odds_ratio == pytest.approx(np.exp(value))
        assert effect.text.startswith(f"{np.exp(value):.2f} (")
    # Against another cluster: differences, with the covariance of both.
    turned = {(e.cluster, e.level): e for e in found.effects(reference=2)}
    assert set(turned) == {(k, level) for k in (0, 1) for level in ("middle", "old", "m")}
    one = turned[1, "old"]
    assert one.log_odds_ratio == pytest.approx(found.coefficients[1, 0] - found.coefficients[1, 1])
    C = found.covariance
    assert one.standard_error**2 == pytest.approx(C[1, 1] + C[4, 4] - 2 * C[1, 4])
    assert turned[0, "m"].log_odds_ratio == pytest.approx(-found.coefficients[2, 1])
    # All levels of age, on both clusters, at once.
    age, sex = found.tests()
    own = [0, 1, 3, 4]
    values = found.coefficients.T.ravel()[own]
    statistic = values @ np.linalg.inv(C[np.ix_(own, own)]) @ values
    assert (age.covariate, age.df, age.statistic) == ("age", 4, pytest.approx(statistic))
    assert age.p_value == pytest.approx(chi2.sf(statistic, 4))
    assert (sex.covariate, sex.df) == ("sex", 2)
    for wrong in (3, -1, True, "0", 1.0):
        with pytest.raises(OptionError, match=r"reference: give the number .* from 0 to 2"):
            found.effects(wrong)  # type: ignore[arg-type]


def test_a_model_tells_no_site_unless_the_study_says_so(tmp_path: Path) -> None:
    for open_shares in (False, True):
        federation = merged(study_of(P, site_shares=open_shares))
        of_all, of_model = federation.covariate_effects(), federation.model.covariate_effects()
        named = {each.covariate for each in of_model}
        assert {each.covariate for each in of_all} == {"age", "sex", SITE}
        assert named == ({"age", "sex", SITE} if open_shares else {"age", "sex"})
        # Whether sites are told or not, effects are those within sites.
        kept = [each for each in of_all if each.covariate != SITE]
        assert [e for e in of_model if e.covariate != SITE] == kept
        assert len(federation.covariate_tests()) == 3
        place = tmp_path / str(open_shares)
        federation.model.save(place)
        loaded = GlobalModel.load(place)
        assert loaded.covariate_effects() == of_model
        assert loaded.covariate_tests() == federation.model.covariate_tests()
        text = (place / "model.json").read_text()
        assert (name(1) in text) == open_shares
    # A model that tells of a site's odds without leave is no model of this study.
    told = federation.membership
    assert told is not None
    closed = merged(study_of(P)).model
    replace(closed, membership=told).save(tmp_path / "told")
    with pytest.raises(FileError, match="damaged"):
        GlobalModel.load(tmp_path / "told")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content | {"terms": [["age", "x", "y"], *content["terms"][1:]]},
        lambda content: content | {"terms": [[1, 2, 3], *content["terms"][1:]]},
        lambda content: content | {"coefficients": content["coefficients"][1:]},
        lambda content: content | {"coefficients": "none"},
        lambda content: content | {"covariance": (-np.array(content["covariance"])).tolist()},
        lambda content: {},
    ],
)
def test_numbers_that_no_model_has_are_refused(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    plain = Membership.to_dict
    monkeypatch.setattr(Membership, "to_dict", lambda self: change(plain(self)))  # type: ignore[operator]
    content = federation.model.to_bytes()
    with pytest.raises(FileError):
        GlobalModel.from_bytes(content)


def test_effects_are_shown(federation: Federation, tmp_path: Path, run: Run) -> None:
    model = federation.model
    for cluster in model.describe():
        own = [each for each in model.covariate_effects() if each.cluster == cluster.number]
        assert list(cluster.effects) == own
    federation.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(effect.text in page for effect in model.covariate_effects())
    assert "Covariates</h2>" in page
    assert "Vermunt, 2010" in model.methods_paragraph()
    federation.save(tmp_path / "centre")
    shown = " ".join(done(run("describe", str(tmp_path / "centre" / "model"))).split())
    first = model.covariate_effects()[0]
    assert f"x {first.text} against young, compared with cluster 0" in shown


def test_a_study_with_covariates_is_drafted_on_the_command_line(run: Run) -> None:
    done(run("init", "leeds.csv", "-o", "new.toml", "--covariate", "smoker", "--exclude", "died",
             "--exclude", "patient", "--exclude", "seen", "--exclude", "bmi"))  # fmt: skip
    study = Study.load("new.toml")
    assert [each.name for each in study.covariates] == ["smoker"]
    assert "smoker" not in study.codebook.names


def test_a_study_without_covariates_has_no_effects() -> None:
    study = replace(study_of(P), covariates=())
    federation = merged(study)
    assert federation.membership is None
    for told in (federation, federation.model):
        for method in (told.covariate_effects, told.covariate_tests):
            with pytest.raises(OptionError, match="the study has no covariates"):
                method()
    assert all(cluster.effects == () for cluster in federation.describe())
    assert b'"membership"' not in federation.model._made_files()["model.json"]


def test_one_site_is_no_covariate() -> None:
    study = study_of(P)
    federation = merge_sites(study, [fit_site(study, TABLE.sites[0], "only")])
    assert {each.covariate for each in federation.covariate_effects()} == {"age", "sex"}
    assert terms_of((SEX,), ("a", "b")) == (Term("sex", "m", "f"), Term(SITE, "b", "a"))


# Claims over seeds.


@over(range(1), range(2000, 2100))
@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("n_variables", [30, 60])  # ARI about .62 and .88
def test_intervals_of_effects_cover_after_one_shot(
    n_variables: int, policy: str, seeds: range, record_property: Record
) -> None:
    found = [of_federation(seed, 1500, n_variables, policy, rounds=0) for seed in seeds]
    known = [each for each in found if each is not None]
    share = float(np.mean([each.held for each in known]))
    error = float(np.sqrt(np.mean([each.error**2 for each in known])))
    record_property("95 % intervals of log odds ratios", f"{share:.3f}, 0.93 to 0.97")
    record_property("their root mean square error", f"{error:.3f}, no limit")
    other = f"{len(found) - len(known)} of {len(found)}, left out above"
    record_property("federations with another number of clusters", other)
    slack = 0.0 if len(seeds) >= 100 else 0.3  # of nine intervals
    assert 0.93 - slack <= share <= 0.97 + slack
