"""The command line: one command at each site, one at the centre, one more at each site."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedmerdel.cli_text import (
    count,
    screen,
    show_check,
    show_exchange,
    show_model,
    show_next,
    show_review,
)
from fedmerdel.errors import DataError, FedMerDelError, FedMerDelWarning, FileError, OptionError
from fedmerdel.federation.search import Search
from fedmerdel.files import check_place, write_text
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.folder import check_model_place
from fedmerdel.model.global_model import GlobalModel, merge_sites
from fedmerdel.model.onto import merge_onto
from fedmerdel.records.draft import UnusableError, draft_study
from fedmerdel.release.folder import check_summary_place
from fedmerdel.release.review import review_tables
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.assign import assign
from fedmerdel.site.check import check_site
from fedmerdel.site.fit_site import Release, prepare_release
from fedmerdel.site.labels_file import check_labels_place, write_labels
from fedmerdel.site.site_table import open_site_table, row_ids
from fedmerdel.site.update import prepare_update
from fedmerdel.study.codebook import Missing
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

    For a model as good as one of pooled rows, exchange again, as often as it pays:

        fedmerdel update model/ patients.csv --site leeds -o leeds-1/

        fedmerdel merge study.toml leeds-1/ york-1/ hull-1/ --onto model/ -o model-1/

    Each site gives its own rows to the common clusters; this file stays there:

        fedmerdel assign model/ patients.csv --site leeds -o labels.csv
    """,
)

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
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    missing: Annotated[Missing, typer.Option(help="What missing entries are.")] = "ignore",
) -> None:
    """Draft a study from a table, or from a data dictionary (variable, levels, label)."""
    if output.exists():
        raise FileError(f"file {str(output)!r} is there, perhaps corrected by hand: name another")
    check_place(output)
    try:
        study = draft_study(
            table,
            name=name,
            outcomes=outcome or (),
            row_id=row_id,
            weight=weight,
            exclude=exclude or (),
            missing=missing,
        )
    except UnusableError as error:
        raise DataError(error.advise("--exclude", "--outcome", "--row-id")) from None
    study.save(output)
    screen.print(
        f"Drafted {output}: {count(len(study.codebook.variables), 'variable')}, policy "
        f"{study.policy.name!r}. Read it, correct it, and give it to every site."
    )
    show_next(f"fedmerdel check {output} TABLE")


@app.command()
def check(study: StudyFile, table: TableFile) -> None:
    """Rehearse at a site: what fits, what would be refused, how small the cells are."""
    agreed = Study.load(study)
    with screen.status("looking"):
        found = check_site(agreed, table)
    show_check(found, agreed)
    if found.problems:
        raise DataError("; ".join(found.problems))
    screen.print("The table fits the study. Nothing was written.")
    show_next(f"fedmerdel fit {study} {table} --site NAME -o FOLDER")


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
    _show_release(released, count(released.summary.n_clusters, "cluster"), output)


@app.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `fit` wrote.")],
) -> None:
    """Show what would leave the site, in plain words and tables."""
    show_review(review_tables(SiteSummary.load(folder)))
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
    onto: Annotated[Path | None, typer.Option(help="Model that the sites reply to.")] = None,
) -> None:
    """Merge the clusters of all sites at the coordinating centre, or their replies to a model."""
    agreed = Study.load(study)
    check_model_place(output)
    if onto is not None:
        if search != "exact":
            raise OptionError("--search: it is for the first merge, and has no use with --onto")
        _merge_onto(agreed, folders, onto, output)
        return
    with screen.status(f"merging {count(len(folders), 'site')}"):
        model = merge_sites(agreed, [SiteSummary.load(folder) for folder in folders], search)
        model.save(output)
    screen.print(
        f"{count(len(model.lineage), 'local cluster')} of {count(len(model.sites), 'site')} "
        f"became {count(model.n_clusters, 'cluster')}. The model is in {output}, with what each "
        "site sent: if all of them may see that, send it to the sites."
    )
    show_next(f"fedmerdel describe {output}")


def _merge_onto(agreed: Study, folders: list[Path], onto: Path, output: Path) -> None:
    """Take the sites' replies into the next model."""
    with screen.status(f"merging {count(len(folders), 'reply', 'replies')}"):
        last = GlobalModel.load(onto)
        if last.study.hash != agreed.hash:
            raise DataError(
                f"folder {str(onto)!r}: the model is of another study than {agreed.name!r}"
            )
        model = merge_onto(last, [SiteSummary.load(folder) for folder in folders])
        model.save(output)
    show_exchange(model)
    screen.print(
        f"The model is in {output}; {output / 'broadcast'} is all that sites need for another "
        "exchange, and holds no site's counts."
    )
    show_next(f"fedmerdel describe {output}")


@app.command()
def update(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a model, or its part broadcast/.")
    ],
    table: TableFile,
    site: Annotated[str, typer.Option(help="Name of this site.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder, or .zip, to write.")],
    threads: Threads = 1,
) -> None:
    """Reply to a model: count this site's rows in its clusters, to make the next one better."""
    check_summary_place(output)
    sent = Broadcast.load(model)
    with screen.status("counting"):
        released = prepare_update(sent, table, site, n_jobs=threads)
        released.summary.save(output)
    _show_release(released, f"Reply for exchange {sent.number}", output)


def _show_release(released: Release, what: str, output: Path) -> None:
    changes = released.changes
    screen.print(
        f"{what} written to {output}. Disclosure control changed "
        f"{count(changes.changed, 'count')}, by {changes.largest_change:,.0f} rows at most, and "
        f"costs {changes.cost_per_row:.4f} nats of ELBO a row. These three numbers are for you; "
        "they are not in what you send."
    )
    show_next(f"fedmerdel review {output}")


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
        f"{count(len(assigned.labels), 'row')} assigned, {sure:.0%} with a probability above 0.8. "
        f"{output} holds a line a row: it stays here."
    )


@app.command(name="describe")
def describe_model(model: ModelFolder) -> None:
    """Show the common clusters: sizes, what marks them, outcomes, sites."""
    show_model(GlobalModel.load(model))


@app.command()
def models(
    table: TableFile,
    k: Annotated[str, typer.Option("--k", help="Numbers of classes.")] = "1-8",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="CSV to write.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same gives the same.")] = 0,
    threads: Threads = 1,
) -> None:
    """Compare latent class models of one table by BIC and the like. No row is in the result."""
    from fedmerdel.estimators.model_table import model_table  # scikit-learn is slow to import

    first, _, last = k.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise OptionError("--k: give a number of classes, or the first and last such as 1-8")
    numbers = range(int(first), int(last or first) + 1)
    if output is not None:
        check_place(output)
        if output.exists() and table.exists() and output.samefile(table):
            raise FileError(f"file {str(output)!r} is the table itself: name another")
    try:
        codebook = draft_study(table, exclude=exclude or ()).codebook
    except UnusableError as error:
        raise DataError(
            f"{error.found}: leave out with --exclude, or cut or group the values first"
        ) from None
    rows = open_site_table(table).columns(codebook.names)
    with screen.status("fitting"):
        found = model_table(rows, numbers, n_jobs=threads, random_state=seed, codebook=codebook)
    screen.print(str(found), soft_wrap=True)
    if output is not None:
        write_text(output, found.to_csv())


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
