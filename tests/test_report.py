"""The report as a page: every number is the federation's or its model's, and there is no more.

Parts that need what each site sent are on the page of a federation alone; all others are on that
of its model as well, and are the same on both but for rows that are drawn.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel import Federation
from fedmerdel.centre.outcomes import rates_at_sites
from fedmerdel.model.certainty import expected_certainty
from fedmerdel.release.cells import all_cells
from fedmerdel.study.conditions import level_texts, shown_levels
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.profile import profile
from fedmerdel.sums.sums import Sums
from tests.federations import made_study, summary_of
from tests.outcome_cells import yes_no
from tests.page_tree import Element, heat_of, parsed
from tests.reported import (
    CASES,
    DATE,
    Shown,
    number,
    own_page_of,
    page_of,
    percent,
    shown_of,
)
from tests.round_trips import made as made_rows
from tests.round_trips import replies_of

AT_THE_CENTRE = {"sites", "origins", "disclosure"}
"""Sections of a federation's page that a model's page does not have."""


@pytest.fixture(params=CASES)
def shown(request: pytest.FixtureRequest) -> Shown:
    return shown_of(request.param)


# Every number is the model's.


def test_the_headline(shown: Shown) -> None:
    federation = shown.federation
    rows = federation.site_rows.sum()
    bound: float | None = federation.lower_bound
    of_what = f", {federation.lower_bound / rows:,.3f} a row"
    if federation.study.policy.name != "none":
        of_what = f" of the released counts{of_what}"
    if federation.record:
        of_what = " of all rows, at the last round"
        if federation.study.policy.name != "none":
            bound = None  # counts that a policy has changed don't tell it
    one, sites = federation.n_clusters == 1, len(federation.sites)
    for page, rows_of in zip(shown.pages, shown.rows_of, strict=True):
        sure = expected_certainty(
            federation.sums, federation.prior, federation.row_prior, rows_of
        ).sure
        assert _tiles(page) == [
            (str(federation.n_clusters), "cluster" if one else "clusters"),
            (f"{rows:,.0f}", "rows at one site" if sites == 1 else f"rows at {sites} sites"),
            (percent(sure, 0), "of rows expected in a cluster with probability above 0.8"),
            ("–" if bound is None else f"{bound:,.0f}", f"ELBO in nats{of_what}"),
        ]
        assert page.one("h1").text == page.one("head").one("title").text == federation.study.name


def _tiles(page: Element) -> list[tuple[str, str]]:
    return [(tile.one("strong").text, tile.one("span").text) for tile in page.all(kind="tile")]


def _facts(page: Element) -> dict[str, str]:
    return {fact.one("dt").text: fact.one("dd").text for fact in page.one("dl").all("div")}


def test_the_facts(shown: Shown) -> None:
    federation, study = shown.federation, shown.federation.study
    rules = {
        "none": "no rule, counts as they are",
        "opensafely": "no count from 1 to 9, rounded to 5",
    }
    for page in shown.pages:
        facts = _facts(page)
        assert facts["Study"] == study.name
        assert study.hash.startswith(facts["Identifier of the study"])
        assert facts["Rows"] == f"{federation.site_rows.sum():,.0f}"
        assert facts["Variables"] == str(len(study.codebook.names))
        assert facts["Outcomes"] == (", ".join(each.name for each in study.outcomes) or "none")
        policy = study.policy.name
        assert facts["Disclosure control"] == f"{policy}: {rules[policy]}"
        prior = study.prior if isinstance(study.prior, str) else "given in the study"
        assert facts["Prior of the levels"] == prior
        assert facts["Rounds"] == str(len(federation.record))
        assert facts["Page written"] == DATE
    facts, own = _facts(shown.page), _facts(shown.own)
    assert facts["Sites"] == ", ".join(federation.sites)
    assert own["Sites"] == str(len(federation.sites))
    assert facts["Search"] == federation.search
    assert facts["Software at the sites"] == federation.summaries[0].software
    assert facts.keys() - own.keys() == {"Search", "Software at the sites"}
    assert own.keys() <= facts.keys()


def test_the_card_of_each_cluster(shown: Shown) -> None:
    federation = shown.federation
    low, high, *_ = federation.model.intervals()
    codebook = federation.study.codebook
    every = [(v.name, level) for v in codebook.variables for level in v.levels]
    called = level_texts(codebook, dict(federation.study.labels))
    texts = {every[at]: called[at] for at in shown_levels(codebook)}
    for page, at_sites in zip(shown.pages, (True, False), strict=True):
        cards = page.all("article")
        numbers = [int(card.attributes["data-cluster"]) for card in cards]
        assert numbers == list(range(federation.n_clusters))
        for cluster, card in zip(federation.describe(), cards, strict=True):
            k = cluster.number
            assert card.one("h3").text == federation.name(k)
            head = card.all("p")[0].text
            wanted = f"{cluster.rows:,.0f} rows, {percent(cluster.share)} of all "
            wanted += f"({percent(low[k])} to {percent(high[k])})"
            if cluster.mean_conditions is not None:
                wanted += f" {number(cluster.mean_conditions)} conditions a row on average"
            assert head == wanted
            marks = [
                [
                    texts[c.variable, c.level],
                    percent(c.prevalence, 0),
                    f"{percent(c.low, 0)} to {percent(c.high, 0)}",
                    number(c.ratio, 2),
                ]
                for c in cluster.levels
                if (c.variable, c.level) in texts and c.prevalence > 0.05 and c.ratio > 1
            ][:8]
            tables = card.tables()
            assert len(tables) == at_sites + bool(marks)
            if marks:
                assert tables[0] == [["More of", "prevalence", "95 %", "O/E"], *marks]
            told = [p.text for p in card.all("p", "outcome")]
            overall = {name: rates.overall for name, rates in federation.outcomes.items()}
            assert told == [
                f"{name} {percent(rate.share)} ({percent(rate.low)} to {percent(rate.high)}), "
                f"counted {percent(rate.counted)}; "
                f"all rows {percent(overall[name].share)} "
                f"({percent(overall[name].low)} to {percent(overall[name].high)})"
                for name, rate in cluster.outcomes.items()
            ]
            assert list(cluster.outcomes) == list(federation.study.measures)


def test_the_sites_on_each_card(shown: Shown) -> None:
    federation, page = shown.federation, shown.page
    rates = rates_at_sites(federation.counting, federation.study)
    for k, card in enumerate(page.all("article")):
        head, *lines = card.one("details").tables()[0]
        assert head == ["site", "rows", "of the site", *federation.study.measures]
        for b, (site, line) in enumerate(zip(federation.sites, lines, strict=True)):
            rows = sum(a.rows for a in federation.lineage if (a.site, a.cluster) == (site, k))
            everyone = sum(a.rows for a in federation.lineage if a.site == site)
            wanted = [site, f"{rows:,.0f}", percent(rows / everyone)]
            for name in federation.study.measures:
                rate = rates[name][b][k]
                interval = f" ({percent(rate.low)} to {percent(rate.high)})"
                wanted.append(percent(rate.share) + (interval if rate.share == rate.share else ""))
            assert line == wanted
    assert not any(card.all("details") for card in shown.own.all("article"))


def test_outcomes_as_pictures(shown: Shown) -> None:
    federation = shown.federation
    if not federation.study.outcomes:
        assert not any(page.all(id="outcomes") for page in shown.pages)
        return
    for page in shown.pages:
        section = page.one(id="outcomes")
        charts = section.all("svg", "intervals")
        assert len(charts) == len(federation.study.outcomes)
        for chart, heading, (name, (_, overall, *_)) in zip(
            charts, section.all("h3"), federation.outcomes.items(), strict=True
        ):
            interval = f"({percent(overall.low)} to {percent(overall.high)})"
            assert heading.text == f"{name}: {percent(overall.share)} {interval} of all rows"
            assert set(chart.titles()) == {
                f"all rows: {percent(overall.share)}",
                *(
                    f"{federation.name(c.number)}: {percent(c.outcomes[name].share)} "
                    f"({percent(c.outcomes[name].low)} to {percent(c.outcomes[name].high)})"
                    for c in federation.describe()
                ),
            }
        hint = "A count of 0 stands for 0 to 9 rows" in section.text
        assert hint == (federation.study.policy.name == "opensafely")


def test_sites_by_clusters(shown: Shown) -> None:
    federation, page = shown.federation, shown.page
    table = page.one("table", id="site-table")
    lines = page.one(id="sites").tables()[0]
    head, *body, everyone, present = lines
    K, sites = federation.n_clusters, federation.sites
    assert head == ["site", *(federation.name(k) for k in range(K)), "rows"]
    rows = np.zeros((len(sites), K))
    for a in federation.lineage:
        rows[sites.index(a.site), a.cluster] += a.rows
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
    for b, (site, line) in enumerate(zip(sites, body, strict=True)):
        shares = rows[b] / rows[b].sum()
        texts = [percent(s, 0) if s >= 0.005 else "<1 %" if s else "" for s in shares]
        assert line == [site, *texts, f"{rows[b].sum():,.0f}"]
        for k in range(K):
            others = np.delete(rows, b, axis=0)
            elsewhere = others[:, k].sum() / others.sum() if len(others) else np.inf
            assert outlined[at] == bool(shares[k] > 0.01 and shares[k] >= 2 * elsewhere)
            wanted = f"{site}, {federation.name(k)}: {percent(shares[k])}"
            assert " ".join(told[at].split()) == wanted
            at += 1
    assert everyone == ["all", *(percent(s, 0) for s in rows.sum(axis=0) / rows.sum()), ""]
    assert present == ["told at sites", *map(str, (rows > 0).sum(axis=0)), str(len(sites))]


def test_merges_and_their_gains(shown: Shown) -> None:
    federation, page = shown.federation, shown.page
    section, found = page.one(id="origins"), federation.joins()
    if federation.record:
        assert found == []
        (lines,) = section.tables()
        assert [line[0] for line in lines[1:]] == [str(each.number) for each in federation.record]
        for line, each in zip(lines[1:], federation.record, strict=True):
            assert line[1] == ("–" if each.elbo is None else number(each.elbo))
            assert line[2] == ("–" if each.gain is None else number(each.gain))
            assert line[3:5] == [str(each.n_clusters), percent(each.moved, 2)]
            assert line[5:] == [each.move or "–", ", ".join(each.stale) or "–"]
        assert f"again, {len(federation.record)} times" in section.text
        told = [number(each.elbo) for each in federation.record if each.elbo is not None]
        assert [point.text for point in section.all("circle")] == told
        return
    tables = section.tables()
    for k, line in enumerate(tables[0][1:]):
        gains = [join.gain for join in found if join.cluster == k]
        weakest = number(min(gains)) if gains else "–"
        wanted = [federation.name(k), str(len(federation.groups[k])), number(sum(gains)), weakest]
        assert line == wanted
    assert len(tables) == 1 + bool(found)
    if not found:
        return
    local = [f"{a.site}: {a.local_cluster}" for a in federation.lineage]
    for line, join in zip(tables[1][1:], found, strict=True):
        names = []
        for group in (join.first, join.second):
            rest = f" and {len(group) - 4} more" if len(group) > 4 else ""
            names.append(", ".join(local[i] for i in group[:4]) + rest)
        assert line == [federation.name(join.cluster), *names, number(join.gain)]
    course = [point.text for point in section.one("svg", "line").all("circle")]
    apart = federation.lower_bound - sum(join.gain for join in found)
    assert course == [number(apart + sum(j.gain for j in found[:n])) for n in range(len(found) + 1)]


def test_the_diagram_of_origins(shown: Shown) -> None:
    federation, page = shown.federation, shown.page
    diagram = page.one(id="origins").one("svg", "ribbons")
    said = diagram.titles()
    for k in range(federation.n_clusters):
        assert f"{federation.name(k)}: {federation.site_rows[:, k].sum():,.0f} rows" in said
    for a in federation.lineage:
        if a.rows and not federation.record:
            local = f"{a.site}: {a.local_cluster}"
            assert f"{local} → {federation.name(a.cluster)}: {a.rows:,.0f} rows" in said
    if federation.record:
        for b, site in enumerate(federation.sites):
            for k, rows in enumerate(federation.site_rows[b]):
                if rows:
                    assert f"{site} → {federation.name(k)}: {rows:,.0f} rows" in said
    # An image would hide the blocks, which can be chosen, from who hears the page.
    assert diagram.attributes["role"] == "group"
    blocks = diagram.all("g", "block", tabindex="0")
    assert [int(b.attributes["data-cluster"]) for b in blocks] == list(range(federation.n_clusters))


def test_certainty(shown: Shown) -> None:
    federation = shown.federation
    for page, rows_of in zip(shown.pages, shown.rows_of, strict=True):
        section = page.one(id="certainty")
        sure = expected_certainty(federation.sums, federation.prior, federation.row_prior, rows_of)
        assert f"Of these, {percent(sure.sure)} are in a cluster" in section.text
        for k, line in enumerate(section.tables()[0][1:]):
            others = [(sure.given[k, m], -m) for m in range(federation.n_clusters) if m != k]
            share, at = max(others, default=(0.0, 0))
            other = federation.name(-at) if share > 0 else "–"
            wanted = [federation.name(k), percent(sure.sure_of[k]), percent(sure.given[k, k])]
            assert line == [*wanted, other, percent(share)]
        bars = section.one("svg", "histogram").titles()
        assert bars == [
            f"{n / 20:.2f} to {(n + 1) / 20:.2f}: {percent(share)}"
            for n, share in enumerate(sure.histogram)
        ]


def test_clusters_without_one_site(shown: Shown) -> None:
    federation = shown.federation
    assert len(shown.own.one(id="certainty").tables()) == 1
    found, tables = federation.left_out, shown.page.one(id="certainty").tables()
    if not found:
        assert len(tables) == 1
        return
    assert len(tables) == 2
    for k, line in enumerate(tables[1][1:]):
        known = [(each.likeness[k], each.site) for each in found if not np.isnan(each.likeness[k])]
        least = min(value for value, _ in known)
        if len(known) < len(found):
            # Without its only site it is gone: there is nothing to liken.
            (alone,) = {each.site for each in found} - {site for _, site in known}
            assert line == [federation.name(k), "–", "–", f"only at {alone}"]
            continue
        assert line[:3] == [
            federation.name(k),
            number(np.mean([v for v, _ in known]), 2),
            number(least, 2),
        ]
        assert line[3] == ("–" if least == 1 else next(s for v, s in known if v == least))


def test_how_each_site_stands(shown: Shown) -> None:
    federation, tables = shown.federation, shown.page.one(id="sites").tables()
    assert not shown.own.all(id="standing")
    if len(federation.sites) == 1:
        assert not shown.page.all(id="standing")
        return
    without = {each.site: each for each in federation.left_out}
    for b, line in enumerate(tables[1][1:]):
        site, rows = federation.sites[b], federation.site_rows
        lone = [
            k for k in range(rows.shape[1]) if rows[b, k] > 0 and rows[:, k].sum() == rows[b, k]
        ]
        share = rows[b, lone].sum() / rows[b].sum()
        told = [f"{rows[b].sum():,.0f}", percent(rows[b].sum() / rows.sum()), str(len(lone))]
        assert line[:5] == [site, *told, percent(share)]
        left = without.get(site)
        if left is None:
            assert line[5:8] == ["–"] * 3
        else:
            known = left.likeness[~np.isnan(left.likeness)]
            least = number(known.min(), 2) if len(known) else "–"
            assert line[5:8] == [str(left.n_clusters), least, number(left.loss, 2)]
        assert line[8] == ("; ".join(d.text for d in federation.doubts if d.site == site) or "–")


def test_variables_that_tell_clusters_apart(shown: Shown) -> None:
    federation, names = shown.federation, shown.federation.study.codebook.names
    probability = federation.selection_probability
    order = np.argsort(-probability, kind="stable")
    for page in shown.pages:
        section = page.one(id="variables")
        assert section.one("svg", "bars").titles() == [
            f"{federation.study.label(names[j])}: {percent(probability[j])}" for j in order
        ]
        assert f"{len(federation.selected)} of {len(names)} variables" in section.text
        by_sites = federation.study.variable_selection
        assert ("selected the variable" in section.text) == by_sites


def test_the_disclosure_table(shown: Shown) -> None:
    federation, policy = shown.federation, shown.federation.study.policy.name
    (lines,) = shown.page.one(id="disclosure").tables()
    for line, summary in zip(lines[1:], federation.summaries, strict=True):
        cells = all_cells(summary.sums, summary.codebook.level_offsets)
        zero = "0 to 9 rows" if policy == "opensafely" else "no rows"
        assert line == [
            summary.site, policy, f"{summary.sums.T.sum():,.0f}",
            str(summary.n_clusters), f"{len(cells):,}", f"{(cells == 0).sum():,}", zero,
            f"{cells[cells > 0].min():,.0f}",
        ]  # fmt: skip


def test_the_heatmaps_numbers_to_six_digits(shown: Shown) -> None:
    federation, codebook = shown.federation, shown.federation.study.codebook
    found = profile(federation.sums, federation.prior)
    at, texts = shown_levels(codebook), level_texts(codebook, dict(federation.study.labels))
    heat = heat_of(shown.page)
    assert heat_of(shown.own) == heat
    assert [column["label"] for column in heat["columns"]] == [texts[m] for m in at]
    for name in ("prevalence", "ratio", "exclusivity"):
        np.testing.assert_allclose(heat["measures"][name], getattr(found, name)[:, at], rtol=5e-6)
    overall = [column["overall"] for column in heat["columns"]]
    np.testing.assert_allclose(overall, found.overall[at], rtol=5e-6)
    told = dict(zip(codebook.names, found.information(codebook.level_offsets), strict=True))
    for column in heat["columns"]:
        assert column["information"] == pytest.approx(told[column["variable"]], rel=5e-6)
    names = federation.names or ("",) * federation.n_clusters
    assert heat["clusters"] == [
        {"number": k, "name": names[k], "rows": round(float(federation.site_rows[:, k].sum()))}
        for k in range(federation.n_clusters)
    ]
    clusters = federation.describe()
    orders = {"size": [-c.rows for c in clusters]}
    if clusters[0].mean_conditions is not None:
        orders["conditions"] = [-(c.mean_conditions or 0) for c in clusters]
    orders |= {
        f"rate of {n}": [-c.outcomes[n].share for c in clusters] for n in federation.study.measures
    }
    assert set(heat["orders"]) == {*orders, "alike"}
    assert sorted(heat["orders"]["alike"]) == list(range(federation.n_clusters))
    for name, values in orders.items():
        assert heat["orders"][name] == np.argsort(values, kind="stable").tolist()
    for page in shown.pages:
        options = page.one("select", id="cluster-order").all("option")
        assert [option.attributes["value"] for option in options] == list(heat["orders"])


def test_parts_of_the_page_are_where_its_links_say(shown: Shown) -> None:
    found = []
    for page in shown.pages:
        ids = [each.attributes["id"] for each in page if "id" in each.attributes]
        assert len(set(ids)) == len(ids)
        for each in page:
            if each.attributes.get("href", "").startswith("#"):
                assert each.attributes["href"][1:] in ids
            assert each.attributes.get("aria-labelledby", ids[0]) in ids
        sections = [each.attributes["id"] for each in page.all("section")]
        linked = [link.attributes["href"][1:] for link in page.one("nav").all("a")]
        assert linked == sections
        found.append(sections)
    whole, own = found
    assert own == [part for part in whole if part not in AT_THE_CENTRE]
    assert set(whole) >= AT_THE_CENTRE


def test_each_page_says_whose_counts_it_holds(shown: Shown) -> None:
    whole, own = (page.one("footer").text for page in shown.pages)
    assert "the released counts of every site" in whole
    one = len(shown.federation.sites) == 1
    assert ("totals over the site's rows" if one else "all sites, and no site's counts") in own


def test_an_elbo_that_is_not_known_is_a_dash() -> None:
    """As where sites did not reply, and a policy has changed the counts that they sent before."""
    rows = made_rows(2, n_rows=600, n_sites=4, n_clusters=3, policy=POLICIES["opensafely"])
    begun = rows.begun(rows.labels)
    replied = {site: rows.tables[site] for site in ("s00", "s03")}
    federation, brought = begun.step(replies_of(begun, replied))
    assert (brought.elbo, brought.gain, brought.stale) == (None, None, ("s01", "s02"))
    page, own = (parsed(text) for text in (page_of(federation), own_page_of(federation.model)))
    for each in (page, own):
        assert _tiles(each)[3] == ("–", "ELBO in nats of all rows, at the last round")
    section = page.one(id="origins")
    assert section.tables()[0][1][1:3] == ["–", "–"]
    assert section.tables()[0][1][-1] == "s01, s02"
    assert "counted there again, 1 time." in section.text
    assert not section.all("svg", "line")
    assert "No reply in the last round from s01, s02" in page.one(id="sites").text


def test_an_outcome_that_nobody_knows_is_no_number() -> None:
    study = made_study(np.array([2]), outcomes=("fell",))
    stats = Sums(np.array([90.0]), np.array([[30.0, 60.0]]), np.zeros(1))
    unknown = {"fell": yes_no(np.zeros(1), np.zeros(1))}
    summary = summary_of(study, "leeds", stats, unknown)
    federation = Federation(study, (summary,), (np.array([0]),), "exact", "correlation")
    for text in (page_of(federation), own_page_of(federation.model)):
        assert "nan" not in text.replace(parsed(text).all("script")[1].raw, "").lower()
        assert parsed(text).one(id="outcomes").one("h3").text == "fell: – of all rows"
