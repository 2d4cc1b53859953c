"""The report as a page: every number is the model's, every name is text, and there is no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from fedmerdel.model.outcomes import rates_at_sites, rates_of_all

from fedmerdel import GlobalModel
from fedmerdel.centre.origins import joins, leave_out
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.model.report import report_page
from fedmerdel.study.codebook import Variable
from fedmerdel.study.conditions import level_texts, shown_levels
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.profile import profile, weight_intervals
from fedmerdel.sums.sums import OutcomeCounts, Sums
from tests.federations import made_study, summary_of
from tests.page_tree import Element, heat_of, parsed
from tests.reported import DATE, conditions, made_federation
from tests.round_trips import made as made_rows
from tests.round_trips import play


class Shown(NamedTuple):
    model: GlobalModel
    page: Element


def after_exchanges() -> GlobalModel:
    federation = made_rows(2, n_rows=600, n_sites=4, n_clusters=3, policy=POLICIES["opensafely"])
    return play(federation.begun(federation.labels), federation.tables, 2)


AGES = (
    *conditions(4),
    Variable("age", tuple(f"{10 * n} to {10 * n + 9}" for n in range(12)), "text"),
    Variable("sex", ("f", "m"), "text"),
)

CASES: dict[str, Callable[[], GlobalModel]] = {
    "small": made_federation,
    "one cluster": lambda: made_federation(1, 3, 2),
    "one site": lambda: made_federation(3, 5, 1, outcomes=("died",)),
    "policy and outcomes": lambda: made_federation(
        7, 12, 5, here=5, policy="opensafely", outcomes=("died", "fell"), labels={"v1": "Asthma"}
    ).named({1: "Stroke & <b>", 3: "Lungs"}),
    "many levels": lambda: made_federation(4, variables=AGES, n_sites=3, outcomes=("died",)),
    "missing as a level": lambda: made_federation(4, variables=AGES, n_sites=3, missing="level"),
    "variable selection": lambda: made_federation(3, 6, 4, variable_selection=True),
    "given prior": lambda: made_federation(3, 4, 3, prior=2.0, max_clusters=30),
    "after exchanges": after_exchanges,
}


@cache
def shown_of(case: str) -> Shown:
    model = CASES[case]()
    return Shown(model, parsed(report_page(model, date=DATE)))


@pytest.fixture(params=CASES)
def shown(request: pytest.FixtureRequest) -> Shown:
    return shown_of(request.param)


def percent(share: float, digits: int = 1) -> str:
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def number(value: float, digits: int = 1) -> str:
    return "–" if value != value else f"{value:,.{digits}f}"


# Every number is the model's.


def test_the_headline(shown: Shown) -> None:
    model, page = shown
    tiles = [(tile.one("strong").text, tile.one("span").text) for tile in page.all(kind="tile")]
    sure = expected_certainty(model.sums, model.prior, model.row_prior, model.site_rows).sure
    rows = model.site_rows.sum()
    bound: float | None = model.lower_bound
    of_what = f", {model.lower_bound / rows:,.3f} a row"
    if model.record and model.study.policy.name != "none":
        # Counts that a policy has changed don't tell it: the sites did.
        bound, of_what = model.record[-1].elbo, " of all rows, at the last exchange"
    assert bound is not None
    one, sites = model.n_clusters == 1, len(model.sites)
    assert tiles == [
        (str(model.n_clusters), "cluster" if one else "clusters"),
        (f"{rows:,.0f}", "rows at one site" if sites == 1 else f"rows at {sites} sites"),
        (percent(sure, 0), "of rows expected in a cluster with probability above 0.8"),
        (f"{bound:,.0f}", f"ELBO in nats{of_what}"),
    ]
    assert page.one("h1").text == page.one("head").one("title").text == model.study.name


def test_the_facts(shown: Shown) -> None:
    model, page = shown
    facts = {
        fact.one("dt").text: fact.one("dd").text
        for fact in page.one("dl").all("div")
    }  # fmt: skip
    assert facts["Study"] == model.study.name
    assert model.study.hash.startswith(facts["Identifier of the study"])
    assert facts["Sites"] == ", ".join(model.sites)
    assert facts["Rows"] == f"{model.site_rows.sum():,.0f}"
    assert facts["Variables"] == str(len(model.study.codebook.names))
    assert facts["Outcomes"] == (", ".join(model.study.outcomes) or "none")
    rules = {
        "none": "counts released as they are",
        "opensafely": "no count from 1 to 9, rounded to 5",
    }
    assert (
        facts["Disclosure control"]
        == f"{model.study.policy.name}: " + rules[model.study.policy.name]
    )
    prior = model.study.prior if isinstance(model.study.prior, str) else "given in the study"
    assert facts["Prior of the levels"] == prior
    assert facts["Search"] == f"exact, exchanges: {len(model.record)}"
    assert facts["Page written"] == DATE


def test_the_card_of_each_cluster(shown: Shown) -> None:
    model, page = shown
    cards = page.all("article")
    assert [int(card.attributes["data-cluster"]) for card in cards] == list(range(model.n_clusters))
    low, high = weight_intervals(model.sums, model.prior).T
    overall = rates_of_all(model)
    codebook = model.study.codebook
    every = [(v.name, level) for v in codebook.variables for level in v.levels]
    called = level_texts(codebook, dict(model.study.labels))
    texts = {every[at]: called[at] for at in shown_levels(codebook)}
    for cluster, card in zip(model.describe(), cards, strict=True):
        k = cluster.number
        assert card.one("h3").text == model.name(k)
        head = card.all("p")[0].text
        wanted = f"{cluster.rows:,.0f} rows, {percent(cluster.share)} of all "
        wanted += f"({percent(low[k])} to {percent(high[k])})"
        if cluster.mean_conditions is not None:
            wanted += f" {number(cluster.mean_conditions)} conditions a row on average"
        assert head == wanted
        marks = [
            [texts[c.variable, c.level], percent(c.prevalence, 0), number(c.ratio, 2)]
            for c in cluster.conditions
            if (c.variable, c.level) in texts and c.prevalence > 0.05 and c.ratio > 1
        ][:8]
        tables = card.tables()
        assert len(tables) == 1 + bool(marks)
        if marks:
            assert tables[0] == [["More of", "prevalence", "O/E"], *marks]
        told = [p.text for p in card.all("p", "outcome")]
        assert told == [
            f"{name} {percent(rate.share)} ({percent(rate.low)} to {percent(rate.high)}); "
            f"all rows {percent(overall[name].share)} "
            f"({percent(overall[name].low)} to {percent(overall[name].high)})"
            for name, rate in cluster.outcomes.items()
        ]


def test_the_sites_on_each_card(shown: Shown) -> None:
    model, page = shown
    rates = rates_at_sites(model)
    for k, card in enumerate(page.all("article")):
        head, *lines = card.one("details").tables()[0]
        assert head == ["site", "rows", "of the site", *model.study.outcomes]
        for b, (site, line) in enumerate(zip(model.sites, lines, strict=True)):
            rows = sum(a.rows for a in model.lineage if (a.site, a.cluster) == (site, k))
            everyone = sum(a.rows for a in model.lineage if a.site == site)
            wanted = [site, f"{rows:,.0f}", percent(rows / everyone)]
            for name in model.study.outcomes:
                rate = rates[name][b][k]
                interval = f" ({percent(rate.low, 0)} to {percent(rate.high, 0)})"
                wanted.append(percent(rate.share) + (interval if rate.share == rate.share else ""))
            assert line == wanted


def test_outcomes_as_pictures(shown: Shown) -> None:
    model, page = shown
    if not model.study.outcomes:
        assert not page.all(id="outcomes")
        return
    section = page.one(id="outcomes")
    charts = section.all("svg", "intervals")
    assert len(charts) == len(model.study.outcomes)
    for chart, heading, (name, overall) in zip(
        charts, section.all("h3"), rates_of_all(model).items(), strict=True
    ):
        interval = f"({percent(overall.low)} to {percent(overall.high)})"
        assert heading.text == f"{name}: {percent(overall.share)} {interval} of all rows"
        assert set(chart.titles()) == {
            f"all rows: {percent(overall.share)}",
            *(
                f"{model.name(c.number)}: {percent(c.outcomes[name].share)} "
                f"({100 * c.outcomes[name].low:.1f} to {percent(c.outcomes[name].high)})"
                for c in model.describe()
            ),
        }
    hint = "A count of 0 stands for 0 to 9 rows" in section.text
    assert hint == (model.study.policy.name == "opensafely")


def test_sites_by_clusters(shown: Shown) -> None:
    model, page = shown
    table = page.one("table", id="site-table")
    (lines,) = page.one(id="sites").tables()
    head, *body, everyone, present = lines
    K = model.n_clusters
    assert head == ["site", *(model.name(k) for k in range(K)), "rows"]
    rows = np.zeros((len(model.sites), K))
    for a in model.lineage:
        rows[model.sites.index(a.site), a.cluster] += a.rows
    outlined = [
        "much" in cell.attributes.get("class", "")
        for row in table.one("tbody").all("tr") for cell in row.all("td")[:-1]
    ]  # fmt: skip
    told = [
        cell.attributes["title"]
        for cell in table.one("tbody").all("td")
        if cell.attributes.get("title")
    ]
    at = 0
    for b, (site, line) in enumerate(zip(model.sites, body, strict=True)):
        shares = rows[b] / rows[b].sum()
        texts = [percent(s, 0) if s >= 0.005 else "<1 %" if s else "" for s in shares]
        assert line == [site, *texts, f"{rows[b].sum():,.0f}"]
        for k in range(K):
            others = np.delete(rows, b, axis=0)
            elsewhere = others[:, k].sum() / others.sum() if len(others) else np.inf
            assert outlined[at] == bool(shares[k] > 0.01 and shares[k] >= 2 * elsewhere)
            assert " ".join(told[at].split()) == f"{site}, {model.name(k)}: {percent(shares[k])}"
            at += 1
    assert everyone == ["all", *(percent(s, 0) for s in rows.sum(axis=0) / rows.sum()), ""]
    assert present == ["told at sites", *map(str, (rows > 0).sum(axis=0)), str(len(model.sites))]


def test_merges_and_their_gains(shown: Shown) -> None:
    model, page = shown
    section, found = page.one(id="origins"), joins(model)
    if model.record:
        (lines,) = section.tables()
        assert [line[0] for line in lines[1:]] == [str(step.number) for step in model.record]
        for line, step in zip(lines[1:], model.record, strict=True):
            assert line[1] == ("–" if step.elbo is None else number(step.elbo))
            assert line[2] == ("–" if step.gain is None else number(step.gain))
            assert line[3:5] == [str(step.n_clusters), percent(step.moved, 2)]
            assert line[5:] == [step.move or "–", ", ".join(step.stale) or "–"]
        assert f"again, {len(model.record)} times" in section.text
        assert [point.text for point in section.one("svg", "line").all("circle")] == [
            number(step.elbo or 0) for step in model.record
        ]
        return
    tables = section.tables()
    for k, line in enumerate(tables[0][1:]):
        gains = [join.gain for join in found if join.cluster == k]
        weakest = number(min(gains)) if gains else "–"
        wanted = [model.name(k), str(len(model.groups[k])), number(sum(gains)), weakest]
        assert line == wanted
    assert len(tables) == 1 + bool(found)
    if not found:
        return
    local = [f"{a.site}: {a.local_cluster}" for a in model.lineage]
    for line, join in zip(tables[1][1:], found, strict=True):
        names = []
        for group in (join.first, join.second):
            rest = f" and {len(group) - 4} more" if len(group) > 4 else ""
            names.append(", ".join(local[i] for i in group[:4]) + rest)
        assert line == [model.name(join.cluster), *names, number(join.gain)]
    course = [point.text for point in section.one("svg", "line").all("circle")]
    apart = model.lower_bound - sum(join.gain for join in found)
    assert course == [number(apart + sum(j.gain for j in found[:n])) for n in range(len(found) + 1)]


def test_the_diagram_of_origins(shown: Shown) -> None:
    model, page = shown
    diagram = page.one(id="origins").one("svg", "ribbons")
    said = diagram.titles()
    for k in range(model.n_clusters):
        assert f"{model.name(k)}: {model.site_rows[:, k].sum():,.0f} rows" in said
    for a in model.lineage:
        if a.rows and not model.record:
            local = f"{a.site}: {a.local_cluster}"
            assert f"{local} → {model.name(a.cluster)}: {a.rows:,.0f} rows" in said
    if model.record:
        for b, site in enumerate(model.sites):
            for k, rows in enumerate(model.site_rows[b]):
                if rows:
                    assert f"{site} → {model.name(k)}: {rows:,.0f} rows" in said
    # An image would hide the blocks, which can be chosen, from who hears the page.
    assert diagram.attributes["role"] == "group"
    blocks = diagram.all("g", "block", tabindex="0")
    assert [int(b.attributes["data-cluster"]) for b in blocks] == list(range(model.n_clusters))


def test_certainty(shown: Shown) -> None:
    model, page = shown
    section = page.one(id="certainty")
    sure = expected_certainty(model.sums, model.prior, model.row_prior, model.site_rows)
    assert f"Of these, {percent(sure.sure)} are in a cluster" in section.text
    for k, line in enumerate(section.tables()[0][1:]):
        others = [(sure.given[k, m], -m) for m in range(model.n_clusters) if m != k]
        share, at = max(others, default=(0.0, 0))
        other = model.name(-at) if share > 0 else "–"
        wanted = [model.name(k), percent(sure.sure_of[k]), percent(sure.given[k, k])]
        assert line == [*wanted, other, percent(share)]
    bars = section.one("svg", "histogram").titles()
    assert bars == [
        f"{n / 20:.2f} to {(n + 1) / 20:.2f}: {percent(share)}"
        for n, share in enumerate(sure.histogram)
    ]


def test_clusters_without_one_site(shown: Shown) -> None:
    model, page = shown
    found, tables = leave_out(model), page.one(id="certainty").tables()
    if not found:
        assert len(tables) == 1
        return
    for k, line in enumerate(tables[1][1:]):
        known = [(each.likeness[k], each.site) for each in found if not np.isnan(each.likeness[k])]
        least = min(value for value, _ in known)
        assert line[:3] == [
            model.name(k),
            number(np.mean([v for v, _ in known]), 2),
            number(least, 2),
        ]
        if len(known) < len(found):
            assert line[3].startswith("only at ")
        else:
            assert line[3] == ("–" if least == 1 else next(s for v, s in known if v == least))
    assert tables[2][1:] == [[each.site, str(each.n_clusters)] for each in found]


def test_variables_that_tell_clusters_apart(shown: Shown) -> None:
    model, page = shown
    section, names = page.one(id="variables"), model.study.codebook.names
    said = section.one("svg", "bars").titles()
    probability = model.selection_probability
    order = np.argsort(-probability, kind="stable")
    assert said == [f"{model.study.label(names[j])}: {percent(probability[j])}" for j in order]
    assert f"{len(model.selected)} of {len(names)} variables" in section.text
    assert ("selected the variable" in section.text) == model.study.variable_selection


def test_the_disclosure_table(shown: Shown) -> None:
    model, page = shown
    (lines,) = page.one(id="disclosure").tables()
    for line, summary in zip(lines[1:], model.summaries, strict=True):
        cells = summary.cells()
        zero = "0 to 9 rows" if model.study.policy.name == "opensafely" else "no rows"
        assert line == [
            summary.site, model.study.policy.name, f"{summary.sums.T.sum():,.0f}",
            str(summary.n_clusters), f"{len(cells):,}", f"{(cells == 0).sum():,}", zero,
            f"{cells[cells > 0].min():,.0f}", "0", "0",
            number(summary.account.cost_per_row_at_most, 4),
        ]  # fmt: skip


def test_the_heatmaps_numbers_to_six_digits(shown: Shown) -> None:
    model, page = shown
    heat, found, codebook = (
        heat_of(page),
        profile(model.sums, model.prior),
        model.study.codebook,
    )
    at, texts = shown_levels(codebook), level_texts(codebook, dict(model.study.labels))
    assert [column["label"] for column in heat["columns"]] == [texts[m] for m in at]
    for name in ("prevalence", "ratio", "exclusivity"):
        np.testing.assert_allclose(heat["measures"][name], getattr(found, name)[:, at], rtol=5e-6)
    overall = [column["overall"] for column in heat["columns"]]
    np.testing.assert_allclose(overall, found.overall[at], rtol=5e-6)
    told = dict(zip(codebook.names, found.information(codebook.level_offsets), strict=True))
    for column in heat["columns"]:
        assert column["information"] == pytest.approx(told[column["variable"]], rel=5e-6)
    names = model.names or ("",) * model.n_clusters
    assert heat["clusters"] == [
        {"number": k, "name": names[k], "rows": round(float(model.site_rows[:, k].sum()))}
        for k in range(model.n_clusters)
    ]
    clusters = model.describe()
    orders = {"size": [-c.rows for c in clusters]}
    if clusters[0].mean_conditions is not None:
        orders["conditions"] = [-(c.mean_conditions or 0) for c in clusters]
    orders |= {
        f"rate of {n}": [-c.outcomes[n].share for c in clusters] for n in model.study.outcomes
    }
    assert set(heat["orders"]) == {*orders, "alike"}
    assert sorted(heat["orders"]["alike"]) == list(range(model.n_clusters))
    for name, values in orders.items():
        assert heat["orders"][name] == np.argsort(values, kind="stable").tolist()
    options = [o.attributes["value"] for o in page.one("select", id="cluster-order").all("option")]
    assert options == list(heat["orders"])


def test_parts_of_the_page_are_where_its_links_say(shown: Shown) -> None:
    ids = [each.attributes["id"] for each in shown.page if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
    for each in shown.page:
        if each.attributes.get("href", "").startswith("#"):
            assert each.attributes["href"][1:] in ids
        assert each.attributes.get("aria-labelledby", ids[0]) in ids
    sections = [each.attributes["id"] for each in shown.page.all("section")]
    linked = [link.attributes["href"][1:] for link in shown.page.one("nav").all("a")]
    assert linked == sections


def test_an_elbo_that_is_not_known_is_a_dash() -> None:
    """As where sites did not reply."""
    model = after_exchanges()
    step = model.record[0]._replace(elbo=None, gain=None, stale=("s01", "s02"))
    page = parsed(report_page(replace(model, record=(step,)), date=DATE))
    tile = page.all(kind="tile")[3]
    assert (tile.one("strong").text, tile.one("span").text) == ("–", "ELBO in nats")
    section = page.one(id="origins")
    assert section.tables()[0][1][1:3] == ["–", "–"]
    assert section.tables()[0][1][-1] == "s01, s02"
    assert "counted there again, 1 time." in section.text
    assert not section.all("svg", "line")


def test_an_outcome_that_nobody_knows_is_no_number() -> None:
    study = made_study(np.array([2]), outcomes=("fell",))
    stats = Sums(np.array([90.0]), np.array([[30.0, 60.0]]), np.zeros(1))
    unknown = {"fell": OutcomeCounts(np.zeros(1), np.zeros(1))}
    summary = summary_of(study, "leeds", stats, np.zeros((1, 1)), unknown)
    model = GlobalModel(study, (summary,), (np.array([0]),), "exact", "correlation")
    text = report_page(model, date=DATE)
    assert "nan" not in text.replace(parsed(text).all("script")[1].raw, "").lower()
    assert parsed(text).one(id="outcomes").one("h3").text == "fell: – of all rows"
