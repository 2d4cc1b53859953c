"""The command line: one command at each site, one at the centre, one more at each site."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from fedmerdel.errors import DataError, FedMerDelError, FedMerDelWarning, FileError
from fedmerdel.federation.search import Search
from fedmerdel.files import check_place
from fedmerdel.model.describe import Cluster, describe
from fedmerdel.model.folder import check_model_place
from fedmerdel.model.global_model import GlobalModel, merge_sites
from fedmerdel.records.draft import UnusableError, draft_study
from fedmerdel.release.folder import check_summary_place
from fedmerdel.release.note import review_tables
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.assign import assign
from fedmerdel.site.check import check_site
from fedmerdel.site.fit_site import prepare_release
from fedmerdel.site.labels_file import check_labels_place, write_labels
from fedmerdel.site.site_table import open_site_table, row_ids
from fedmerdel.study.protocol import Study

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""
    Find clusters of patients together, without any row leaving its site.

    The coordinating centre drafts a study, people review it, and every site gets the file:

        fedmerdel init example.csv -o study.toml

    Each site rehearses, fits, reads what would leave, and sends the folder:

        fedmerdel check study.toml patients.csv

        fedmerdel fit study.toml patients.csv --site leeds -o leeds/

        fedmerdel review leeds/

    The centre merges what it got, and sends the model back:

        fedmerdel merge study.toml leeds/ york/ hull/ -o model/

        fedmerdel describe model/

    Each site gives its own rows to the common clusters; this file stays there:

        fedmerdel assign model/ patients.csv --site leeds -o labels.csv
    """,
)
# Names and levels are shown as they are: brackets in them are no style.
screen = Console(markup=False, emoji=False, highlight=False)

STANDS_OUT = 1.2
"""A level is shown as a mark of a cluster if so many times as frequent as in all rows."""

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's TOML file.")]
TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file of rows.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a merged model.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads; the result is the same.")]


@app.command()
def init(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Rows, or a data dictionary.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The TOML file to write.")],
    name: Annotated[str | None, typer.Option(help="Name of the study.")] = None,
    outcome: Annotated[list[str] | None, typer.Option(help="Yes/no column to count.")] = None,
    row_id: Annotated[str | None, typer.Option(help="Column that identifies rows.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
) -> None:
    """Draft a study from a table, or from a data dictionary (variable, levels, label)."""
    if output.exists():
        raise FileError(f"file {str(output)!r} is there, perhaps corrected by hand: name another")
    check_place(output)
    try:
        study = draft_study(
            table, name=name, outcomes=outcome or (), row_id=row_id, exclude=exclude or ()
        )
    except UnusableError as error:
        raise DataError(error.advise("--exclude", "--outcome", "--row-id")) from None
    study.save(output)
    screen.print(
        f"Drafted {output}: {_count(len(study.codebook.variables), 'variable')}, policy "
        f"{study.policy.name!r}. Read it, correct it, and give it to every site."
    )
    _next(f"fedmerdel check {output} TABLE")


@app.command()
def check(study: StudyFile, table: TableFile) -> None:
    """Rehearse at a site: what fits, what would be refused, how small the cells are."""
    agreed = Study.load(study)
    with screen.status("looking"):
        found = check_site(agreed, table)
    variables = _count(len(agreed.codebook.variables), "variable")
    screen.print(f"{_count(found.n_rows, 'row')}, {variables} of the study")
    if found.ignored:
        screen.print(f"Not looked at, as the study does not name them: {_some(found.ignored)}")
    if found.missing:
        worst = sorted(found.missing.items(), key=lambda entry: -entry[1])
        listed = _some([f"{name} ({share:.1%})" for name, share in worst])
        screen.print(f"Missing entries in {_count(len(worst), 'variable')}: {listed}")
    if found.rare:
        levels = _count(sum(found.rare.values()), "level")
        screen.print(
            f"Under {agreed.policy.threshold} rows: {levels} of {_some(list(found.rare))}. Policy "
            f"{agreed.policy.name!r} releases them as 0."
        )
    for name in found.rare_outcomes:
        screen.print(
            f"Outcome {name}: fewer than {agreed.policy.threshold} rows have it, or are known not "
            f"to. Policy {agreed.policy.name!r} releases this count as 0 in every cluster."
        )
    if found.problems:
        raise DataError("; ".join(found.problems))
    screen.print("The table fits the study. Nothing was written.")
    _next(f"fedmerdel fit {study} {table} --site NAME -o FOLDER")


@app.command()
def fit(
    study: StudyFile,
    table: TableFile,
    site: Annotated[str, typer.Option(help="Name of this site.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder, or .zip, to write.")],
    threads: Threads = 1,
) -> None:
    """Fit this site's rows and write what may leave: a folder to review and send."""
    agreed = Study.load(study)
    check_summary_place(output)
    released = prepare_release(agreed, table, site, n_jobs=threads, verbose=screen.is_terminal)
    released.summary.save(output)
    changes = released.changes
    screen.print(
        f"{_count(released.summary.n_clusters, 'cluster')} written to {output}. Disclosure control "
        f"changed {_count(changes.changed, 'count')}, by {changes.largest_change:,.0f} rows at "
        f"most, and costs {changes.cost_per_row:.4f} nats of ELBO a row. These three numbers are "
        "for you; they are not in what you send."
    )
    _next(f"fedmerdel review {output}")


@app.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `fit` wrote.")],
) -> None:
    """Show what would leave the site, in plain words and tables."""
    seen = review_tables(SiteSummary.load(folder))
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
        smallest.add_row(f"{cell.rows:,.0f}", cell.what, cell.level, str(cell.cluster))
    contrasts = _table("What tells clusters apart", "variable", "level", "lowest", "highest")
    for contrast in seen.contrasts[:10]:
        contrasts.add_row(
            contrast.variable,
            contrast.level,
            f"{contrast.lowest:.0%} (cluster {contrast.lowest_cluster})",
            f"{contrast.highest:.0%} (cluster {contrast.highest_cluster})",
        )
    screen.print(facts, sizes, smallest, contrasts)
    screen.print(
        "No row is inside. The files say the same; README.txt explains them. If you agree that "
        f"this may leave, send {folder} to the coordinating centre."
    )


@app.command()
def merge(
    study: StudyFile,
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="From the sites.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the model.")],
    search: Annotated[Search, typer.Option(help="How clusters are merged.")] = "exact",
) -> None:
    """Merge the clusters of all sites at the coordinating centre."""
    agreed = Study.load(study)
    check_model_place(output)
    with screen.status(f"merging {_count(len(folders), 'site')}"):
        model = merge_sites(agreed, [SiteSummary.load(folder) for folder in folders], search)
        model.save(output)
    screen.print(
        f"{_count(len(model.lineage), 'local cluster')} of {_count(len(model.sites), 'site')} "
        f"became {_count(model.n_clusters, 'cluster')}. The model is in {output}: send it to the "
        "sites."
    )
    _next(f"fedmerdel describe {output}")


@app.command(name="assign")
def assign_rows(
    model: ModelFolder,
    table: TableFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV or Parquet to write.")],
    site: Annotated[str | None, typer.Option(help="Name of this site, if it took part.")] = None,
    threads: Threads = 1,
) -> None:
    """Give this site's rows to the common clusters. The labels stay at the site."""
    if output.exists() and table.exists() and output.samefile(table):
        raise FileError(f"file {str(output)!r} is the table itself: name another for the labels")
    check_labels_place(output)
    merged = GlobalModel.load(model)
    with screen.status("assigning"):
        opened = open_site_table(table)
        assigned = assign(merged, opened, site, n_jobs=threads)
        write_labels(output, assigned, row_ids(merged.study, opened), merged.study.row_id)
    sure = (assigned.probabilities.max(axis=1) > 0.8).mean()
    screen.print(
        f"{_count(len(assigned.labels), 'row')} assigned, {sure:.0%} with a probability above 0.8. "
        f"{output} holds a line a row: it stays here."
    )


@app.command(name="describe")
def describe_model(model: ModelFolder) -> None:
    """Show the common clusters: sizes, what marks them, outcomes, sites."""
    merged = GlobalModel.load(model)
    described = describe(merged)
    rows = _count(round(sum(cluster.rows for cluster in described)), "row")
    screen.print(
        f"{_count(merged.n_clusters, 'cluster')} of {rows} at {_count(len(merged.sites), 'site')}; "
        f"search {merged.search!r}, global ELBO {merged.lower_bound:,.1f} nats"
    )
    for cluster in described:
        _show_cluster(cluster, merged.study)
    smallest = merged.study.policy.smallest
    screen.print(
        "\nmore of: share of the cluster's rows, and how many times that of all rows"
        "\nat sites: share of the site's rows that are in the cluster"
    )
    if smallest > 1:
        screen.print(
            f"A site's counts under {smallest} came as 0: the intervals allow for it, shares of "
            "levels near 0% may be higher."
        )


def _show_cluster(cluster: Cluster, study: Study) -> None:
    mean = cluster.mean_conditions
    conditions = "" if mean is None else f"; {mean:.1f} conditions a row"
    screen.print(
        f"\nCluster {cluster.number}: {_count(round(cluster.rows), 'row')}, "
        f"{cluster.share:.1%} of all{conditions}"
    )
    marks = [
        f"{study.label(c.variable)}={c.level} {c.prevalence:.0%} (x{c.ratio:.1f})"
        for c in cluster.conditions
        if c.ratio >= STANDS_OUT and c.prevalence > 0.05
    ]
    by_share = sorted(cluster.sites.items(), key=lambda entry: -entry[1])
    lines = {
        **{
            name: f"{rate.share:.1%} (95% interval {rate.low:.1%} to {rate.high:.1%})"
            for name, rate in cluster.outcomes.items()
        },
        "more of": _some(marks, 6) if marks else "nothing stands out",
        "at sites": _some([f"{name} {share:.0%}" for name, share in by_share], 8),
    }
    width = max(len(name) for name in lines)
    block = Table.grid(padding=(0, 2, 0, 0))
    block.add_column(min_width=min(width, 20) + 2)
    block.add_column(overflow="fold")
    for name, text in lines.items():
        block.add_row(f"  {name}", text)
    screen.print(block)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _some(names: Sequence[str], shown: int = 10) -> str:
    """List names, at most a few of them."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _next(command: str) -> None:
    """Show the command that comes next, on a line of its own to be copied."""
    screen.print(f"Next: {command}", soft_wrap=True)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    return table


def main() -> None:
    """Run a command; an error is one line on standard error, and exit code 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FedMerDelWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
        try:
            # Without arguments, the guide.
            code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
        except FedMerDelError as error:
            _stop(str(error))
        except Exception as error:
            # Of typer's own errors; the text of any other may quote a row: the type must do.
            told = getattr(error, "format_message", None)
            _stop(told() if told else f"internal ({type(error).__name__}): please report it")
        if code:  # a key stopped it
            _stop("stopped before the end", code)


def _stop(message: str, code: int = 2) -> NoReturn:
    print(f"error: {' '.join(message.splitlines())}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
