"""Commands at a site: where the rows are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated
from warnings import catch_warnings

import typer

from fedmerdel.bundles import read_files
from fedmerdel.commands.arguments import (
    KeyFile,
    ModelFolder,
    Output,
    Replace,
    RowsChanged,
    SiteName,
    SomeTable,
    StudyOrSite,
    TableFile,
    TableOrSite,
    Threads,
)
from fedmerdel.commands.screen import (
    count,
    no_ledger,
    screen,
    show_check,
    show_earlier,
    show_next,
    show_review,
    show_validation,
    told_text,
)
from fedmerdel.errors import DataError, FileError, OptionError, RareLevelWarning
from fedmerdel.files import check_earlier, check_place, write_text
from fedmerdel.inference.check_counts import SURE
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.draft import UnusableError, draft_study
from fedmerdel.release.reply import Reply, read_release
from fedmerdel.release.review import review_tables
from fedmerdel.release.review_page import write_review
from fedmerdel.release.risk import MUCH
from fedmerdel.release.summary import SiteSummary
from fedmerdel.release.validation import Validation
from fedmerdel.report.page import check_page_place
from fedmerdel.site.assign import assign
from fedmerdel.site.labels_file import check_labels_place, write_labels
from fedmerdel.site.ledger import Ledger, table_digest
from fedmerdel.site.own_site import Site, open_site, prepare_fit_of, prepare_reply_of
from fedmerdel.site.release import Release
from fedmerdel.site.site_file import SiteFile, is_site_file
from fedmerdel.site.site_table import open_site_table, row_ids
from fedmerdel.study.codebook import Missing


def init(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Rows, or a data dictionary.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The TOML file to write.")],
    name: Annotated[str | None, typer.Option(help="Name of the study.")] = None,
    outcome: Annotated[list[str] | None, typer.Option(help="Yes/no column to count.")] = None,
    covariate: Annotated[
        list[str] | None, typer.Option(help="Column that membership may depend on.")
    ] = None,
    guide: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=WEIGHT", help="Outcome that helps to find clusters."),
    ] = None,
    row_id: Annotated[str | None, typer.Option(help="Column that identifies rows.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    missing: Annotated[Missing, typer.Option(help="What missing entries are.")] = "ignore",
    rounds: Annotated[int, typer.Option(min=0, help="Rounds that sites reply in at most.")] = 0,
    trusts_centre: Annotated[
        bool, typer.Option("--trusts-centre", help="All sites trust the centre, for rounds.")
    ] = False,
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
            covariates=covariate or (),
            guide=dict(map(_guide, guide or ())),
            row_id=row_id,
            weight=weight,
            exclude=exclude or (),
            missing=missing,
            rounds=rounds,
            trusts_centre=trusts_centre,
        )
    except UnusableError as error:
        raise DataError(error.advise("--exclude", "--outcome", "--row-id")) from None
    study.save(output)
    screen.print(
        f"Drafted {output}: {count(len(study.codebook.variables), 'variable')}, policy "
        f"{study.policy.name!r}. Read it, correct it, and give it to every site."
    )
    show_next(f"fedmerdel check {output} TABLE")


def _guide(given: str) -> tuple[str, float]:
    name, _, weight = given.rpartition("=")
    try:
        return name, float(weight)
    except ValueError:
        raise OptionError(
            "--guide: give the name of a column and its weight, as in died=0.5"
        ) from None


def check(study: StudyOrSite, table: SomeTable = None) -> None:
    """Rehearse at a site: what fits, what would be refused, how small the cells are."""
    here = open_site(study, table, None if is_site_file(study) else "NAME")
    with screen.status("looking"):
        found = here.check()
    show_check(found, here.study)
    if found.problems:
        raise DataError("; ".join(found.problems))
    screen.print("The table fits the study. Nothing was written.")
    rest = f"{study} {table} --site NAME" if here.ledger is None else f"{study}"
    if here.ledger is None and here.study.site_keys:
        rest += " --key FILE"
    show_next(f"fedmerdel fit {rest} -o FOLDER")


def fit(
    study: StudyOrSite,
    output: Output,
    table: SomeTable = None,
    site: SiteName = None,
    key: KeyFile = None,
    threads: Threads = 1,
    replace: Replace = False,
    rows_changed: RowsChanged = False,
) -> None:
    """Fit this site's rows and write what may leave: a folder to review and send."""
    here = open_site(study, table, site, key)
    SiteSummary.check_place(output, replace=replace, site=here.name, study_hash=here.study.hash)
    released = prepare_fit_of(here, rows_changed, n_jobs=threads, verbose=screen.is_terminal)
    released.summary.save(output, replace=replace)
    _show_release(here, released, count(released.summary.n_clusters, "cluster"), output)


def review(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What a site wrote.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="HTML file to write, with pictures.")
    ] = None,
    site_file: Annotated[
        Path | None, typer.Option("--site-file", help="The site's file, with its limit of risk.")
    ] = None,
) -> None:
    """Show what would leave the site, in plain words and tables."""
    if html is not None:
        check_page_place(html)
    where = f"{str(folder)!r}"
    files = read_files(folder, where)
    if Validation.DOCUMENT in files:
        if html is not None:
            raise OptionError("--html: a validation has no pictures: leave it out")
        show_validation(Validation.read(files, f"validation {where}"))
    else:
        summary = read_release(files, where)
        if html is not None:
            write_review(summary, html)
        agreed = None if site_file is None else SiteFile.load(site_file)
        most = None if agreed is None else agreed.most_risk
        show_review(review_tables(summary), MUCH if most is None else most)
        if agreed is not None:
            own = hashlib.sha256(summary.to_bytes()).hexdigest()
            show_earlier(Ledger(agreed.home).others(table_digest(agreed.table), own))
        if html is not None:
            screen.print(f"The same with pictures is in {html}: open it in a browser.")
    screen.print(
        "No row is inside. The files say the same; README.txt explains them. If you agree that "
        f"this may leave, send {folder} to the coordinating centre."
    )


def reply(
    study: StudyOrSite,
    broadcast: Annotated[
        Path, typer.Argument(metavar="BROADCAST", help="Folder that the centre sent.")
    ],
    output: Output,
    table: SomeTable = None,
    site: SiteName = None,
    key: KeyFile = None,
    threads: Threads = 1,
    replace: Replace = False,
    rows_changed: RowsChanged = False,
) -> None:
    """Reply to a broadcast: count this site's rows in its clusters, to make them better."""
    here = open_site(study, table, site, key)
    sent = Broadcast.load(broadcast)
    own = {"site": here.name, "study_hash": here.study.hash, "broadcast": sent.hash}
    Reply.check_place(output, replace=replace, **own)
    with screen.status("counting"):
        released = prepare_reply_of(here, sent, rows_changed, n_jobs=threads)
        released.summary.save(output, replace=replace)
    _show_release(here, released, f"Reply of round {sent.number}", output)


def _show_release(here: Site, released: Release, what: str, output: Path) -> None:
    changes = released.changes
    told = told_text(changes.told, here.study, "Counts of clusters tell")
    if here.ledger is None:
        screen.print(no_ledger())
    screen.print(
        f"{what} written to {output}. Disclosure control changed "
        f"{count(changes.changed, 'count')}, by {changes.largest_change:,.0f} rows at most, and "
        f"costs {changes.cost_per_row:.4f} nats of ELBO a row. {told} These numbers are for you; "
        "they are not in what you send."
    )
    if here.agreed is not None and here.agreed.approve == "person":
        screen.print("A person must agree before it leaves.")
    show_next(f"fedmerdel review {output}")


def assign_rows(
    model: ModelFolder,
    table: TableOrSite,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV or Parquet to write.")],
    threads: Threads = 1,
) -> None:
    """Give this site's rows to the common clusters. The labels stay at the site."""
    here = Site.load(table) if table.suffix.lower() == ".toml" else None
    if here is not None:
        table = here.table
    if output.exists() and table.exists() and output.samefile(table):
        raise FileError(f"file {str(output)!r} is the table itself: name another for the labels")
    check_labels_place(output)
    merged = GlobalModel.load(model)
    if here is not None:
        here.check_model(merged)
    with screen.status("assigning"):
        opened = open_site_table(table)
        assigned = assign(merged, opened, n_jobs=threads)
        write_labels(output, assigned, row_ids(merged.study, opened), merged.study.row_id)
    sure = (assigned.probabilities.max(axis=1) > SURE).mean()
    screen.print(
        f"{count(len(assigned.labels), 'row')} assigned, {sure:.0%} with a probability above "
        f"{SURE}. {output} holds a line a row: it stays here."
    )


def models(
    table: TableFile,
    k: Annotated[str, typer.Option("--k", help="Numbers of classes.")] = "1-8",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="CSV to write.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Column to leave out.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same gives the same.")] = 0,
    threads: Threads = 1,
) -> None:
    """Compare latent class models of one table by BIC and the like. No row is in the result."""
    # scikit-learn is slow to import
    from fedmerdel.estimators.model_table import is_model_table, model_table

    first, _, last = k.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise OptionError("--k: give a number of classes, or the first and last such as 1-8")
    numbers = range(int(first), int(last or first) + 1)
    if output is not None:
        check_place(output)
        check_earlier(output, "table of models", is_model_table)
    opened = open_site_table(table)
    try:
        with catch_warnings(action="ignore", category=RareLevelWarning):  # no study is written
            codebook = draft_study(opened, exclude=exclude or ()).codebook
    except UnusableError as error:
        raise DataError(
            f"{error.found}: leave out with --exclude, or cut or group the values first"
        ) from None
    rows = opened.select(codebook.names)
    with screen.status("fitting"):
        found = model_table(rows, numbers, n_jobs=threads, random_state=seed, codebook=codebook)
    screen.print(str(found), soft_wrap=True)
    if output is not None:
        write_text(output, found.to_csv())
