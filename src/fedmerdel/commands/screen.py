"""What the command line shows: sentences and tables, on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from rich.console import Console
from rich.table import Table

from fedmerdel.centre.state import FederationState
from fedmerdel.inference.transport import Measured
from fedmerdel.model.describe import Cluster
from fedmerdel.model.guides import guide_rates, guides_note
from fedmerdel.model.names import plain_name
from fedmerdel.model.rates import UNEXPLAINED, Rate
from fedmerdel.model.state import ModelState
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.review import Review
from fedmerdel.release.risk import in_words
from fedmerdel.release.validation import Validation
from fedmerdel.site.check import Check
from fedmerdel.study.study import Study

# Names and levels are shown as they are: brackets in them are no style.
screen = Console(markup=False, emoji=False, highlight=False)

STANDS_OUT = 1.2
"""A level is shown as a mark of a cluster if so many times as frequent as in all rows."""


PAYS = 1e-4
"""Nats a row that a round should gain to be worth the next."""

MOVES = {
    "split": "Clusters were split in what is sent out next: another round decides.",
    "delete": "A cluster was left out of what is sent out next: another round decides.",
    "merge": "Clusters were merged.",
    "taken back": "The replies were worse than what was known: the model is that of before.",
}

SCORES = {
    "site_weights": "the model's clusters, this site's shares",
    "model_weights": "the model's clusters, the model's shares",
    "own_clusters": "clusters found here",
}


def count(number: int, noun: str, nouns: str | None = None) -> str:
    """Return a number with its noun, in the plural but for one."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def show_next(command: str) -> None:
    """Show the command that comes next, on a line of its own to be copied."""
    screen.print(f"Next: {command}", soft_wrap=True)


def no_ledger() -> str:
    """Return what to say where nobody keeps count of what leaves."""
    return "No site file was given, so no ledger keeps count of what leaves: see fedmerdel site."


def show_check(found: Check, study: Study) -> None:
    """Show what a rehearsal found, but not the problems: these are an error."""
    variables = count(len(study.codebook.variables), "variable")
    screen.print(f"{count(found.n_rows, 'row')}, {variables} of the study")
    if found.ignored:
        screen.print(f"Not looked at, as the study does not name them: {_some(found.ignored)}")
    if study.weight is not None:
        screen.print(
            f"Weights of column {study.weight} sum to {found.total_weight:,.0f}, which the fit "
            f"takes for the number of rows; they tell as much as {found.effective_rows:,.0f} rows "
            "of equal weight (Kish)."
        )
    if study.row_id is None and study.policy.smallest > 1:
        screen.print(
            "Each row counts as a person: the table must have one row a person. Name a row_id in "
            "the study, and this is checked."
        )
    if found.missing:
        worst = sorted(found.missing.items(), key=lambda entry: -entry[1])
        listed = _some([f"{name} ({share:.1%})" for name, share in worst])
        screen.print(f"Missing entries in {count(len(worst), 'variable')}: {listed}")
    if found.rare:
        levels = count(sum(found.rare.values()), "level")
        screen.print(
            f"Under {study.policy.threshold} rows: {levels} of {_some(list(found.rare))}. Policy "
            f"{study.policy.name!r} releases them as 0."
        )
    if study.policy.smallest > 1:
        screen.print(told_text(found.told, study, "The site's totals can tell"))
    for name in found.rare_outcomes:
        screen.print(
            f"Outcome {name}: fewer than {study.policy.threshold} rows are in one of its cells. "
            f"Policy {study.policy.name!r} releases this count as 0 in every cluster."
        )


def told_text(told: float, study: Study, where: str) -> str:
    """Return how much of a site's table a policy lets survive, and what to do if it is little."""
    text = (
        f"{where} {told:.0%} of the entries (of levels but the most frequent one of each variable)."
    )
    if told < 0.5:
        text += (
            f" Policy {study.policy.name!r} hides most of this table: sums over all sites, a study "
            "with the promise 'sums', would tell more of it."
        )
    return text


def show_review(seen: Review, most_risk: float) -> None:
    """Show the tables that a person looks through before a summary leaves."""
    facts = Table(title="What would leave", title_justify="left", show_header=False)
    facts.add_column()
    facts.add_column(overflow="fold")
    for name, value in seen.facts:
        facts.add_row(name, value)
    sizes = _table("Clusters", "cluster", "rows", "share")
    for size in seen.sizes:
        sizes.add_row(str(size.cluster), f"{size.rows:,.0f}", f"{size.share:.1%}")
    smallest = _table("Smallest counts that are not 0", "count", "of", "level", "cluster")
    for cell in seen.smallest:
        smallest.add_row(
            f"{cell.rows:,.0f}",
            cell.what,
            cell.level,
            "all" if cell.cluster is None else str(cell.cluster),
        )
    contrasts = _table("What tells clusters apart", "variable", "level", "lowest", "highest")
    for contrast in seen.contrasts[:10]:
        contrasts.add_row(
            contrast.variable,
            contrast.level,
            f"{contrast.lowest:.0%} (cluster {contrast.lowest_cluster})",
            f"{contrast.highest:.0%} (cluster {contrast.highest_cluster})",
        )
    risks = _table("Who can be guessed to be in it", "cluster", "of 100 pairs", "smallest counts")
    for risk in seen.risks:
        risks.add_row(str(risk.cluster), f"{100 * risk.risk:.0f}", risk.rarest)
    screen.print(facts, sizes, risks)
    for sentence in in_words(seen.risks, most_risk):
        screen.print(sentence)
    screen.print(smallest, contrasts)


def show_earlier(number: int) -> None:
    """Show how many releases of the table have left before."""
    if number:
        screen.print(
            f"{count(number, 'other release')} of this table left before. The totals of the site "
            "are the same in each; what comparing clusters adds is not in the figures above: with "
            "exact counts 8 rounds raised 70 of 100 to 76, with counts rounded to 5 not at all."
        )


def show_validation(found: Validation) -> None:
    """Show what a validation says, in tables and sentences."""
    screen.print(
        f"Site {found.site}: {count(round(found.n_rows), 'row')}, in "
        f"{count(len(found.rows), 'cluster')} of the model"
    )
    scores = Table("log-score over that without clusters", "nats a row")
    for name, gain in found.gains.items():
        scores.add_row(SCORES[name], _text(gain))
    shares = Table("cluster", "share here", "share in the model")
    for k, (here, there) in enumerate(zip(found.shares, found.model_shares, strict=True)):
        shares.add_row(str(k), f"{here:.1%}", f"{there:.1%}")
    screen.print(scores, shares)
    carried = found.carried
    screen.print(
        "Clusters found here gain nothing to speak of, so there is nothing to carry over."
        if carried is None
        else f"Of what clusters found here gain, the model's gain {carried.value:.0%} (standard "
        f"error {carried.standard_error:.0%})."
    )
    screen.print(
        f"Agreement with {count(len(found.labels), 'cluster')} found here: adjusted Rand index "
        f"{found.adjusted_rand:.2f}."
    )
    if found.shift.df:
        statistic, df, p_value = found.shift
        screen.print(
            f"Shares other than the model's: chi-squared {statistic:.1f} on {df} df, p "
            + (f"= {p_value:.2g}." if p_value >= 1e-4 else "< 0.0001.")
        )


def show_clusters(model: ModelState, clusters: Sequence[Cluster]) -> None:
    """Show every cluster of a model, and how to read it."""
    rows = count(round(sum(cluster.rows for cluster in clusters)), "row")
    screen.print(
        f"{count(model.n_clusters, 'cluster')} of {rows} at {count(model.n_sites, 'site')}"
    )
    told = [model.study.label(name) for name in model.selected]
    screen.print(
        f"{len(told)} of {count(len(model.study.codebook.names), 'variable')} tell the clusters "
        f"apart: {_some(told)}"
    )
    guides = guide_rates(model)
    for cluster in clusters:
        rates = {f"{name} (guide)": each.clusters for name, each in guides.items()}
        _show_cluster(cluster, model.study, {name: r[cluster.number] for name, r in rates.items()})
    screen.print("\nmore of: share of the cluster's rows, and how many times that of all rows")
    for outcome in model.unexplained:
        screen.print(f"{outcome}: {UNEXPLAINED}")
    note = guides_note(model)
    if note is not None:
        screen.print(note)
    mechanism = mechanism_for(model.study.policy)
    if any(cluster.worth is not None for cluster in clusters):
        counts = " of the released counts" if mechanism.smallest > 1 else ""
        screen.print(
            f"worth: by how much the ELBO{counts} would fall without the cluster; asked of rows "
            "that the model makes up"
        )
    if mechanism.smallest > 1:
        screen.print(
            f"A count that a site told as 0 stands for {mechanism.zero}: intervals allow for it, "
            "and shares of levels are filled with what is expected of it."
        )
    if model.checks is not None:
        screen.print(f"Checked against the rows: {model.checks.verdict}")


def show_lone_clusters(federation: FederationState) -> None:
    """Show how many clusters each site alone has, if any."""
    shares: dict[str, list[float]] = {}
    for each in federation.lone_clusters:
        shares.setdefault(each.site, []).append(each.share)
    told = [
        f"{site} {count(len(parts), 'cluster')} ({sum(parts):.0%} of its rows)"
        for site, parts in sorted(shares.items())
    ]
    if told:
        screen.print(f"Found at one site only: {_some(told)}.")


def show_round(federation: FederationState) -> None:
    """Show what the last round brought, and whether another one would pay."""
    brought, rows = federation.record[-1], float(federation.site_rows.sum())
    told = f"Round {brought.number}: {count(federation.n_clusters, 'cluster')}"
    if brought.elbo is not None:
        told += f", ELBO {brought.elbo:,.1f} nats"
    gain = None if brought.gain is None else brought.gain / rows
    if gain is not None:
        told += f" ({gain:+.6f} a row)"
    screen.print(f"{told}. At least {brought.moved:.2%} of the rows changed cluster.")
    if brought.move:
        screen.print(MOVES[brought.move])
    if brought.stale:
        screen.print(f"No reply from {_some(brought.stale)}: carried with what they sent last.")
    if gain is not None and not brought.move and gain < PAYS:
        screen.print(f"Another round would change little: less than {PAYS:g} nats a row.")


def _show_cluster(cluster: Cluster, study: Study, guides: Mapping[str, Rate]) -> None:
    mean = cluster.mean_conditions
    conditions = "" if mean is None or isnan(mean) else f"; {mean:.1f} conditions a row"
    number = plain_name(cluster.number)
    title = number.capitalize() if cluster.name == number else f"{cluster.name} ({number})"
    screen.print(
        f"\n{title}: {count(round(cluster.rows), 'row')}, {cluster.share:.1%} of all{conditions}"
    )
    marks = [
        f"{study.label(c.variable)}={c.level} {c.prevalence:.0%} (x{c.ratio:.1f})"
        for c in cluster.levels
        if c.ratio >= STANDS_OUT and c.prevalence > 0.05 and not c.guide
    ]
    by_share = sorted(cluster.sites.items(), key=lambda entry: -entry[1])
    lines = {
        **{
            name: f"{rate.text(rate.share)} (95 % interval {rate.text(rate.low)} to "
            f"{rate.text(rate.high)})"
            + ("" if isnan(rate.counted) else f"; counted {rate.text(rate.counted)}")
            for name, rate in (*cluster.outcomes.items(), *guides.items())
        },
        **{
            f"odds if {effect.covariate} is {effect.level}": f"x {effect.text} against "
            f"{effect.against}, compared with {plain_name(effect.reference)}"
            for effect in cluster.effects
        },
        "more of": _some(marks, 6) if marks else "nothing stands out",
    }
    if cluster.not_measured:
        lines["not measured"] = _some([study.label(name) for name in cluster.not_measured])
    if cluster.worth is not None:
        lines["worth"] = f"about {cluster.worth:,.0f} nats (± {cluster.worth_error:,.0f})"
    if by_share:
        lines["at sites"] = _some([f"{name} {share:.0%}" for name, share in by_share], 8)
    width = max(len(name) for name in lines)
    block = Table.grid(padding=(0, 2, 0, 0))
    block.add_column(min_width=min(width, 20) + 2)
    block.add_column(overflow="fold")
    for name, text in lines.items():
        block.add_row(f"  {name}", text)
    screen.print(block)


def _some(names: Sequence[str], shown: int = 10) -> str:
    """List names, at most a few of them."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    return table


def _text(measured: Measured) -> str:
    return f"{measured.value:.3f} ± {measured.standard_error:.3f}"
