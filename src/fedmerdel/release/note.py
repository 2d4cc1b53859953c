"""A summary in plain words: the note for an output checker."""

from __future__ import annotations

import textwrap

from fedmerdel.release.summary import SiteSummary

WIDTH = 88

REPLY = (
    "This is a reply: the clusters are those that the coordinating centre has sent (number "
    "answers in summary.json), and these are the site's counts in them. The same rows were "
    "counted in other clusters before, so an earlier release may be compared with this one. "
    "Evidence in summary.json is how well the clusters explain all rows of the site, as one number."
)

REPLY_COLUMNS = (
    " Column cost is what the rows would lose without the cluster, and column blur how blurred "
    "the border between its halves is, in the same unit."
)


def checkers_note(summary: SiteSummary) -> str:
    """Return the text of ``README.txt``."""
    report = summary.report
    title = f"Summary of site {summary.site!r} for a federated cluster analysis"
    rows, T = count_text(summary.n_rows), summary.statistics.T
    told_halves = summary.answer is not None and summary.answer.prospects is not None
    files = [
        (
            "counts.csv",
            "The first line has the number of rows of each cluster. Every other line has the "
            "number of these rows at one level of one variable, or with no entry there "
            "(missing). For each variable, the lines sum to the first line.",
        ),
        (
            "overlap.csv",
            "How blurred the border between two clusters is, summed over all rows (in nats; a "
            "row half in one and half in the other adds 0.69). Column h is the same for one "
            "cluster against all others, as a negative number."
            + (REPLY_COLUMNS if told_halves else ""),
        ),
        (
            "summary.json",
            "Names of site, study and software, the list of variables and levels that the study "
            "gave to all sites, how well the clusters fit as one number (elbo, computed from the "
            "released counts), the variables that tell clusters apart if the study asks for "
            "them (selected), and the account of disclosure control.",
        ),
    ]
    if summary.outcomes:
        files.insert(
            2,
            (
                "outcomes.csv",
                "The number of rows of each cluster with an outcome that the study names "
                "(positive), and for which it is known (observed).",
            ),
        )
    if told_halves:
        files.insert(
            1,
            (
                "halves.csv",
                "The same counts for one half of each cluster, cut where its rows differ most; "
                "what is missing to counts.csv is the other half.",
            ),
        )
    parts = [
        title + "\n" + "=" * len(title),
        _wrap(
            f"These files hold sums over groups of rows. There is no row, no identifier, no date "
            f"and no free text of a person inside. {rows} rows are described by "
            f"{_clusters(int((T > 0).sum()))}, the smallest of {count_text(T[T > 0].min())} "
            "rows. A cluster is a group of rows with similar entries, found by a statistical "
            "model; a row may belong to several in part, so counts are sums of parts."
        ),
        *([_wrap(REPLY)] if summary.answer is not None else []),
        "Files\n-----",
        *(f"{name}\n{_wrap(text, '  ')}" for name, text in files),
        "Disclosure control\n------------------",
        _wrap(_what_was_done(summary)),
        _wrap(
            f"Of {report.n_cells} counts that are told here, or follow by subtraction, "
            f"{report.n_zero} are 0 and the smallest other is "
            f"{count_text(report.smallest_cell)}. A 0 means: {zero_text(summary)}. Clusters too "
            f"small to be told: {report.absorbed} absorbed (their rows count in other clusters), "
            f"{report.withheld} withheld (their rows are "
            "not in these files)."
        ),
        _wrap(
            f"Policy: {policy_text(summary)}. Software: {summary.software}. "
            f"Study: {summary.study_hash}."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _what_was_done(summary: SiteSummary) -> str:
    report = summary.report
    if report.smallest == 0:
        return (
            "None: the study sets no rule, and the numbers are as they are, with their decimals. "
            "This is meant for simulated and public tables only."
        )
    step = f"multiples of {report.rounding}" if report.rounding > 1 else "whole numbers"
    return (
        f"Every count is 0 or at least {report.smallest}, and so is every sum of counts within "
        "a variable, and what it leaves of the cluster's rows. Counts below "
        f"{max(report.threshold, 1)} were set to 0 and their rows added to the variable's largest "
        "count in the same cluster; a count had to pass twice, as a sum of parts and with each "
        f"row counted whole that belongs to the cluster by a tenth at least. Counts are {step}. "
        "Overlaps are rounded up, and column h towards 0, in steps that stand for as many rows as "
        "the smallest count."
    )


def policy_text(summary: SiteSummary) -> str:
    """Return the policy in words."""
    report = summary.report
    if report.smallest == 0:
        return f"{report.policy}, no rule"
    rounding = f"rounded to {report.rounding}" if report.rounding > 1 else "whole numbers"
    return f"{report.policy}, no count from 1 to {report.smallest - 1}, {rounding}"


def zero_text(summary: SiteSummary) -> str:
    """Return what a 0 stands for."""
    smallest = summary.report.smallest
    return f"0 to {smallest - 1} rows" if smallest > 1 else "no rows"


def count_text(rows: float) -> str:
    """Return a count as people write it."""
    return f"{rows:,.0f}" if float(rows).is_integer() else f"{rows:,.4g}"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def _clusters(number: int) -> str:
    return f"{number} cluster{'' if number == 1 else 's'}"
