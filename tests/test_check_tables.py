"""Tables with which a model is checked: counted, protected, written, read, attacked."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedmerdel import (
    DataError,
    Federation,
    FedMerDel,
    FileError,
    GlobalModel,
    MerDel,
    OptionError,
    SiteSummary,
    Study,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
)
from fedmerdel.centre.report import report_page as centre_page
from fedmerdel.inference.check_counts import cell_offsets, pair_blocks
from fedmerdel.model.report import report_page
from fedmerdel.release.cells import checked_totals
from fedmerdel.release.hidden import filled_table
from fedmerdel.release.known_sums import known_sum
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.review import review_tables
from fedmerdel.release.tables import protect_cells, site_rows
from tests.check_attacks import possible_counts
from tests.command_line import Run, done
from tests.page_tree import parsed

POLICIES = ("opensafely", "ons", "datashield", "pcornet")


def table(seed: int = 0, rows: int = 400) -> pd.DataFrame:
    """Conditions, an age of three levels, and entries that are missing."""
    rng = np.random.default_rng(seed)
    ill = rng.random((rows, 1)) < 0.4
    has = rng.random((rows, 5)) < np.where(ill, 0.8, [0.1, 0.05, 0.02, 0.1, 0.2])
    frame = pd.DataFrame(has.astype(int).astype(object), columns=["a", "b", "c", "d", "e"])
    frame["age"] = rng.choice(["18-49", "50-69", "70+"], rows, p=[0.6, 0.38, 0.02])
    frame[rng.random(frame.shape) < 0.03] = None
    return frame


def study_of(policy: str, **options: object) -> Study:
    drafted = draft_study(table(), name="checked", trusts_centre=True)
    return replace(
        drafted, policy=policy_named(policy), checks=True, max_clusters=4, rounds=3, **options
    )  # type: ignore[arg-type]


def blocks(study: Study, summary: SiteSummary) -> list[tuple[int, int, np.ndarray]]:
    assert summary.checks is not None
    cells = cell_offsets(study.codebook.n_levels, summary.checks.checked)
    return [(a, b, summary.checks.pairs[i, j]) for a, b, i, j in pair_blocks(cells)]


# Counted.


def test_counts_are_those_of_loops() -> None:
    study, frame = study_of("none"), table(1, 120)
    weights = np.random.default_rng(0).integers(0, 3, len(frame)).astype(float)
    found = fit_site(study, frame, "leeds", sample_weight=weights)
    checks = found.checks
    assert checks is not None
    names = study.codebook.names
    for a, b, counted in blocks(study, found):
        slow = np.zeros_like(counted)
        first, second = (study.codebook.variables[at] for at in (a, b))
        pairs = zip(frame[first.name], frame[second.name], weights, strict=True)
        for x, y, w in pairs:
            i = len(first.levels) if pd.isna(x) else first.levels.index(str(x))
            j = len(second.levels) if pd.isna(y) else second.levels.index(str(y))
            slow[i, j] += w
        np.testing.assert_allclose(counted, slow)
    slow = np.zeros(6)
    for (_, row), w in zip(frame.iterrows(), weights, strict=True):
        slow[sum(row[name] == 1 for name in names if name != "age")] += w
    np.testing.assert_allclose(checks.conditions, slow)
    assert checks.certainty.sum() == pytest.approx(weights.sum())
    assert checks.own.sum() == pytest.approx(weights.sum())
    assert (checks.belonging <= checks.own + 1e-9).all()
    assert checks.belonging.sum() > 0.5 * checks.own.sum()


# Protected.


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_union_of_cells_is_small_and_all_sums_to_the_totals(policy: str, seed: int) -> None:
    study = study_of(policy)
    summary = fit_site(study, table(seed), "leeds")
    checks, rule = summary.checks, study.policy
    assert checks is not None
    totals = checked_totals(summary.sums, study.codebook.level_offsets, checks.checked)
    cells = cell_offsets(study.codebook.n_levels, checks.checked)
    told = 0
    for _, _, i, j in pair_blocks(cells):
        pair = checks.pairs[i, j]
        if not pair.any():
            continue
        told += 1
        # Both margins are those that the totals tell already, so they add nothing.
        np.testing.assert_array_equal(pair.sum(axis=1), totals[i])
        np.testing.assert_array_equal(pair.sum(axis=0), totals[j])
        flat = pair.ravel()
        for size in (1, 2, 3):
            for some in combinations(range(len(flat)), size):
                union = flat[list(some)].sum()
                for count in (union, summary.n_rows - union):
                    assert count == 0 or count >= rule.smallest
                    assert count % rule.step == 0
    assert told >= 12  # of 15
    for histogram in (checks.conditions, checks.certainty, checks.own):
        assert histogram.sum() == summary.n_rows
        assert ((histogram == 0) | (histogram >= rule.smallest)).all()


@pytest.mark.parametrize("policy", ["none", "opensafely", "ons"])
def test_tables_of_rows_alone_are_the_same_in_every_release(policy: str) -> None:
    study = study_of(policy)
    sites = {site: table(seed) for seed, site in enumerate(("leeds", "york"))}
    first = merge_sites(study, [fit_site(study, rows, site) for site, rows in sites.items()])
    for summary in first.summaries:
        reply = reply_site(study, first.broadcast, sites[summary.site], summary.site)
        assert summary.checks is not None
        assert reply.checks is not None
        np.testing.assert_array_equal(reply.checks.pairs, summary.checks.pairs)
        np.testing.assert_array_equal(reply.checks.conditions, summary.checks.conditions)
        assert len(reply.checks.own) == first.n_clusters
        other = reply.checks.conditions[::-1].copy()
        lie = replace(reply, checks=reply.checks._replace(conditions=other))
        with pytest.raises(DataError, match="don't sum to those that it sent before"):
            first.step([lie])


# Attacked.


def drawn(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    P, N = int(rng.integers(3, 12)), int(rng.integers(100, 2500))
    share = rng.beta(1, 4, P) * rng.choice([0.5, 1, 2], N)[:, None]
    return rng.random((N, P)) < share.clip(0, 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_hidden_numbers_of_conditions_can_not_be_worked_out(policy: str) -> None:
    rule, mechanism = policy_named(policy), mechanism_for(policy_named(policy))
    n_hidden, worked_out = 0, 0
    for seed in range(25):
        X = drawn(seed)
        rows = site_rows(np.array([float(len(X))]), rule)
        exact = np.bincount(X.sum(axis=1), minlength=X.shape[1] + 1).astype(float)
        with_it = X.sum(axis=0).astype(float)
        both = np.stack([len(X) - with_it, with_it], axis=1)
        positive = protect_cells(both, both, np.repeat(rows, len(both)), rule)[:, 1]
        number, N = np.arange(len(exact), dtype=float), float(rows[0])
        margins = [np.array([N - n, n]) for n in positive]
        pairs = []
        for i, j in combinations(range(X.shape[1]), 2):
            cross = np.histogram2d(X[:, i], X[:, j], bins=2, range=[[-0.5, 1.5]] * 2)[0]
            pairs.append(mechanism.protect_pair(cross, cross, margins[i], margins[j])[1, 1])
        known = [
            known_sum(number, positive, rule),
            known_sum(number * (number - 1) / 2, np.array(pairs), rule),
        ]
        told = mechanism.protect_histogram(exact, exact, float(rows[0]), known)
        step, others = rule.smallest, np.delete(told, told.argmax())
        while others.any() and not np.any(others % (2 * step)):
            step *= 2  # as the reader sees
        for low, _ in possible_counts(told, positive, N, rule, step, np.array(pairs)):
            n_hidden += 1
            assert low <= 1e-6
        # In the policy's own steps, some can: the attack works.
        fine = protect_cells(exact[None], exact[None], rows, rule)[0]
        ends = possible_counts(fine, positive, float(rows[0]), rule, rule.step)
        worked_out += any(low > 0.5 for low, _ in ends)
    assert n_hidden > 30
    assert worked_out or rule.step > 1


def test_a_filled_table_keeps_its_lines_and_columns() -> None:
    rule = policy_named("ons")
    cells = np.array([[903.0, 0.0, 40.0], [47.0, 50.0, 0.0], [0.0, 30.0, 60.0]])
    mean = np.array([[900.0, 4.0, 39.0], [46.0, 48.0, 3.0], [5.0, 28.0, 57.0]])
    found, variance = filled_table(cells, mean, rule)
    np.testing.assert_allclose(found.sum(axis=0), cells.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), cells.sum(axis=1), rtol=1e-6)
    assert (found[cells == 0] > 1).all()
    assert (variance > 0).all()
    untold, nothing = filled_table(np.zeros((3, 3)), mean, rule)
    np.testing.assert_array_equal(untold, mean)
    assert not nothing.any()


# Written and read.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_they_come_back_and_are_told_of(policy: str, tmp_path: Path) -> None:
    study = study_of(policy)
    summary = fit_site(study, table(), "leeds")
    back = SiteSummary.from_bytes(summary.to_bytes())
    assert back.to_bytes() == summary.to_bytes()
    assert "checks.csv" in summary.to_files()["README.txt"].decode()
    seen = review_tables(summary, 500)
    assert any("15 of two variables" in text for _, text in seen.facts)
    assert any(cell.what == "a and b" for cell in seen.smallest)
    federation = merge_sites(study, [summary, fit_site(study, table(3), "york")])
    federation.save(tmp_path / "centre")
    assert Federation.load(tmp_path / "centre").checks == federation.checks
    checks = GlobalModel.load(tmp_path / "centre").checks
    assert checks is not None
    assert str(checks) == str(federation.checks)
    assert checks.n_pairs == 15
    assert sum(checks.certainty) == pytest.approx(1)
    assert checks.p_value is not None


def test_without_checks_nothing_is_there_and_the_hash_is_as_it_was() -> None:
    plain = replace(study_of("none"), checks=False)
    summary = fit_site(plain, table(), "leeds")
    assert summary.checks is None
    assert "checks.csv" not in summary.to_files()
    assert b"checked" not in summary.to_files()["summary.json"]
    assert merge_sites(plain, [summary]).model.checks is None
    assert study_of("none").hash != plain.hash
    named = study_of("none", check_pairs=("a", "c"))
    assert named.hash != study_of("none").hash
    assert named.checked == ("a", "c")
    with pytest.raises(DataError, match="other tables to check the model with"):
        merge_sites(study_of("none"), [replace(summary, study_hash=study_of("none").hash)])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("(conditions),0,,,", "(conditions),0,,,1", 1), "site's rows"),
        (lambda text: text.replace("(own),cluster_0", "(own),cluster_1", 1), "codebook"),
        (lambda text: "\r\n".join(text.split("\r\n")[:-2]) + "\r\n", "as many rows"),
        (lambda text: text.replace("(certainty),0.00,,,0", "(certainty),0.00,,,-5", 1), "negative"),
    ],
)
def test_changed_tables_are_refused(change, why: str) -> None:  # type: ignore[no-untyped-def]
    files = fit_site(study_of("opensafely"), table(), "leeds").to_files()
    files["checks.csv"] = change(files["checks.csv"].decode()).encode()
    with pytest.raises((DataError, FileError), match=why):
        SiteSummary.read(files, "it")


def test_small_counts_and_tables_that_do_not_add_up_are_refused() -> None:
    summary = fit_site(study_of("opensafely"), table(), "leeds")
    checks = summary.checks
    assert checks is not None
    small = checks.certainty.copy()
    small[small.argmax()] -= 5.0
    small[0] += 5.0
    with pytest.raises(DataError, match="a count is under 10"):
        replace(summary, checks=checks._replace(certainty=small))
    pairs = checks.pairs.copy()
    at = np.unravel_index(pairs.argmax(), pairs.shape)
    pairs[at] += 10.0
    with pytest.raises(DataError, match="a table of two variables does not sum"):
        replace(summary, checks=checks._replace(pairs=pairs))
    files = summary.to_files()
    del files["checks.csv"]
    with pytest.raises(FileError, match="don't fit"):
        SiteSummary.read(files, "it")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"checks": 1}, "checks: give true or false"),
        ({"check_pairs": ("a", "zzz")}, "no variable 'zzz'"),
        ({"check_pairs": ("a",)}, "two variables at least"),
        ({"check_pairs": ("a", "b"), "checks": False}, "checks = true only"),
    ],
)
def test_options(options: dict[str, object], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        replace(study_of("none"), **options)  # type: ignore[arg-type]
    study = study_of("none", check_pairs=("a", "age"))
    assert Study.from_bytes(study.to_text().encode()) == study


# Shown.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_report_says_whether_it_can_be_trusted(policy: str) -> None:
    study = study_of(policy)
    federation = merge_sites(
        study, [fit_site(study, table(s), site) for s, site in enumerate(("leeds", "york"))]
    )
    checks, model = federation.checks, federation.model
    assert checks is not None
    for text in (report_page(model), centre_page(federation, model)):
        section = parsed(text).one(id="trust")
        assert checks.verdict in section.text
        assert ("at most" in section.text) == (policy != "none")
        worth, pairs, posterior = section.tables()
        assert len(worth) == 1 + federation.n_clusters
        assert [line[:2] for line in pairs[1:]] == [[p.first, p.second] for p in checks.pairs[:10]]
        assert len(posterior) == 1 + federation.n_clusters
        numbers, sure = section.all("svg", "compared")
        assert f"{100 * checks.conditions[0]:.1f} % of rows" in numbers.titles()[0]
        assert len(sure.titles()) == 20
    plain = replace(model, checks=None, study=replace(study, checks=False))
    assert "Real rows were not counted" in parsed(report_page(plain)).one(id="trust").text


@pytest.mark.parametrize("chance", [0.5, 0.001, None])
def test_the_methods_and_describe_state_the_verdict(run: Run, chance: float | None) -> None:
    study = study_of("none")
    sites = [fit_site(study, table(s), site) for s, site in enumerate(("leeds", "york"))]
    model = merge_sites(study, sites).model
    assert model.checks is not None
    distance = None if chance is None else 0.25
    checks = replace(model.checks, p_value=chance, distance=distance)
    model = replace(model, checks=checks)
    text = model.methods_paragraph()
    assert (checks.verdict in text) == (chance is not None)
    assert ("could not be checked by the number" in text) == (chance is None)
    assert f"Of the rows themselves, {100 * checks.sure:.1f} % do, in the clusters that" in text
    assert "not checked here" not in text
    assert "in the clusters that" not in replace(model, n_rounds=1).methods_paragraph()
    model.save("model")
    said = f"Checked against the rows: {checks.verdict}"
    assert said in " ".join(done(run("describe", "model")).split())
    plain = replace(model, checks=None, study=replace(study, checks=False))
    assert "which was not checked here" in plain.methods_paragraph()
    plain.save("plain")
    assert "Checked against" not in done(run("describe", "plain"))


def test_one_table_is_checked_by_exact_counts(tmp_path: Path) -> None:
    frame = table(2, 500).astype(object).where(lambda each: each.notna(), None)
    model = MerDel(3, random_state=0).fit(frame)
    checks = model.checks(frame)
    assert checks.n_pairs == 15
    assert model.checks(frame, pairs=["a", "b", "age"]).n_pairs == 3
    probabilities = model.predict_proba(frame)
    assert checks.sure == pytest.approx((probabilities.max(axis=1) >= 0.8).mean())
    label = probabilities.argmax(axis=1)
    for k in range(model.n_clusters_):
        mean = probabilities[label == k, k].mean()
        assert checks.mean_posterior[k] == pytest.approx(mean)
    weighted = model.checks(frame, sample_weight=np.full(500, 2.0))
    assert (weighted.p_value, weighted.fits) == (None, None)
    assert weighted.conditions == pytest.approx(checks.conditions)
    model.report(tmp_path / "page.html", checks=checks)
    assert (
        checks.verdict in parsed((tmp_path / "page.html").read_text("utf-8")).one(id="trust").text
    )
    with pytest.raises(OptionError, match="checks: give what"):
        model.report(tmp_path / "page.html", checks=checks.to_dict())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^pairs: the codebook has no variable"):
        model.checks(frame, pairs=["a", "zzz"])
    sites = FedMerDel(3, n_batches=2, random_state=0).fit(frame)
    assert sites.checks(frame).n_pairs == 15


def test_checks_of_a_model_that_was_changed_are_refused() -> None:
    study = study_of("none")
    model = merge_sites(study, [fit_site(study, table(), "leeds")]).model
    content = json.loads(model.to_files()["model.json"])
    for change in (
        {"p_value": 2.0},
        {"p_value": None},
        {"certainty": [1.0]},
        {"conditions": [0.5]},
        {"mean_posterior": []},
        {"n_pairs": -1},
        {"pairs": [{}]},
        {"pairs": "x"},
        {"pairs": [{**content["checks"]["pairs"][0], "first": "zzz"}]},
        {"pairs": [{**content["checks"]["pairs"][0], "residual": "1"}]},
        {"more": 1},
    ):
        wrong = {**content, "checks": {**content["checks"], **change}}
        files = {**model.to_files(), "model.json": json.dumps(wrong).encode()}
        with pytest.raises(FileError):
            GlobalModel.read(files, "it")
    del content["checks"]
    with pytest.raises(FileError):
        GlobalModel.read({**model.to_files(), "model.json": json.dumps(content).encode()}, "it")
