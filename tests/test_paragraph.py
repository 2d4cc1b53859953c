"""What to state in a paper: every number is the model's, and nothing is claimed besides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import fedmerdel
from fedmerdel import GlobalModel, MerDel
from fedmerdel.estimators.one_table import one_table
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.model.paragraph import PAPER, methods_paragraph
from fedmerdel.model.report import report_page
from tests.page_tree import parsed
from tests.reported import CASES, Shown, made_federation, shown_of
from tests.unmeasured import made_unmeasured

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(params=CASES)
def shown(request: pytest.FixtureRequest) -> Shown:
    return shown_of(request.param)


def test_it_has_this_models_numbers(shown: Shown) -> None:
    model, text = shown.model, shown.model.methods_paragraph()
    study, policy = model.study, model.study.policy
    shares = 100 * model.rows / model.rows.sum()
    sure = expected_certainty(model.sums, model.prior, model.row_prior, model.rows[None, :]).sure
    clusters = "1 cluster" if model.n_clusters == 1 else f"{model.n_clusters} clusters"
    sites = "At one site" if model.n_sites == 1 else f"At each of {model.n_sites} sites"
    for part in (
        f"{sites} we fitted",
        f"products of {len(study.codebook.names)} categorical variables",
        f"fedmerdel (version {fedmerdel.__version__} wrote this)",
        f"identifier {study.hash[:16]} (seed {study.seed},",
        f"disclosure policy {policy.name} (",
        f"This gave {clusters} of {model.rows.sum():,.0f} rows",
        f"with {shares.min():.1f} % to {shares.max():.1f} % of all rows each",
        f"room for up to {study.n_components} clusters in a fit",
        f"{len(model.selected)} of {len(study.codebook.names)}.",
        f"{100 * sure:.1f} % belong to a cluster with a probability above 0.8",
        f"alpha {study.alpha:g}",
        "was not checked here",
    ):
        assert part in text, part
    assert text.endswith(PAPER)
    assert "\n" not in text
    assert "nan" not in text.split()


def test_it_says_what_was_done_and_no_more(shown: Shown) -> None:
    model, text = shown.model, shown.model.methods_paragraph()
    hides = model.study.policy.name != "none"
    assert ("a released 0 stands for 0 to 9 rows" in text) == hides
    assert (f"in {model.n_rounds} rounds" in text) == bool(model.n_rounds)
    assert ("no further round followed" in text) == (not model.n_rounds and model.n_sites > 1)
    assert ("were merged" in text) == (model.n_sites > 1)
    assert ("nats, of the released counts, not of the rows" in text) == (
        hides and not model.n_rounds
    )
    assert (f"Outcomes ({', '.join(model.outcomes)})" in text) == bool(model.outcomes)
    assert ("widened by what disclosure control" in text) == (hides and bool(model.outcomes))
    assert ("that the sites selected" in text) == model.study.variable_selection
    assert ("the names of the variables" in text) == model.study.variable_selection
    assert ("a level of their own" in text) == (model.study.missing == "level")
    assert "not measured: no row" not in text


def test_both_pages_end_with_it(shown: Shown, tmp_path: Path) -> None:
    assert shown.own.one("p", "methods").text == shown.model.methods_paragraph()
    federation = shown.federation
    sure = expected_certainty(
        federation.sums, federation.prior, federation.row_prior, federation.site_rows
    )
    assert shown.page.one("p", "methods").text == methods_paragraph(shown.model, sure)
    assert shown.page.all("section")[-1].attributes["id"] == "paper"
    shown.model.save(tmp_path / "model")
    back = GlobalModel.load(tmp_path / "model")
    assert back.methods_paragraph() == shown.model.methods_paragraph()


def test_variables_that_were_not_measured_are_mentioned() -> None:
    text = made_unmeasured().model.methods_paragraph()
    assert "In 1 cluster some variables were not measured: no row there" in text


def test_weights_and_a_full_fit_are_mentioned() -> None:
    model = made_federation(3, 5, 1, weight="persons", max_clusters=3).model
    text = model.methods_paragraph()
    assert "Rows were weighted by persons, and numbers of rows are sums of weights." in text
    assert "up to 3 clusters in a fit, all of which were used: there may be more." in text
    assert "all of which" not in made_federation(3, 5, 1).model.methods_paragraph()
    unknown = replace(model, elbo=None).methods_paragraph()
    assert "nats" not in unknown


def test_of_one_table_it_has_no_study() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((200, 6)) < np.where(np.arange(200) < 100, 0.9, 0.1)[:, None]).astype(int)
    model = MerDel(random_state=0).fit(X)
    text = parsed(report_page(one_table(model), alone=True)).one("p", "methods").text
    assert text.startswith("We fitted a Bayesian mixture of products of 6 categorical variables")
    assert "random_state [to be filled in]" in text
    for word in ("study", "site", "policy", "seed", "merged", "identifier"):
        assert word not in text.split(PAPER)[0], word


def test_the_citation_is_complete() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "abstract", "license", "keywords"} <= set(cited)
    assert (cited["type"], cited["version"]) == ("software", fedmerdel.__version__)
    assert cited["authors"]
    (paper,) = cited["references"]
    names = [f"{a['family-names']} {_initials(a['given-names'])}" for a in paper["authors"]]
    stated = (
        f"{', '.join(names)}. {paper['title']}. Machine Learning for Health (ML4H) "
        f"{paper['year']}, {paper['collection-title']} {paper['volume']}:{paper['start']}-"
        f"{paper['end']}."
    )
    assert stated == PAPER
    for page in ("README.md", "docs/how-to/reporting-a-study.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").replace("\n> ", " ").split())
        assert PAPER in text
        assert paper["url"] in text


def _initials(names: str) -> str:
    return "".join(part[0] for part in names.split())
