"""The pages in a real browser: Chromium, without a window and without network.

Skipped where there is no Chromium, unless the environment variable FEDMERDEL_BROWSER is "required".
Screenshots for people to look at go to ``build/screenshots``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fedmerdel import Federation, GlobalModel, cli
from fedmerdel.model import certainty
from fedmerdel.release.review_page import write_review
from fedmerdel.report.colours import RATIO_STOPS, SHARE_STOPS, between, on, share_colour
from fedmerdel.study.codebook import Variable
from fedmerdel.study.conditions import shown_levels
from fedmerdel.sums.profile import profile
from tests.luminance import contrast, linear
from tests.reported import DATE, LONG, made_federation
from tests.unmeasured import made_unmeasured

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
PICTURES = Path(__file__).parents[1] / "build" / "screenshots"
BAD = "<img src=x onerror=hacked()><script>hacked()</script>"


class Opened(NamedTuple):
    """A page, and what it has said and asked for so far."""

    page: Page
    said: list[str]
    asked: list[str]

    @property
    def told(self) -> str:
        return self.page.locator("#heat-told").inner_text()

    def grid(self) -> list[list[str]]:
        """Texts of the heatmap's cells, line by line."""
        found: list[list[str]] = self.page.evaluate(
            "Array.from(document.querySelectorAll('#heat tbody tr'), (row) =>"
            " Array.from(row.querySelectorAll('td.cell'), (cell) => cell.textContent))"
        )
        return found

    def columns(self) -> list[str]:
        found: list[str] = self.page.evaluate(
            "Array.from(document.querySelectorAll('#heat th.turned'), (th) => th.textContent)"
        )
        return found

    def lines(self) -> list[int]:
        """Clusters of the heatmap, from top to bottom."""
        return self.numbers("#heat tbody tr")

    def numbers(self, selector: str) -> list[int]:
        found: list[int] = self.page.evaluate(
            "(selector) => Array.from(document.querySelectorAll(selector),"
            " (each) => Number(each.dataset.cluster))",
            selector,
        )
        return found

    def focused(self) -> str:
        """What has the focus: its tag, and its id or its label."""
        found: str = self.page.evaluate(
            "[document.activeElement.tagName, document.activeElement.id ||"
            " document.activeElement.getAttribute('aria-label') ||"
            " document.activeElement.className].join(' ')"
        )
        return found


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("FEDMERDEL_BROWSER") == "required":
            pytest.fail("there is no Chromium, and FEDMERDEL_BROWSER says that it is required")
        pytest.skip("there is no Chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    contexts = []

    def call(path: Path, **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        opened = Opened(context.new_page(), [], [])
        opened.page.on("console", lambda message: opened.said.append(message.text))
        opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.set_default_timeout(20_000)
        opened.page.goto(path.as_uri())
        return opened

    yield call
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def federation() -> Federation:
    found = made_federation(
        12, 40, 8, here=9, policy="opensafely", outcomes=("died", "admitted"),
        labels={"v7": "Asthma", "v8": "Atrial fibrillation"},
    )  # fmt: skip
    return found.named({2: "Mostly well"})


@pytest.fixture(scope="session")
def pages(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of a federation, of its model alone, of what a site would send, and of images."""
    folder = tmp_path_factory.mktemp("pages")
    federation.report(folder / "report.html", title="Eight hospitals", date=DATE)
    federation.model.report(folder / "own.html", title="Eight hospitals", date=DATE)
    write_review(federation.summaries[0], folder / "review.html")
    pixels = made_federation(3, variables=tuple(
        Variable(f"pixel_{n}", ("0", "1"), "integer") for n in range(16)
    ))  # fmt: skip
    pixels.report(folder / "image.html", date=DATE, image_shape=(4, 4))
    return folder


@pytest.fixture
def report(open_page: Open, pages: Path) -> Iterator[Opened]:
    yield from quiet(open_page, pages / "report.html")


@pytest.fixture(params=["report.html", pytest.param("own.html", marks=pytest.mark.statistics)])
def either(request: pytest.FixtureRequest, open_page: Open, pages: Path) -> Iterator[Opened]:
    """The page of a federation, and that of its model alone."""
    yield from quiet(open_page, pages / request.param)


def quiet(open_page: Open, path: Path) -> Iterator[Opened]:
    opened = open_page(path)
    yield opened
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("blob:")] == [path.as_uri()]


class Heat(NamedTuple):
    """The model's numbers for the columns of the heatmap, in the order of the study."""

    labels: list[str]
    prevalence: np.ndarray
    ratio: np.ndarray
    exclusivity: np.ndarray
    overall: np.ndarray
    information: np.ndarray

    def order(self, by: str) -> list[int]:
        if by == "study":
            return list(range(len(self.labels)))
        value = self.overall if by == "prevalent" else self.information
        return np.argsort(-value, kind="stable").tolist()


@pytest.fixture(scope="session")
def heat(federation: Federation) -> Heat:
    codebook = federation.study.codebook
    found, at = profile(federation.sums, federation.prior), shown_levels(codebook)
    return Heat(
        [federation.study.label(name) for name in codebook.names],
        found.prevalence[:, at], found.ratio[:, at], found.exclusivity[:, at],
        found.overall[at], found.information(codebook.level_offsets),
    )  # fmt: skip


def assert_cells(grid: list[list[str]], values: np.ndarray, digits: int, least: float) -> None:
    """Each text is its number to the digits shown; under `least` there may be none."""
    assert (len(grid), len(grid[0])) == values.shape
    for line, row in zip(grid, values, strict=True):
        for text, value in zip(line, row, strict=True):
            if text == "":
                assert value < least
                continue
            step = 1.0 if value >= 9.94 and digits else 10.0**-digits
            assert float(text) == pytest.approx(value, abs=0.5 * step + 1e-4 * max(value, 1.0))


# It loads, and asks for nothing.


@pytest.mark.parametrize("name", ["report.html", "own.html", "review.html", "image.html"])
def test_a_page_opens_without_an_error_and_asks_for_itself_alone(
    open_page: Open, pages: Path, name: str
) -> None:
    opened = open_page(pages / name)
    assert len(opened.lines()) > 0
    opened.page.mouse.wheel(0, 5000)
    assert opened.said == []
    assert opened.asked == [(pages / name).as_uri()]
    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280  # tables and pictures scroll in their own boxes


def test_what_is_not_the_pages_own_is_blocked(open_page: Open, pages: Path) -> None:
    opened = open_page(pages / "report.html")
    page, failed = opened.page, []
    page.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
    page.evaluate(
        "window.broken = [];"
        "document.addEventListener('securitypolicyviolation',"
        " (event) => window.broken.push(event.effectiveDirective))"
    )
    page.evaluate(
        "const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
        "document.body.append(made)"
    )
    page.evaluate(
        "const box = document.createElement('div');"
        "box.innerHTML = '<b onclick=\"window.ran = 1\">x</b>'; document.body.append(box);"
        "box.firstChild.click()"
    )
    assert page.evaluate("window.ran") is None
    fetched = "fetch({!r}).then(() => 'fetched', () => 'blocked')"
    for address in ("https://example.org/", (pages / "review.html").as_uri()):
        assert page.evaluate(fetched.format(address)) == "blocked"
    page.evaluate("new Image().src = 'https://example.org/x.png'")
    page.wait_for_function("window.broken.length >= 4")
    broken = set(page.evaluate("window.broken"))
    assert {"script-src-elem", "script-src-attr", "connect-src", "img-src"} <= broken
    # The browser tells of the image as asked for and stopped by the policy, all at once.
    assert failed == [("https://example.org/x.png", "csp")]
    assert set(opened.asked) == {(pages / "report.html").as_uri(), "https://example.org/x.png"}


# The heatmap.


def test_the_heatmap_shows_the_thirty_most_prevalent(either: Opened, heat: Heat) -> None:
    order = heat.order("prevalent")[:30]
    assert either.columns() == [heat.labels[at] for at in order]
    assert either.lines() == list(range(12))
    assert_cells(either.grid(), 100 * heat.prevalence[:, order], 0, 0.5001)
    names = either.page.locator("#heat input.name")
    assert names.nth(2).input_value() == "Mostly well"
    assert names.nth(3).input_value() == "cluster 3"


def test_another_measure_shows_its_own_numbers(report: Opened, heat: Heat) -> None:
    order = heat.order("prevalent")[:30]
    background = "getComputedStyle(document.querySelector('#heat td.cell')).backgroundColor"
    before = report.page.evaluate(background)
    report.page.get_by_label("observed / expected").check()
    assert_cells(report.grid(), heat.ratio[:, order], 1, 0.0)
    assert report.page.evaluate(background) != before
    assert "8 or more" in report.page.locator("#heat-scale").inner_text()
    report.page.get_by_label("exclusivity").check()
    assert_cells(report.grid(), 100 * heat.exclusivity[:, order], 0, 0.5001)


def test_columns_in_another_order_and_number(report: Opened, heat: Heat) -> None:
    page = report.page
    page.get_by_label("First").select_option("distinguishing")
    order = heat.order("distinguishing")
    assert report.columns() == [heat.labels[at] for at in order[:30]]
    page.get_by_label("Show").select_option("20")
    assert report.columns() == [heat.labels[at] for at in order[:20]]
    page.get_by_label("Show").select_option("all")
    assert report.columns() == [heat.labels[at] for at in order]
    page.get_by_label("First").select_option("study")
    assert report.columns() == heat.labels
    assert_cells(report.grid(), 100 * heat.prevalence, 0, 0.5001)


def test_the_search_finds_names_and_labels_and_says_if_there_is_none(report: Opened) -> None:
    search = report.page.get_by_label("Search")
    search.fill("  AS")
    assert report.columns() == ["Asthma"]
    search.fill("v8")  # its name in the study, not what it is called
    assert report.columns() == ["Atrial fibrillation"]
    search.fill("nothing like this")
    assert report.columns() == []
    assert report.told == "No condition has this in its name."
    search.press("Enter")  # which sends no form
    search.fill("")
    assert len(report.columns()) == 30
    assert "arrow keys" in report.told


def test_clusters_in_another_order(either: Opened, federation: Federation) -> None:
    page, by = either.page, either.page.get_by_label("Clusters by")
    clusters = federation.describe()
    wanted = {
        "rate of died": [c.outcomes["died"].share for c in clusters],
        "conditions": [c.mean_conditions or 0.0 for c in clusters],
        "size": [c.rows for c in clusters],
    }
    for name, values in wanted.items():
        by.select_option(name)
        order = np.argsort(-np.array(values), kind="stable").tolist()
        assert either.lines() == order
        assert either.numbers(".cards .card") == order
    by.select_option("alike")
    assert sorted(either.lines()) == list(range(12))
    by.select_option("size")
    page.get_by_label("Move cluster 0 down", exact=True).click()
    page.keyboard.press("Enter")  # the focus has moved with the cluster
    page.get_by_label("Move cluster 11 up", exact=True).click()
    page.get_by_label("Move cluster 1 up", exact=True).click()  # it is the first: nothing
    order = [1, 2, 0, 3, 4, 5, 6, 7, 8, 9, 11, 10]
    assert either.lines() == order
    assert either.numbers(".cards .card") == order
    page.get_by_label("First").select_option("study")
    assert either.lines() == order


# By keyboard, and for those who don't see it.


def test_the_keyboard_reaches_and_walks_the_heatmap(report: Opened, heat: Heat) -> None:
    page, order = report.page, heat.order("prevalent")
    page.locator("#column-search").focus()
    seen = []
    for _ in range(9):
        page.keyboard.press("Tab")
        seen.append(report.focused())
        if seen[-1] == "TD cell":
            break
    assert seen == [
        "SELECT cluster-order", "BUTTON save-names", "DIV Heatmap, scrolls sideways",
        "INPUT Name of cluster 0", "BUTTON Move cluster 0 up", "BUTTON Move cluster 0 down",
        "TD cell",
    ]  # fmt: skip

    def told(k: int, column: int) -> str:
        at = order[column]
        name = {2: "Mostly well"}.get(k, f"cluster {k}")
        return (
            f"{name}, {heat.labels[at]}: prevalence {100 * heat.prevalence[k, at]:.1f} % "
            f"(all rows {100 * heat.overall[at]:.1f} %), observed / expected "
            f"{heat.ratio[k, at]:.2f}, exclusivity {100 * heat.exclusivity[k, at]:.1f} %"
        )

    assert report.told == told(0, 0)
    line = column = 0
    steps = {"Right": (0, 1), "Down": (1, 0), "Left": (0, -1), "Up": (-1, 0)}
    for step in ("Right", "Right", "Down", "Down", "Left", "Up", "Up", "Up", "Left", "Left"):
        page.keyboard.press(f"Arrow{step}")
        line, column = max(line + steps[step][0], 0), max(column + steps[step][1], 0)
        assert report.focused() == "TD cell"
        assert report.told == told(line, column)
    assert (line, column) == (0, 0)
    assert page.locator("#heat td.cell[tabindex='0']").count() == 1


def test_the_mouse_is_told_the_same(report: Opened, heat: Heat) -> None:
    report.page.locator("#heat tbody tr").nth(4).locator("td.cell").nth(6).hover()
    at = heat.order("prevalent")[6]
    assert report.told.startswith(
        f"cluster 4, {heat.labels[at]}: prevalence {100 * heat.prevalence[4, at]:.1f} %"
    )


def test_a_cluster_of_the_diagram_shows_its_ribbons(report: Opened, federation: Federation) -> None:
    page = report.page
    chosen = "Array.from(document.querySelectorAll('.ribbon.chosen'), (r) => r.dataset.cluster)"
    block = page.locator("#diagram .block[data-cluster='3']")
    block.focus()
    page.keyboard.press("Enter")
    of_three = [a for a in federation.lineage if a.cluster == 3]
    assert page.evaluate(chosen) == ["3"] * len(of_three)
    assert block.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Enter")
    assert page.evaluate(chosen) == []
    assert block.get_attribute("aria-pressed") == "false"
    page.locator("#diagram .block[data-cluster='5']").focus()
    page.keyboard.press(" ")
    assert set(page.evaluate(chosen)) == {"5"}


@pytest.mark.parametrize("name", ["report.html", "own.html", "review.html"])
def test_all_that_can_be_used_has_a_name(open_page: Open, pages: Path, name: str) -> None:
    """As a screen reader has it: the browser's own tree of what is accessible."""
    page = open_page(pages / name).page
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    roles = {"button", "textbox", "searchbox", "combobox", "radio", "link", "region", "image"}
    found: dict[str, list[str]] = {}
    for node in tree["nodes"]:
        role = node.get("role", {}).get("value")
        if role in roles and not node["ignored"]:
            found.setdefault(role, []).append(node["name"]["value"].strip())
    assert all(text for names in found.values() for text in names)
    assert len(found["radio"]) == 3
    assert found["searchbox"] == ["Search"]
    assert sorted(found["combobox"]) == ["Clusters by", "First", "Show"]
    if name == "report.html":
        assert len(found["textbox"]) == 12
        assert "cluster 3: " in " ".join(found["button"])  # blocks of the diagram
        assert len(found["button"]) == 12 * 2 + 12 + 1
    if name == "own.html":
        assert len(found["textbox"]) == 12
        assert len(found["button"]) == 12 * 2 + 1  # there is no diagram


# Names.


@pytest.mark.parametrize("name", ["report.html", "own.html"])
def test_a_new_name_is_everywhere_and_goes_back_into_the_model(
    open_page: Open, pages: Path, name: str, federation: Federation, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    opened, folder = open_page(pages / name), tmp_path / "kept"
    subject = federation if name == "report.html" else federation.model
    subject.save(folder)
    page = opened.page
    names = page.locator("#heat input.name")
    rename(page, 1, 'Heart, "lung"; & more')
    rename(page, 2, "")  # it had one
    rename(page, 4, BAD)
    rename(page, 5, "x\u2028y\tz")  # no file of names may hold these
    assert names.nth(2).input_value() == "cluster 2"
    assert names.nth(5).input_value() == "x y z"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save names").click()
    assert download.value.suggested_filename == "names.csv"
    download.value.save_as(tmp_path / "names.csv")
    assert "fedmerdel name MODEL names.csv" in opened.told
    cli.app(args=["name", str(folder), str(tmp_path / "names.csv")], standalone_mode=False)
    assert "3 clusters named" in capsys.readouterr().out
    kept = type(subject).load(folder)
    for each in (kept, GlobalModel.load(folder)):
        assert [each.name(k) for k in (1, 2, 4, 5)] == [
            'Heart, "lung"; & more', "cluster 2", BAD, "x y z",
        ]  # fmt: skip
    kept.report(tmp_path / "next.html", date=DATE)
    following = open_page(tmp_path / "next.html")
    assert following.page.locator("#heat input.name").nth(4).input_value() == BAD
    # What was renamed on the page reads as the page that is made with the names.
    assert told_of(page) == told_of(following.page)
    for each in (opened, following):
        assert each.page.evaluate("document.images.length") == 0
        assert each.page.evaluate("document.scripts.length") == 2
        assert each.said == []


def rename(page: Page, k: int, name: str) -> None:
    field = page.locator("#heat input.name").nth(k)
    # As if pasted: what the keyboard can't type.
    field.evaluate("(field, name) => { field.focus(); field.value = name; }", name)
    field.dispatch_event("change")


def told_of(page: Page) -> list[str]:
    """Every text in which a cluster may be named, but those that pictures cut short."""
    found: list[str] = page.evaluate(
        "Array.from(document.querySelectorAll('[data-name]:not(text), svg title, .card'),"
        " (each) => each.textContent)"
        ".concat(Array.from(document.querySelectorAll('#site-table td'), (td) => td.title))"
    )
    assert any(BAD in text for text in found)
    return found


def test_a_long_name_stays_in_the_picture(report: Opened) -> None:
    rename(report.page, 3, "W" * 80)
    for selector in ("#diagram text[data-name='3']", "#outcomes text[data-name='3'] >> nth=0"):
        text = report.page.locator(selector)
        assert re.fullmatch("W+…", text.text_content() or "")
        box, around = text.bounding_box(), text.locator("xpath=ancestor::*[2]").bounding_box()
        assert box is not None
        assert around is not None
        assert around["x"] <= box["x"]
        assert box["x"] + box["width"] <= around["x"] + around["width"]


@pytest.mark.parametrize("name", ["Mostly well", "cluster 5", "Cluster  7", "cluster 03"])
def test_a_name_of_another_cluster_is_refused(report: Opened, name: str) -> None:
    rename(report.page, 0, name)
    assert "another cluster's name" in report.told
    assert report.page.locator("#heat input.name").nth(0).input_value() == "cluster 0"
    assert report.page.locator("#card-0").inner_text() == "cluster 0"


# Without script, on paper, and large.


def test_without_script_the_numbers_are_there(
    open_page: Open, pages: Path, federation: Federation
) -> None:
    opened = open_page(pages / "report.html", java_script_enabled=False)
    text = opened.page.locator("main").inner_text()
    assert "this page's own script, which is switched off here" in text
    cluster = federation.describe()[0]
    assert f"{cluster.rows:,.0f} rows" in text
    assert f"{federation.lower_bound:,.0f}" in opened.page.locator("header").inner_text()
    assert opened.page.locator(".card").count() == 12
    assert opened.page.locator("#site-table tbody tr").count() == 8
    assert "site 003: 3 → cluster 0" in (opened.page.locator("#diagram").text_content() or "")
    review = open_page(pages / "review.html", java_script_enabled=False)
    assert "switched off here" in review.page.locator("main").inner_text()
    own = open_page(pages / "own.html", java_script_enabled=False)
    assert f"{cluster.rows:,.0f} rows" in own.page.locator("main").inner_text()
    assert own.page.locator(".card").count() == 12
    assert "site 00" not in (own.page.locator("body").text_content() or "")
    assert opened.said == review.said == own.said == []


@pytest.mark.parametrize("name", ["report.html", "own.html", "review.html"])
def test_it_prints(open_page: Open, pages: Path, name: str) -> None:
    page = open_page(pages / name).page
    paper = page.pdf(prefer_css_page_size=True)
    assert paper.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 60
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator("#heat-controls").is_visible()
    assert page.locator("#heat").is_visible()


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are drawn to ask how sure they are: nobody would see more of them."""
    monkeypatch.setattr(certainty, "N_DRAWN", 500)


@pytest.mark.usefixtures("few_drawn")
def test_a_hundred_sites_still_work(open_page: Open, tmp_path: Path) -> None:
    """Sixty clusters at a hundred sites, which have twenty of them each."""
    federation = made_federation(60, 8, 100, here=20)
    federation.report(tmp_path / "sites.html", date=DATE)
    opened = open_page(tmp_path / "sites.html")
    page = opened.page
    assert page.locator("#site-table tbody tr").count() == 100
    page.locator("#diagram .block[data-cluster='7']").focus()
    page.keyboard.press("Enter")
    at_sites = int((federation.site_rows[:, 7] > 0).sum())
    assert page.locator(".ribbon.chosen").count() == at_sites
    assert opened.said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.usefixtures("few_drawn")
def test_the_largest_heatmap_still_works(open_page: Open, tmp_path: Path) -> None:
    """Sixty clusters by five hundred conditions, all columns shown."""
    federation = made_federation(60, 500, 2)
    federation.report(tmp_path / "large.html", date=DATE)
    opened = open_page(tmp_path / "large.html")
    page = opened.page
    page.get_by_label("Show").select_option("all")
    assert (len(opened.lines()), len(opened.columns())) == (60, 500)
    assert page.locator("#heat td.cell").count() == 30_000
    page.get_by_label("Search").fill("v49")
    assert set(opened.columns()) == {"v49", *(f"v49{n}" for n in range(10))}
    found = profile(federation.sums, federation.prior)
    at = [2 * int(label[1:]) + 1 for label in opened.columns()]
    assert_cells(opened.grid(), 100 * found.prevalence[:, at], 0, 0.5001)
    page.screenshot(path=PICTURES / "report-large.png")
    assert opened.said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_long_names_leave_the_page_as_wide_as_it_is(open_page: Open, tmp_path: Path) -> None:
    wide = "W" * 150
    variables = (
        Variable(wide, ("no", "yes"), "text"),
        Variable(LONG, ("a" * 200, wide, "c"), "text"),
    )
    federation = made_federation(
        4,
        variables=variables,
        sites=("W" * 120, "a b " * 30 + "c"),
        outcomes=("O" * 150,),
        name=wide,
    ).named({0: "W" * 80, 1: "漢" * 80})
    federation.report(tmp_path / "long.html", date=DATE)
    federation.model.report(tmp_path / "own.html", date=DATE)
    write_review(federation.summaries[0], tmp_path / "review.html")
    for name in ("long.html", "own.html", "review.html"):
        page = open_page(tmp_path / name).page
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert page.evaluate("document.querySelector('#heat thead').offsetHeight") < 260


# Colours.


def test_text_stands_out_on_every_colour(report: Opened) -> None:
    """At least 4.5 to 1 (WCAG 2, AA), the same in the page's tables and in its heatmap."""
    places = np.linspace(0, 1, 301).tolist()
    script = (
        "(places) => places.map((at) => {"
        " const colour = mixed(heat[STOPS], at); return [colour, ink(colour)]; })"
    )
    for name, stops in (("shareStops", SHARE_STOPS), ("ratioStops", RATIO_STOPS)):
        drawn = report.page.evaluate(script.replace("STOPS", repr(name)), places)
        for at, (channels, ink) in zip(places, drawn, strict=True):
            colour = "#" + "".join(f"{channel:02x}" for channel in channels)
            text = {"#fff": "#ffffff", "#000": "#000000"}[ink]
            assert contrast(colour, text) >= 4.5
            own = between(stops, at)
            # Halves are rounded up here and to even there.
            assert np.abs(255 * (np.sqrt(linear(own)) - np.sqrt(linear(colour)))).max() < 3
            assert contrast(own, on(own)) >= 4.5
    assert share_colour(0.3, 0.3) == SHARE_STOPS[-1]
    cells = report.page.evaluate(
        "Array.from(document.querySelectorAll('#heat td.cell, #site-table tbody td'), (cell) =>"
        " [getComputedStyle(cell).backgroundColor, getComputedStyle(cell).color,"
        "  cell.textContent])"
    )
    seen = 0
    for *colours, text in cells:
        found = [re.findall(r"[\d.]+", colour) for colour in colours]
        if not text.strip() or len(found[0]) == 4:  # see-through: on white
            continue
        hexes = ["#" + "".join(f"{int(channel):02x}" for channel in c[:3]) for c in found]
        assert contrast(*hexes) >= 4.5
        seen += 1
    assert seen > 300


# For people to look at.


def test_what_was_not_measured_is_hatched(open_page: Open, tmp_path: Path) -> None:
    federation = made_unmeasured("opensafely")
    federation.report(tmp_path / "report.html", date=DATE)
    opened = open_page(tmp_path / "report.html")
    page = opened.page
    assert "not measured" in page.locator("#heat-scale").inner_text()
    place = opened.columns().index("Chronic lung disease")
    for measure in ("prevalence", "ratio", "exclusivity"):
        page.locator(f"input[value={measure}]").check()
        assert [line[place] for line in opened.grid()][2] == "–"
        assert sum(line.count("–") for line in opened.grid()) == 1
    cell = page.locator("#heat td.unmeasured")
    assert cell.count() == 1
    assert "gradient" in cell.evaluate("(cell) => getComputedStyle(cell).backgroundImage")
    cell.hover()
    overall = 100 * federation.model.profile.overall[2 * 2 + 1]
    assert opened.told == (
        f"cluster 2, Chronic lung disease: not measured (where it was, {overall:.1f} %)"
    )
    page.locator("#column-order").select_option("distinguishing")
    assert sorted(opened.columns()) == ["Chronic lung disease", "v0", "v1", "v3"]
    assert page.locator("#missing-table td.unmeasured").inner_text() == "all"
    page.screenshot(path=PICTURES / "report-not-measured.png", full_page=True)
    assert opened.said == []


@pytest.mark.statistics
def test_screenshots(open_page: Open, pages: Path) -> None:
    report, own, review = (
        open_page(pages / name).page for name in ("report.html", "own.html", "review.html")
    )
    report.screenshot(path=PICTURES / "report-top.png")
    report.screenshot(path=PICTURES / "report-full.png", full_page=True)
    own.screenshot(path=PICTURES / "report-of-a-model.png", full_page=True)
    review.screenshot(path=PICTURES / "review.png", full_page=True)
    for name in ("report-top.png", "report-full.png", "report-of-a-model.png", "review.png"):
        assert (PICTURES / name).stat().st_size > 20_000
