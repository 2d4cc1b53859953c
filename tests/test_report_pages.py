"""Pages as files: names are text, the same bytes again, any size, refusals, and a site's page.

There is a page of a federation, of a model alone, and of what a site would send.
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import Federation, GlobalModel, OptionError, reply_site
from fedmerdel.centre.origins import MOST_BLOCKS
from fedmerdel.errors import FileError
from fedmerdel.model import certainty
from fedmerdel.release.cells import all_cells
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
from tests.reported import (
    AGES,
    CASES,
    DATE,
    LONG,
    ODD,
    made_federation,
    own_page_of,
    page_of,
    percent,
    shown_of,
)
from tests.round_trips import Made
from tests.round_trips import made as made_rows

Run = Callable[..., Said]

# Names are text.

ODD_SITE = ODD.replace("/", "")


def odd_federation(text: str, site: str) -> Federation:
    variables = (
        *(Variable(f"{n}{text}", ("no", "yes"), "text") for n in range(3)),
        Variable(f"9{text}", (f"0{text}", f"1{text}", f"2{text}"), "text"),
    )
    federation = made_federation(
        4, variables=variables, sites=(f"a{site}", f"b{site}", f"c{site}"),
        outcomes=(f"o{text}",), labels={f"1{text}": f"l{text}"}, name=f"n{text}",
    )  # fmt: skip
    name = "".join(c for c in text if c not in "\u0000\u2028")  # which no cluster's name has
    return federation.named({0: f"k{name}"[:80], 1: "plain"})


def both_pages(federation: Federation, **options: Any) -> tuple[str, str]:
    return page_of(federation, **options), own_page_of(federation.model, **options)


@pytest.mark.parametrize("text", [ODD, LONG, "\u00a0abc\u3000 \u2003", "'\"<!-- -->]]>&amp;&lt;"])
def test_names_of_any_kind_are_shown_as_text(text: str) -> None:
    """A page has the tags that it has with plain names, and no other."""
    site = text.replace("/", "").replace("\u0000", "").strip()
    federation = odd_federation(text, site)

    def seen(wanted: str) -> str:
        return " ".join(wanted.replace("\u0000", "").split())

    sites = [seen(", ".join(federation.sites)), "3"]
    pages = both_pages(federation, title=f"t{text}", date=f"d{text}")
    plain = both_pages(odd_federation("x", "x"), title="t", date="d")
    for page, other, told in zip(pages, map(parsed, plain), sites, strict=True):
        tree = parsed(page)
        assert [each.tag for each in tree] == [each.tag for each in other]
        assert [list(each.attributes) for each in tree] == [list(each.attributes) for each in other]
        tree = parsed(page.replace("\u0000", ""))
        assert tree.one("h1").text == seen(f"t{text}")
        facts = {fact.one("dt").text: fact.one("dd").text for fact in tree.one("dl").all("div")}
        assert facts["Study"] == seen(f"n{text}")
        assert facts["Sites"] == told
        assert facts["Page written"] == seen(f"d{text}")
        assert tree.all("article")[0].one("h3").text == seen(federation.name(0))
        heat = heat_of(parsed(page))
        assert heat["clusters"][0]["name"] == federation.name(0)
        labels = [column["label"] for column in heat["columns"]]
        assert labels == [
            f"0{text}",
            f"l{text}",
            f"2{text}",
            *(f"9{text} = {n}{text}" for n in range(3)),
        ]


def test_no_name_can_end_the_pages_script_or_change_its_policy() -> None:
    pairs = zip(
        both_pages(odd_federation(ODD, ODD_SITE)), both_pages(odd_federation("x", "x")), strict=True
    )
    for tree, plain in (map(parsed, pair) for pair in pairs):
        assert [s.attributes for s in tree.all("script")] == [
            {"type": "application/json", "id": "heat-data"}, {},
        ]  # fmt: skip
        raw = tree.one("script", id="heat-data").raw
        assert not set("<>&") & set(raw)
        assert tree.all("script")[1].raw == plain.all("script")[1].raw
        policies = [
            p.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
            for p in (tree, plain)
        ]
        assert policies[0] == policies[1]
        assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
        assert "49" not in tree.one("h1").text  # no template in a name is run


def test_the_page_asks_for_nothing() -> None:
    for tree in shown_of("policy and outcomes").pages:
        for each in tree:
            for attribute in ("src", "href", "action", "data", "srcset", "poster"):
                assert each.attributes.get(attribute, "#").startswith(("#", "data:"))
            assert "url(" not in each.attributes.get("style", "")
            assert not [name for name in each.attributes if name.startswith("on")]
        style = tree.one("style").raw
        assert "url(" not in style
        assert "@import" not in style


# A model's page is of the model alone.

SITES = ("a\u2603 north", "b<leeds>", "c&york")


def shared_out(seed: int, sites: tuple[str, ...], **options: Any) -> Federation:
    """The same rows and clusters, at three sites; a seed says which row is at which."""
    made = made_rows(5, n_rows=600, n_sites=3, n_clusters=3, **options)
    order = np.random.default_rng(seed).permutation(600)
    X, labels = made.X[order], made.labels[order]
    tables = {site: X[b::3] for b, site in enumerate(sites)}
    return Made(made.study, tables, X, labels).begun(labels)


@pytest.mark.parametrize("site_shares", [False, True])
def test_a_models_page_names_no_site(site_shares: bool) -> None:
    federation = shared_out(0, SITES, site_shares=site_shares)
    whole, own = (parsed(text) for text in both_pages(federation))
    assert bool(federation.model.site_shares) == site_shares
    said = [own.raw, *(value for each in own for value in each.attributes.values())]
    for site in SITES:
        assert site in whole.raw
        assert not any(site in text for text in said)


def test_a_models_page_tells_nothing_of_which_rows_are_where() -> None:
    """The same rows, at other sites, of other names."""
    federations = [
        shared_out(0, SITES),
        shared_out(1, SITES),
        shared_out(1, ("hull", "leeds", "york")),
    ]
    first, second, _ = (federation.site_rows.tolist() for federation in federations)
    assert first != second
    whole = {page_of(federation) for federation in federations}
    own = {own_page_of(federation.model) for federation in federations}
    assert (len(whole), len(own)) == (3, 1)


@pytest.mark.parametrize("case", CASES)
def test_a_model_has_the_same_page_in_another_place(case: str, tmp_path: Path) -> None:
    """Saved and loaded, from its own folder, a zip of it, or the part of a centre's folder."""
    federation = shown_of(case).federation
    wanted = own_page_of(federation.model)
    federation.save(tmp_path / "centre")
    federation.model.save(tmp_path / "model.zip")
    shutil.copytree(tmp_path / "centre" / "model", tmp_path / "elsewhere" / "model")
    for at, place in enumerate(("model.zip", "elsewhere/model", "centre")):
        page = tmp_path / f"{at}.html"
        GlobalModel.load(tmp_path / place).report(page, date=DATE)
        assert page.read_text(encoding="utf-8") == wanted
    again = tmp_path / "again.html"
    Federation.load(tmp_path / "centre").report(again, date=DATE)
    assert again.read_text(encoding="utf-8") == page_of(federation)


# The same again, elsewhere, and in any size.


def test_the_same_federation_and_date_give_the_same_bytes(tmp_path: Path) -> None:
    federation = CASES["policy and outcomes"]()
    federation.save(tmp_path / "centre")
    command = (
        "import sys\nfrom fedmerdel import cli\n"
        "for place, page in (('centre', 'three.html'), ('centre/model', 'own-three.html')):\n"
        "    cli.app(['report', place, '-o', page, '--date', sys.argv[1]], standalone_mode=False)\n"
    )
    subprocess.run(
        [sys.executable, "-c", command, DATE],
        cwd=tmp_path, check=True, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True,
    )  # fmt: skip
    same = CASES["policy and outcomes"]()
    for before, given, other in (("", federation, same), ("own-", federation.model, same.model)):
        given.report(tmp_path / f"{before}one.html", date=DATE)
        other.report(tmp_path / f"{before}two.html", date=DATE)
        one, two, three = (
            (tmp_path / f"{before}{n}.html").read_bytes() for n in ("one", "two", "three")
        )
        assert one == two == three


def test_the_date_is_the_one_given_or_todays() -> None:
    federation = shown_of("small").federation
    for page, other in zip(
        both_pages(federation), both_pages(federation, date="2027-01-01"), strict=True
    ):
        assert page != other
        assert page.replace(DATE, "2027-01-01") == other
    today = datetime.date.today().isoformat()
    assert all(today in page for page in both_pages(federation, date=None))


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are drawn to ask how sure they are: a picture of them is no smaller."""
    monkeypatch.setattr(certainty, "N_DRAWN", 500)


@pytest.mark.usefixtures("few_drawn")
@pytest.mark.parametrize(
    ("n_clusters", "n_variables", "n_sites", "here"),
    [(3, 5, 1, None), (60, 5, 1, None), (3, 500, 2, None), (5, 6, 100, 2), (20, 60, 30, 3)],
)
def test_a_page_of_any_size(n_clusters: int, n_variables: int, n_sites: int, here: int) -> None:
    federation = made_federation(n_clusters, n_variables, n_sites, here=here)
    page, own = map(parsed, both_pages(federation))
    for each in (page, own):
        assert len(each.all("article")) == n_clusters
        assert len(heat_of(each)["columns"]) == n_variables
    assert len(page.one("table", id="site-table").one("tbody").all("tr")) == n_sites
    by_site = len(federation.lineage) > MOST_BLOCKS
    blocks = page.one("svg", "ribbons").all("g", "block")
    assert len(blocks) == (n_sites if by_site else len(federation.lineage)) + n_clusters
    assert ("on the left are the sites" in page.one(id="origins").text) == by_site


@pytest.mark.usefixtures("few_drawn")
@pytest.mark.parametrize(("n_variables", "n_sites", "here"), [(500, 2, 60), (8, 100, 20)])
def test_the_largest_page_is_small_enough_to_send(
    n_variables: int, n_sites: int, here: int
) -> None:
    """Sixty clusters by five hundred variables, and at a hundred sites of twenty clusters.

    A page of both is hardly larger than the two together.
    """
    federation = made_federation(60, n_variables, n_sites, here=here, outcomes=("died",))
    text, own = both_pages(federation)
    assert len(own.encode()) < len(text.encode()) < 3_000_000
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
        (("report", "model/model", "-o", "model/model/r.html"), ["folder of a model", "outside"]),
        (("report", "model/model", "-o", "model/sites/r.html"), ["folder of a model", "outside"]),
        (("report", "nowhere", "-o", "report.html"), ["does not exist"]),
        (("report", "leeds", "-o", "report.html"), ["'leeds'", "no file 'model.json'"]),
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
    shutil.copytree(story / "model" / "model", story / "sent")
    titled = ("--title", "A < B", "--date", DATE)
    done(report_in_story("report", "model", "-o", "out.html", *titled))
    done(report_in_story("report", "sent", "-o", "own.html", *titled))
    done(report_in_story("review", "leeds", "--html", "page.html"))
    done(report_in_story("report", "model", "-o", "image.html", "--image", "2x2"))
    done(report_in_story("report", "sent", "-o", "own-image.html", "--image", "2x2"))
    names = ("out.html", "own.html", "page.html", "image.html", "own-image.html")
    report, own, review, *images = texts = [
        (story / name).read_text(encoding="utf-8") for name in names
    ]
    assert parsed(report).one("h1").text == parsed(own).one("h1").text == "A < B"
    federation = Federation.load(story / "model")
    assert (report, own) == both_pages(federation, title="A < B")
    assert review == review_page(federation.summaries[0])
    for text in texts:
        assert "SECRET" not in text
        assert "2020-" not in text
    assert "leeds" not in own + images[1]
    for image in images:
        figures = parsed(image).one(id="images").all("figure")
        assert [len(figure.all("img")) for figure in figures] == [6] * federation.n_clusters
    for name in names:
        (story / name).unlink()
    shutil.rmtree(story / "sent")


def test_variables_that_are_no_pixels_are_refused(tmp_path: Path) -> None:
    federation = made_federation(2, variables=AGES, n_sites=1)
    always = (Variable("p0", ("0", "1"), "integer"), Variable("p1", ("0",), "integer"))
    unknown = made_federation(2, variables=always)
    for given, other in ((federation, unknown), (federation.model, unknown.model)):
        with pytest.raises(OptionError, match="two levels"):
            given.report(tmp_path / "r.html", image_shape=(2, 3))
        with pytest.raises(OptionError, match="two levels"):  # nobody knows whether it is on
            other.report(tmp_path / "r.html", image_shape=(1, 2))
        with pytest.raises(FileError, match="written"):
            given.report(tmp_path / "no" / "r.html")
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
        Q = np.array([[0.0, 3 + shift], [3 + shift, 0.0]])
        summary = summary_of(study, "leeds", Sums(T, S, -np.array([30.0, 30.0]), Q))
        federation = Federation(
            study, (summary,), (np.array([0]), np.array([1])), "exact", "correlation"
        )
        pages.append((*both_pages(federation), review_page(summary)))
    assert pages[0] == pages[1]


# The page of a site.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_page_of_a_site_has_the_numbers_that_would_leave(policy: str) -> None:
    federation = made_federation(5, variables=AGES, n_sites=2, policy=policy, outcomes=("died",))
    summary = federation.summaries[1]
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
    cells = all_cells(summary.sums, summary.codebook.level_offsets)
    counts = sorted(cell for cell in cells if cell > 0)[:30]
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
    odd, plain = (odd_federation(*t).summaries[0] for t in ((ODD, ODD_SITE), ("x", "x")))
    pages = [parsed(review_page(summary)) for summary in (odd, plain)]
    assert [each.tag for each in pages[0]] == [each.tag for each in pages[1]]
    assert pages[0].one("h1").text == f"Site a{ODD_SITE}: what would leave"
    write_review(plain, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == review_page(plain)


def test_the_page_of_a_reply_leaves_out_clusters_without_rows() -> None:
    made = made_rows(4, n_rows=400, n_sites=2, n_clusters=3, policy=POLICIES["opensafely"])
    federation = made.begun(made.labels)
    first = made.labels[made.site == "s00"]
    rows = made.tables["s00"][first == first[0]]
    reply = reply_site(made.study, federation.broadcast, rows, "s00")
    here = np.flatnonzero(reply.sums.T)
    assert 0 < len(here) < federation.n_clusters
    page = parsed(review_page(reply))
    facts = {fact.one("dt").text: fact.one("dd").text for fact in page.one("dl").all("div")}
    assert facts["reply to broadcast"] == federation.broadcast.hash
    assert [cluster["number"] for cluster in heat_of(page)["clusters"]] == here.tolist()
    assert len(page.one(id="sizes").tables()[0]) == 1 + federation.n_clusters
