"""A guide as people meet it: in a study, in rows without it, in files, and wherever it is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel import (
    Codebook,
    DataError,
    Federation,
    FedMerDel,
    GlobalModel,
    MerDel,
    OptionError,
    Study,
    Variable,
    assign,
    consensus,
    draft_study,
    fit_site,
    merge_sites,
    plot,
    policy_named,
    reply_site,
    score_samples,
    validate_site,
)
from fedmerdel.centre.filling import filled_replies
from fedmerdel.fitting.passes import Workers, expect_and_count
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.elbo import elbo
from tests.guides import GUIDE, alike_but_for_the_outcome

WHOLE, TRUTH = alike_but_for_the_outcome(7, n_rows=600, gap=0.3)
FRAME = WHOLE[[*(f"v{j}" for j in range(6)), GUIDE]]
UNKNOWN = FRAME.drop(columns=GUIDE)
EMPTY = FRAME.assign(**{GUIDE: pd.Series([None] * len(FRAME), dtype="Int64")})
SITE = np.arange(len(FRAME)) % 3


def drafted(weight: float = 0.5, **fields: Any) -> Study:
    policy = policy_named(fields.pop("policy", "none"))
    study = draft_study(FRAME, name="guided", guide={GUIDE: weight}, rounds=3, trusts_centre=True)
    return replace(study, policy=policy, **fields)


def merged(study: Study) -> Federation:
    parts = [fit_site(study, FRAME[SITE == b], site=f"s{b}") for b in range(3)]
    return merge_sites(study, parts)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return merged(drafted())


@pytest.fixture(scope="module")
def fitted() -> MerDel:
    return MerDel(random_state=1, guide={GUIDE: 0.5}).fit(FRAME)


# The study.


def test_a_study_says_it_and_its_hash_covers_it(tmp_path: Path) -> None:
    study, plain = (
        drafted(),
        replace(draft_study(FRAME, name="guided", rounds=3, trusts_centre=True)),
    )
    study.save(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text()
    assert "levels = [0, 1]\nguide = 0.5\n" in text
    assert "guide = " not in plain.to_text()
    assert Study.load(tmp_path / "study.toml") == study
    assert len({drafted(weight).hash for weight in (0.25, 0.5)}) == 2
    assert study.codebook != plain.codebook
    assert Codebook.from_dict(study.codebook.to_dict()) == study.codebook
    assert study.label(GUIDE) == "died (guide)"
    assert plain.label(GUIDE) == GUIDE


def test_without_a_guide_the_hash_is_what_it_was() -> None:
    book = Codebook((Variable("a", ("0", "1"), "integer"), Variable("b", ("x", "y"), "text")))
    known = "34e3c60e1afcebfc"
    assert Study("s", book).hash.startswith(known)
    assert "guide" not in str(book.to_dict())


@pytest.mark.parametrize("weight", [0, -0.5, 1.01, float("nan"), True, "0.5", [0.5]])
def test_weights_that_are_refused(weight: Any) -> None:
    said = r"'died': (guide: )?give a weight above 0, and 1 at most"
    with pytest.raises(OptionError, match=said):
        draft_study(FRAME, guide={GUIDE: weight})
    with pytest.raises(OptionError, match=said):
        MerDel(guide={GUIDE: weight}).fit(FRAME)
    with pytest.raises(DataError, match=said):
        Variable(GUIDE, ("0", "1"), "integer", guide=weight)


def test_what_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="guide: there is no variable 'deid'"):
        draft_study(FRAME, guide={"deid": 0.5})
    for wrong in ("died", 5, ["died"]):
        with pytest.raises(OptionError, match="guide: give the weight of each guide by its name"):
            MerDel(guide=wrong).fit(FRAME)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="variable_selection: 'died' is a guide"):
        drafted(variable_selection=True, prior=None)
    with pytest.raises(OptionError, match="variable_selection: 'died' is a guide"):
        MerDel(guide={GUIDE: 0.5}, variable_selection=True).fit(FRAME)
    with pytest.raises(DataError, match="all variables are guides"):
        Codebook((Variable("a", ("0", "1"), "integer", guide=0.5),))
    with pytest.raises(DataError, match="missing entries can't be a level"):
        Variable("a", ("0", "1", "(missing)"), "integer", missing_level=True, guide=0.5)
    with pytest.raises(OptionError, match=r"covariates: .* no guide"):
        drafted(covariates=(Variable("sex", ("F", "M"), "text", guide=0.5),))
    text = drafted().to_text().replace("guide = 0.5", 'guide = "much"')
    with pytest.raises(DataError, match=r"\[\[variable\]\] 7 .*give a weight"):
        Study.from_bytes(text.encode())


def test_missing_outcomes_are_left_out_whatever_missing_is() -> None:
    holes = FRAME.copy()
    holes.loc[::3, GUIDE] = np.nan
    holes.loc[::4, "v0"] = np.nan
    some = drafted(missing="level").codebook.variables
    assert [v.missing_level for v in some] == [True] * 6 + [False]
    study = drafted(missing="level")
    found = merge_sites(study, [fit_site(study, holes, site="a")]).model
    assert found.sums.S[:, -2:].sum() == pytest.approx(400)
    model = MerDel(random_state=1, guide={GUIDE: 0.5}, missing="level").fit(holes)
    by_name = {v.name: v for v in model.codebook_.variables}
    assert by_name["v0"].missing_level
    assert not by_name[GUIDE].missing_level
    whole = holes.assign(v0=FRAME["v0"])
    strict = MerDel(random_state=1, guide={GUIDE: 0.5}, missing="error").fit(whole)
    assert len(strict.predict(UNKNOWN)) == len(UNKNOWN)
    with pytest.raises(DataError, match=r"missing entries.*'v0' "):
        strict.fit(holes)
    with pytest.raises(DataError, match=r"missing entries.*'v0' "):
        MerDel(guide={GUIDE: 0.5}, missing="error", codebook=strict.codebook_).fit(holes)
    strict_study = drafted(missing="error")
    assert fit_site(strict_study, whole, site="a").n_clusters >= 1
    with pytest.raises(DataError, match="missing entries"):
        fit_site(strict_study, holes, site="a")
    numbers = MerDel(random_state=1, guide={"x6": 0.5}, missing="error").fit(whole.to_numpy())
    np.testing.assert_array_equal(numbers.labels_, strict.labels_)
    given = MerDel(random_state=1, codebook=strict.codebook_, missing="error")
    np.testing.assert_array_equal(given.fit(whole.to_numpy()).labels_, strict.labels_)


# New rows, of which the outcome is not known.


def test_rows_without_the_column_are_rows_where_it_is_missing(
    fitted: MerDel, federation: Federation
) -> None:
    np.testing.assert_array_equal(fitted.predict_proba(UNKNOWN), fitted.predict_proba(EMPTY))
    np.testing.assert_array_equal(fitted.score_samples(UNKNOWN), fitted.score_samples(EMPTY))
    assert not np.allclose(fitted.predict_proba(UNKNOWN), fitted.predict_proba(FRAME))
    model = federation.model
    for found, expected in zip(assign(model, UNKNOWN), assign(model, EMPTY), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(score_samples(model, UNKNOWN), score_samples(model, EMPTY))
    assert validate_site(model, UNKNOWN[:300], site="new").n_rows == 300


def test_the_column_may_stand_anywhere() -> None:
    names = [GUIDE, *UNKNOWN.columns]
    first = MerDel(random_state=1, guide={GUIDE: 0.5}).fit(FRAME[names])
    np.testing.assert_array_equal(first.predict_proba(UNKNOWN), first.predict_proba(EMPTY[names]))
    with pytest.raises(ValueError, match="feature names"):
        first.predict(UNKNOWN.drop(columns="v3"))
    with pytest.raises(ValueError, match="feature names"):
        first.predict(UNKNOWN.assign(other=1))


def test_a_fit_needs_the_column(federation: Federation) -> None:
    study = federation.study
    with pytest.raises(DataError, match="no column 'died'"):
        fit_site(study, UNKNOWN, site="a")
    with pytest.raises(DataError, match="no column 'died'"):
        reply_site(study, federation.broadcast, UNKNOWN, site="a")
    with pytest.raises(DataError, match="no column 'v0'"):
        assign(federation.model, FRAME.drop(columns="v0"))
    assert fit_site(study, EMPTY, site="a").n_clusters >= 1


def test_a_score_is_the_probability_of_the_row_as_it_is(fitted: MerDel) -> None:
    """p(row) = p(row without the outcome) p(outcome | the rest), which sum to 1."""
    both = [np.exp(fitted.score_samples(FRAME.assign(**{GUIDE: y}))) for y in (0, 1)]
    np.testing.assert_allclose(sum(both), np.exp(fitted.score_samples(UNKNOWN)), rtol=1e-9)


# Across sites.


def test_one_round_is_one_pass_over_pooled_rows(federation: Federation) -> None:
    study, sent = federation.study, federation.broadcast
    replies = [reply_site(study, sent, FRAME[SITE == b], site=f"s{b}") for b in range(3)]
    with Workers() as workers:
        pooled = expect_and_count(study_rows(study, FRAME), sent.clusters, workers)
    for part in ("T", "S", "h"):
        total = sum(getattr(reply.sums, part) for reply in replies)
        np.testing.assert_allclose(total, getattr(pooled, part), rtol=1e-11, atol=1e-9)
    found, brought = federation.step(replies)
    order = np.argsort(-pooled.T)
    np.testing.assert_allclose(found.sums.S, pooled.S[order], rtol=1e-11, atol=1e-9)
    assert found.prior.guide is not None
    assert brought.elbo == pytest.approx(elbo(pooled, found.prior), rel=1e-12)


def test_one_site_alone_is_the_centre(federation: Federation) -> None:
    """Merging nothing changes nothing: the same sums under the same weights."""
    study = federation.study
    alone = merge_sites(study, [fit_site(study, FRAME, site="a")])
    summary = alone.summaries[0]
    np.testing.assert_allclose(alone.model.sums.S, summary.sums.S, rtol=1e-12)
    assert alone.lower_bound == pytest.approx(elbo(summary.sums, alone.prior), rel=1e-12)
    np.testing.assert_array_equal(alone.prior.guide, study.codebook.guide)


def test_hidden_counts_are_filled_with_levels_not_with_their_powers() -> None:
    study = drafted(policy="opensafely")
    begun = merged(study)
    replies = [reply_site(study, begun.broadcast, FRAME[SITE == b], site=f"s{b}") for b in range(3)]
    theta = begun.broadcast.clusters
    found = filled_replies(study, tuple(replies), [True] * 3, theta).stats.S
    plain = draft_study(FRAME, name="guided", rounds=3, trusts_centre=True)
    powers = np.repeat(study.codebook.guide, study.codebook.n_levels)
    levels = theta._replace(log_levels=theta.log_levels / powers)
    np.testing.assert_allclose(
        found, filled_replies(plain, tuple(replies), [True] * 3, levels).stats.S
    )
    after, _ = begun.step(replies)
    assert isinstance(after.model, GlobalModel)


def test_files_keep_it(federation: Federation, fitted: MerDel, tmp_path: Path) -> None:
    model = federation.model
    model.save(tmp_path / "model")
    again = GlobalModel.load(tmp_path / "model")
    np.testing.assert_array_equal(again.prior.guide, [1.0] * 6 + [0.5])
    np.testing.assert_array_equal(
        assign(again, FRAME).probabilities, assign(model, FRAME).probabilities
    )
    federation.save(tmp_path / "centre")
    assert Federation.load(tmp_path / "centre").lower_bound == federation.lower_bound
    summary = federation.summaries[0]
    summary.save(tmp_path / "summary")
    assert SiteSummary.load(tmp_path / "summary").selected is None
    many = FedMerDel(random_state=1, guide={GUIDE: np.float64(0.5)}, n_batches=2).fit(FRAME)
    for estimator in (fitted, many):
        estimator.save(tmp_path / "saved.json")
        loaded = type(estimator).load(tmp_path / "saved.json")
        assert loaded.guide == {GUIDE: 0.5}
        for table in (FRAME, UNKNOWN):
            np.testing.assert_array_equal(
                loaded.predict_proba(table), estimator.predict_proba(table)
            )
        (tmp_path / "saved.json").unlink()


def test_starts_and_checks_know_it(fitted: MerDel) -> None:
    agreed = consensus(MerDel(random_state=1, guide={GUIDE: 1.0}, n_init=1), FRAME, n_starts=3)
    plain = consensus(MerDel(random_state=1, n_init=1), FRAME, n_starts=3)
    np.testing.assert_array_equal(agreed.labels, plain.labels)
    assert len(fitted.checks(FRAME).conditions) == 7  # of 6 variables: the outcome is none


# Where it is shown.


def test_it_is_marked_where_clusters_are_described(federation: Federation) -> None:
    clusters = federation.model.describe()
    for cluster in clusters:
        assert {level.variable for level in cluster.levels if level.guide} == {GUIDE}
        assert cluster.outcomes == {}
        yes = [v for v in cluster.levels if v.level == "1" and not v.guide]
        assert cluster.mean_conditions == pytest.approx(sum(v.prevalence for v in yes))
    counted = federation.model.sums.S[:, -1] / federation.model.sums.S[:, -2:].sum(axis=1)
    shown = [v.prevalence for c in clusters for v in c.levels if v.guide and v.level == "1"]
    np.testing.assert_allclose(shown, counted, atol=0.03)


def test_it_can_be_no_outcome(federation: Federation) -> None:
    model = federation.model
    for ask in (model.outcome_rates, model.outcome_test, federation.outcome_site_tests):
        with pytest.raises(OptionError, match=r"'died' is a guide: .* no validation") as caught:
            ask(GUIDE)
        assert "\n" not in str(caught.value)
        with pytest.raises(OptionError, match="'v0' is no outcome"):
            ask("v0")
    rates = model.guide_rates(GUIDE)
    assert len(rates) == model.n_clusters
    assert all(0 <= rate.low <= rate.share <= rate.high <= 1 for rate in rates)
    with pytest.raises(OptionError, match="'v0' is no guide of the study, which has 'died'"):
        model.guide_rates("v0")


def test_pages_and_paragraph_say_so(federation: Federation, fitted: MerDel, tmp_path: Path) -> None:
    for number, owner in enumerate((federation, fitted)):
        owner.report(tmp_path / f"{number}.html")
        page = " ".join((tmp_path / f"{number}.html").read_text().split())
        assert "<h2>Guides</h2>" in page
        assert "died (weight 0.5). That the clusters differ in this outcome is therefore no" in page
        assert "corrected for rows that are counted in the wrong cluster" in page
        assert "died (guide)" in page
    said = federation.model.methods_paragraph()
    assert "1 variable of these is an outcome, with the likelihood raised to the power" in said
    assert "no validation" in said
    plain = MerDel(random_state=1).fit(FRAME)
    plain.report(tmp_path / "plain.html")
    assert "Guides" not in (tmp_path / "plain.html").read_text()


def test_an_outcome_that_nobody_knows_yet(tmp_path: Path) -> None:
    study = drafted()
    model = merge_sites(study, [fit_site(study, EMPTY, site="a")]).model
    assert all(np.isnan(rate.share) for rate in model.guide_rates(GUIDE))
    model.report(tmp_path / "page.html")
    assert "died (guide)" in (tmp_path / "page.html").read_text()
    assert model.describe()[0].not_measured == (GUIDE,)


def test_figures_mark_it(federation: Federation, fitted: MerDel) -> None:
    drawn = plot.outcomes(federation, GUIDE)
    assert drawn.get_xlabel() == "rows with died (guide: no validation), 95 % interval"
    with pytest.raises(OptionError, match="'v0' is not in the study, which has 'died'"):
        plot.outcomes(federation, "v0")
    for model in (federation, fitted):
        names = {text.get_text() for text in plot.variables(model).get_yticklabels()}
        assert "died (guide)" in names
        columns = {text.get_text() for text in plot.heatmap(model).get_xticklabels()}
        assert "died (guide)" in columns


def test_levels_of_a_guide_are_called_as_those_of_an_outcome(tmp_path: Path) -> None:
    frame = FRAME.assign(stage=np.array(["I", "II", "III"])[TRUTH])
    study = replace(
        draft_study(frame, guide={GUIDE: 1.0, "stage": 0.25}, name="two"),
        policy=policy_named("none"),
        labels={"stage": "Stage of it"},
    )
    model = merge_sites(study, [fit_site(study, frame, site="a")]).model
    assert plot.outcomes(model, "stage: II").get_xlabel().startswith("rows with stage: II (guide")
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "died (weight 1) and Stage of it (weight 0.25)" in page
    assert "Stage of it (guide) = II" in page
    assert "2 variables of these are outcomes" in model.methods_paragraph()
