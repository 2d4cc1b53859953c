"""A summary in plain words: the note for an output checker."""

from __future__ import annotations

import textwrap

from fedmerdel.release.account import Account
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.sums.sums import Sums

WIDTH = 88

REPLY = (
    "This is a reply: the clusters are those that the coordinating centre has sent (broadcast in "
    "reply.json), and these are the site's counts in them. The same rows were counted in other "
    "clusters before, so an earlier release may be compared with this one. Evidence in "
    "reply.json is how well the clusters explain all rows of the site, as one number."
)

CHECKS = (
    "Tables of the whole site, with which the model is checked: rows by their number of "
    "conditions, by how sure their cluster is, and by their most probable cluster (own, and the "
    "sum of its probabilities, belonging); and rows by two variables at a time. A table of two "
    "variables sums to the site's rows at each level of both, and is the same in every release. "
    "One of zeros alone could not be made to add up, and tells nothing."
)

REPLY_COLUMNS = (
    " Column cost is what the rows would lose without the cluster, and column blur how blurred "
    "the border between its halves is, in the same unit."
)


def checkers_note(
    sums: Sums,
    account: Account,
    mechanism: Mechanism,
    *,
    site: str,
    made_by: str,
    study_hash: str,
    document: str,
    rest: int | None,
    reply: bool = False,
    moves: bool = False,
    checks: bool = False,
) -> str:
    """Return the text of ``README.txt``.

    Parameters
    ----------
    sums, account, mechanism
        What leaves, what disclosure control did, and how.
    site, made_by, study_hash : str
        Whose it is, of which software and study.
    document : str
        The file that says all this too.
    rest : int or None
        The cluster that is what the others leave of the site's totals.
    reply, moves, checks : bool
        Whether it replies to a broadcast, tells of moves, and has tables to check the model with.
    """
    title = f"{'Reply' if reply else 'Summary'} of site {site!r} for a federated cluster analysis"
    rows, T = count_text(sums.T.sum()), sums.T
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
            "cluster against all others, as a negative number." + (REPLY_COLUMNS if moves else ""),
        ),
        (
            document,
            "Names of site, study and software, the list of variables and levels that the study "
            "gave to all sites, the variables that tell clusters apart if the study asks for them "
            "(selected), and the account of disclosure control.",
        ),
    ]
    if sums.outcomes:
        files.insert(
            2,
            (
                "outcomes.csv",
                "The number of rows of each cluster in each cell of what the study counts beside "
                "its variables; a number is in three cells by parts. Rows of which it is not known "
                "are in none.",
            ),
        )
    if moves:
        files.insert(
            1,
            (
                "halves.csv",
                "The same counts for one half of each cluster, cut where its rows differ most; "
                "what is missing to counts.csv is the other half.",
            ),
        )
    if checks:
        files.insert(len(files) - 1, ("checks.csv", CHECKS))
    parts = [
        title + "\n" + "=" * len(title),
        wrap(
            f"These files hold sums over groups of rows. There is no row, no identifier, no date "
            f"and no free text of a person inside. {rows} rows are described by "
            f"{_clusters(int((T > 0).sum()))}, the smallest of {count_text(T[T > 0].min())} "
            "rows. A cluster is a group of rows with similar entries, found by a statistical "
            "model; a row may belong to several in part, so counts are sums of parts."
        ),
        *([wrap(REPLY)] if reply else []),
        "Files\n-----",
        *(f"{name}\n{wrap(text, '  ')}" for name, text in files),
        "Disclosure control\n------------------",
        wrap(mechanism.done),
        wrap(
            f"Of {account.n_cells} counts that are told here, or follow by subtraction, "
            f"{account.n_zero} are 0 and the smallest other is "
            f"{count_text(account.smallest_cell)}. A 0 means: {mechanism.zero}."
            + (
                f" Cluster {rest} is what the others leave of the site's totals."
                if rest is not None
                else ""
            )
        ),
        wrap(
            f"Policy: {account.policy}, {mechanism.rule}. Software: {made_by}. Study: {study_hash}."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def count_text(rows: float) -> str:
    """Return a count as people write it."""
    return f"{rows:,.0f}" if float(rows).is_integer() else f"{rows:,.4g}"


def wrap(text: str, indent: str = "") -> str:
    """Return a paragraph in lines."""
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def _clusters(number: int) -> str:
    return f"{number} cluster{'' if number == 1 else 's'}"
