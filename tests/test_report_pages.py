"""Pages as files: names are text, the same bytes again, any size, refusals, and a site's page."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedmerdel import GlobalModel, OptionError, update_site
from fedmerdel.centre.origins import MOST_BLOCKS
from fedmerdel.errors import FileError
from fedmerdel.model.report import report_page
from fedmerdel.release.review import review_tables
from fedmerdel.release.review_page import review_page, write_review
from fedmerdel.study.codebook import Variable
from fedmerdel.study.conditions import shown_levels
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.profile import counted_profile
from fedmerdel.sums.sums import Sums
from tests.command_line import Said, done, files, refused
from tests.federations import made_study, summary_of
from tests.page_tree import heat_of, parsed
from tests.reported import DATE, LONG, ODD, made_federation
from tests.round_trips import made as made_rows
from tests.test_report import AGES, CASES, percent, shown_of

Run = Callable[..., Said]

# Names are text.

ODD_SITE = ODD.replace("/", "")


def odd_model(text: str, site: str) -> GlobalModel:
    variables = (
        *(Variable(f"{n}{text}", ("no", "yes"), "text") for n in range(3)),
        Variable(f"9{text}", (f"0{text}", f"1{text}", f"2{text}"), "text"),
    )
    model = made_federation(
        4, variables=variables, sites=(f"a{site}", f"b{site}", f"c{site}"),
        outcomes=(f"o{text}",), labels={f"1{text}": f"l{text}"}, name=f"n{text}",
    )  # fmt: skip
    name = "".join(c for c in text if c not in "\u0000\u2028")  # which no cluster's name has
    return model.named({0: f"k{name}"[:80], 1: "plain"})


@pytest.mark.parametrize("text", [ODD, LONG, "\u202eabc\u0000 \u2028", "'\"<!-- -->]]>&amp;&lt;"])
def test_names_of_any_kind_are_shown_as_text(text: str) -> None:
    """The page has the tags that it has with plain names, and no other."""
    site = text.replace("/", "").replace("\u0000", "").strip()
    model = odd_model(text, site)
    page = report_page(model, title=f"t{text}", date=f"d{text}")
    plain = report_page(odd_model("x", "x"), title="t", date="d")
    tree, other = parsed(page), parsed(plain)
    assert [each.tag for each in tree] == [each.tag for each in other]
    assert [list(each.attributes) for each in tree] == [list(each.attributes) for each in other]
    tree = parsed(page.replace("\u0000", ""))

    def seen(wanted: str) -> str:
        return " ".join(wanted.replace("\u0000", "").split())

    assert tree.one("h1").text == seen(f"t{text}")
    facts = [fact.text for fact in tree.one("dl").all("dd")]
    assert facts[0] == seen(f"n{text}")
    assert facts[2] == seen(", ".join(model.sites))
    assert facts[-1] == seen(f"d{text}")
    assert tree.all("article")[0].one("h3").text == seen(model.name(0))
    heat = heat_of(parsed(page))
    assert heat["clusters"][0]["name"] == model.name(0)
    labels = [column["label"] for column in heat["columns"]]
    assert labels == [
        f"0{text}",
        f"l{text}",
        f"2{text}",
        *(f"9{text} = {n}{text}" for n in range(3)),
    ]


def test_no_name_can_end_the_pages_script_or_change_its_policy() -> None:
    page = report_page(odd_model(ODD, ODD_SITE), date=DATE)
    tree = parsed(page)
    assert [s.attributes for s in tree.all("script")] == [
        {"type": "application/json", "id": "heat-data"}, {},
    ]  # fmt: skip
    raw = tree.one("script", id="heat-data").raw
    assert not set("<>&") & set(raw)
    plain = parsed(report_page(odd_model("x", "x"), date=DATE))
    assert tree.all("script")[1].raw == plain.all("script")[1].raw
    policies = [
        p.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
        for p in (tree, plain)
    ]
    assert policies[0] == policies[1]
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "49" not in tree.one("h1").text  # no template in a name is run


def test_the_page_asks_for_nothing() -> None:
    tree = shown_of("policy and outcomes").page
    for each in tree:
        for attribute in ("src", "href", "action", "data", "srcset", "poster"):
            assert each.attributes.get(attribute, "#").startswith(("#", "data:"))
        assert "url(" not in each.attributes.get("style", "")
        assert not [name for name in each.attributes if name.startswith("on")]
    style = tree.one("style").raw
    assert "url(" not in style
    assert "@import" not in style


# The same again, elsewhere, and in any size.


def test_the_same_model_and_date_give_the_same_bytes(tmp_path: Path) -> None:
    model = CASES["policy and outcomes"]()
    model.save(tmp_path / "model")
    model.report(tmp_path / "one.html", date=DATE)
    CASES["policy and outcomes"]().report(tmp_path / "two.html", date=DATE)
    command = "from fedmerdel import cli; cli.main()"
    subprocess.run(
        [sys.executable, "-c", command, "report", "model", "-o", "three.html", "--date", DATE],
        cwd=tmp_path, check=True, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True,
    )  # fmt: skip
    one, two, three = ((tmp_path / f"{n}.html").read_bytes() for n in ("one", "two", "three"))
    assert one == two == three
    assert report_page(model, date="2027-01-01").encode() != one
    assert datetime.date.today().isoformat() in report_page(model)


@pytest.mark.parametrize(
    ("n_clusters", "n_variables", "n_sites", "here"),
    [(3, 5, 1, None), (60, 5, 1, None), (3, 500, 2, None), (5, 6, 100, 2), (20, 60, 30, 6)],
)
def test_a_page_of_any_size(n_clusters: int, n_variables: int, n_sites: int, here: int) -> None:
    model = made_federation(n_clusters, n_variables, n_sites, here=here)
    page = parsed(report_page(model, date=DATE))
    assert len(page.all("article")) == n_clusters
    assert len(heat_of(page)["columns"]) == n_variables
    assert len(page.one("table", id="site-table").one("tbody").all("tr")) == n_sites
    by_site = len(model.lineage) > MOST_BLOCKS
    blocks = page.one("svg", "ribbons").all("g", "block")
    assert len(blocks) == (n_sites if by_site else len(model.lineage)) + n_clusters
    assert ("on the left are the sites" in page.one(id="origins").text) == by_site


def test_the_largest_page_is_small_enough_to_send() -> None:
    """Sixty clusters, five hundred variables, a hundred sites of twenty clusters."""
    model = made_federation(60, 500, 100, here=20, outcomes=("died",))
    text = report_page(model, date=DATE)
    assert len(text.encode()) < 6_000_000
    page = parsed(text)
    # No picture has a mark for each pair of local clusters, nor for each row.
    assert len(page.one("svg", "ribbons").all("path")) <= 60 * 100
    assert sum(1 for _ in page) < 100_000
    assert len(page.all("article")) == 60


# What is refused.


@pytest.fixture
def report_in_story(run_in_story: Run, story: Path) -> Run:
    """Run a report and see that nothing is written where it is refused."""

    def call(*arguments: str) -> Said:
        before = files(story)
        said = run_in_story(*arguments)
        if said.code:
            assert files(story) == before
        return said

    return call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "model", "-o", "."), ["can't be written"]),
        (("report", "model", "-o", "model"), ["is a folder"]),
        (("report", "model", "-o", "nowhere/report.html"), ["can't be written"]),
        (("report", "model", "-o", "model/report.html"), ["folder of a model", "outside it"]),
        (("report", "nowhere", "-o", "report.html"), ["does not exist"]),
        (("report", "leeds", "-o", "report.html"), ["model.json", "does not exist"]),
        (("report", "model", "-o", "report.html", "--image", "2x3"), ["2 x 3", "4 variables"]),
        (("report", "model", "-o", "report.html", "--image", "16"), ["such as 16x16"]),
        (("report", "model", "-o", "report.html", "--image", "0x4"), ["such as 16x16"]),
        (("report", "model", "-o", "report.html", "--image", "2x2x1"), ["such as 16x16"]),
        (("report", "model", "-o", "report.html", "--image", "-2x-2"), ["such as 16x16"]),
        (("review", "leeds", "--html", "."), ["can't be written"]),
        (("review", "leeds", "--html", "model"), ["is a folder"]),
        (("review", "leeds", "--html", "nowhere/page.html"), ["can't be written"]),
        (("review", "leeds", "--html", "leeds/page.html"), ["a summary", "outside it"]),
        (("review", "nowhere", "--html", "page.html"), ["nowhere"]),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    report_in_story: Run, arguments: tuple[str, ...], words: list[str]
) -> None:
    refused(report_in_story(*arguments), *words)


def test_pages_of_the_command_line(report_in_story: Run, story: Path) -> None:
    """Rows, their identifiers and their dates are in none of them."""
    done(report_in_story("report", "model", "-o", "out.html", "--title", "A < B", "--date", DATE))
    done(report_in_story("review", "leeds", "--html", "page.html"))
    done(report_in_story("report", "model", "-o", "image.html", "--image", "2x2"))
    report, review, image = (
        (story / name).read_text(encoding="utf-8")
        for name in ("out.html", "page.html", "image.html")
    )
    assert parsed(report).one("h1").text == "A < B"
    model = GlobalModel.load(story / "model")
    assert report == report_page(model, title="A < B", date=DATE)
    assert review == review_page(model.summaries[0])
    for text in (report, review, image):
        assert "SECRET" not in text
        assert "2020-" not in text
    figures = parsed(image).one(id="images").all("figure")
    assert [len(figure.all("img")) for figure in figures] == [6] * model.n_clusters
    for name in ("out.html", "page.html", "image.html"):
        (story / name).unlink()


def test_variables_that_are_no_pixels_are_refused(tmp_path: Path) -> None:
    model = made_federation(2, variables=AGES, n_sites=1)
    with pytest.raises(OptionError, match="two levels"):
        model.report(tmp_path / "r.html", image_shape=(2, 3))
    always = (Variable("p0", ("0", "1"), "integer"), Variable("p1", ("0",), "integer"))
    with pytest.raises(OptionError, match="two levels"):  # nobody knows whether it is on
        made_federation(2, variables=always).report(tmp_path / "r.html", image_shape=(1, 2))
    with pytest.raises(FileError, match="written"):
        model.report(tmp_path / "no" / "r.html")
    assert list(tmp_path.iterdir()) == []


# What stays at a site is not in it.


def test_counts_that_are_released_alike_give_the_same_page() -> None:
    """Hidden and rounded counts that differ, and with them the site's exact account."""
    study = made_study(np.array([2, 3]), policy=POLICIES["opensafely"])
    pages = []
    for shift in (0.0, 1.0):
        T = np.array([400.0, 250.0]) + shift
        S = np.array([[300.0, 100, 200, 150, 50], [100.0, 150, 3 + shift, 110, 137]])
        S[:, 0] += shift
        stats = Sums(T, S, -np.array([30.0, 30.0]))
        summary = summary_of(
            study, "leeds", stats, np.array([[0.0, 3 + shift], [3 + shift, 0.0]]), {}
        )
        model = GlobalModel(
            study, (summary,), (np.array([0]), np.array([1])), "exact", "correlation"
        )
        pages.append((report_page(model, date=DATE), review_page(summary)))
    assert pages[0] == pages[1]


# The page of a site.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_page_of_a_site_has_the_numbers_that_would_leave(policy: str) -> None:
    model = made_federation(5, variables=AGES, n_sites=2, policy=policy, outcomes=("died",))
    summary = model.summaries[1]
    page, seen = parsed(review_page(summary)), review_tables(summary, 30)
    facts = {fact.one("dt").text: fact.one("dd").text for fact in page.one("dl").all("div")}
    assert facts == {name: " ".join(value.split()) for name, value in seen.facts}
    (sizes,), (smallest,), (contrasts,) = (
        page.one(id=part).tables() for part in ("sizes", "smallest", "contrasts")
    )
    T = summary.sums.T
    assert sizes[1:] == [
        [str(k), f"{rows:,.0f}", percent(rows / T.sum())] for k, rows in enumerate(T)
    ]
    counts = sorted(cell for cell in summary.cells() if cell > 0)[:30]
    assert [line[0] for line in smallest[1:]] == [f"{rows:,.0f}" for rows in counts]
    assert [[line[1], line[2], line[3]] for line in smallest[1:]] == [
        [cell.what, cell.level, str(cell.cluster)] for cell in seen.smallest
    ]
    assert contrasts[1:] == [
        [each.variable, each.level, percent(each.lowest, 0), str(each.lowest_cluster),
         percent(each.highest, 0), str(each.highest_cluster)]
        for each in seen.contrasts
    ]  # fmt: skip
    heat, at = heat_of(page), shown_levels(summary.codebook)
    found = counted_profile(summary.sums, summary.codebook.level_offsets)
    for name in ("prevalence", "ratio", "exclusivity"):
        np.testing.assert_allclose(heat["measures"][name], getattr(found, name)[:, at], rtol=5e-6)
    assert not page.all(id="save-names")


def test_the_page_of_a_site_shows_names_as_text(tmp_path: Path) -> None:
    pages = [parsed(review_page(odd_model(*t).summaries[0])) for t in ((ODD, ODD_SITE), ("x", "x"))]
    assert [each.tag for each in pages[0]] == [each.tag for each in pages[1]]
    assert pages[0].one("h1").text == f"Site a{ODD_SITE}: what would leave"
    write_review(odd_model("x", "x").summaries[0], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == review_page(odd_model("x", "x").summaries[0])


def test_the_page_of_a_reply_leaves_out_clusters_without_rows() -> None:
    federation = made_rows(4, n_rows=400, n_sites=2, n_clusters=3, policy=POLICIES["opensafely"])
    model = federation.begun(federation.labels)
    first = federation.labels[federation.site == "s00"]
    rows = federation.tables["s00"][first == first[0]]
    reply = update_site(model, rows, "s00")
    here = np.flatnonzero(reply.sums.T)
    assert 0 < len(here) < model.n_clusters
    page = parsed(review_page(reply))
    assert [cluster["number"] for cluster in heat_of(page)["clusters"]] == here.tolist()
    assert len(page.one(id="sizes").tables()[0]) == 1 + model.n_clusters
