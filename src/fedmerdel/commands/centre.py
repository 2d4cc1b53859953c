"""Commands at the centre: it has what sites sent, and no row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedmerdel.centre.federation import Federation, merge_sites
from fedmerdel.centre.place import FILE, check_centre_place
from fedmerdel.commands.arguments import CentreFolder, KeyFile, ModelFolder, Replace, StudyFile
from fedmerdel.commands.screen import (
    count,
    screen,
    show_clusters,
    show_lone_clusters,
    show_next,
    show_round,
)
from fedmerdel.errors import OptionError
from fedmerdel.keys import signer
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.names_file import NUMBER, read_names
from fedmerdel.release.reply import load_release
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.page import check_page_place
from fedmerdel.study.study import Study
from fedmerdel.sums.search import Search

CENTRE = "the centre"
"""What messages call it."""

Output = Annotated[Path, typer.Option("-o", "--output", help="The centre's folder to write.")]


def merge(
    study: StudyFile,
    summaries: Annotated[list[Path], typer.Argument(metavar="SUMMARY...", help="From the sites.")],
    output: Output,
    search: Annotated[Search, typer.Option(help="How clusters are merged.")] = "auto",
    key: KeyFile = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="SITE", help="Site to merge without; may be given again."),
    ] = None,
    replace: Replace = False,
) -> None:
    """Merge the clusters of all sites at the coordinating centre."""
    agreed = Study.load(study)
    secret = signer(key, agreed.centre_key, CENTRE)
    check_centre_place(output)
    with screen.status(f"merging {count(len(summaries), 'site')}"):
        sent = _without([load_release(path) for path in summaries], leave_out or [])
        federation = merge_sites(agreed, sent, search)
        if (output / "names.csv").exists():
            # Of an earlier merge in the same place, where they still fit.
            before = Federation.load(output)
            if before.study.hash == agreed.hash and not before.record:
                federation = federation.named_as(before)
        federation.save(output, replace=replace, key=secret)
    screen.print(
        f"{count(len(federation.lineage), 'local cluster')} of "
        f"{count(len(federation.sites), 'site')} became "
        f"{count(federation.n_clusters, 'cluster')}. {output} stays here: it has what each site "
        f"sent. {output / 'model'} may be sent to the sites, and has no site's counts."
    )
    if leave_out:
        screen.print(f"Left out, as asked for: {', '.join(sorted(set(leave_out)))}.")
    show_lone_clusters(federation)
    show_next(f"fedmerdel describe {output}")


def _without(sent: list[SiteSummary], left_out: list[str]) -> list[SiteSummary]:
    """Return what sites sent without those that are to be left out."""
    names = {summary.site for summary in sent}
    for site in left_out:
        if site not in names:
            raise OptionError(
                f"--leave-out: no summary is of site {site!r}; they are of "
                f"{', '.join(sorted(names))}"
            )
    return [summary for summary in sent if summary.site not in left_out]


def step(
    centre: CentreFolder,
    replies: Annotated[list[Path], typer.Argument(metavar="REPLY...", help="From the sites.")],
    output: Output,
    key: KeyFile = None,
    replace: Replace = False,
) -> None:
    """Take the sites' replies to a broadcast into the next model: one more round."""
    check_centre_place(output)
    with screen.status(f"taking in {count(len(replies), 'reply', 'replies')}"):
        last = Federation.load(centre)
        secret = signer(key, last.study.centre_key, CENTRE)
        federation, _ = last.step([load_release(path) for path in replies])
        federation.save(output, replace=replace, key=secret)
    show_round(federation)
    screen.print(
        f"The model is in {output / 'model'}; {output / 'broadcast'} is all that sites need for "
        "another round. Neither has any site's counts."
    )
    show_next(f"fedmerdel describe {output}")


def describe_model(model: ModelFolder) -> None:
    """Show the common clusters: sizes, what marks them, outcomes, and at the centre sites."""
    found = _open(model)
    if isinstance(found, GlobalModel):
        show_clusters(found, found.describe())
        return
    if found.record:
        show_round(found)
    else:
        screen.print(f"Search {found.search!r}, global ELBO {found.lower_bound:,.1f} nats")
    show_clusters(found.model, found.describe())
    screen.print("at sites: share of the site's rows that are in the cluster")
    show_lone_clusters(found)
    for doubt in found.doubts:
        screen.print(f"Odd, compared with the other sites: {doubt.site}: {doubt.text}.")


def _open(folder: Path) -> Federation | GlobalModel:
    """Open the centre's folder or, where there is none, that of a model."""
    if (folder / FILE).exists():
        return Federation.load(folder)
    model = GlobalModel.load(folder)
    model.check_centre()
    return model


def name_clusters(
    model: ModelFolder,
    names: Annotated[
        Path | None, typer.Argument(metavar="NAMES", help="CSV with the columns cluster and name.")
    ] = None,
    single: Annotated[list[str] | None, typer.Option("--set", help="Such as 3=Stroke.")] = None,
    key: KeyFile = None,
) -> None:
    """Name clusters of a model, in place; other clusters keep their names."""
    if (names is None) == (not single):
        raise OptionError("names: give either a CSV of clusters and names, or --set 3=Stroke")
    found = _open(model)
    secret = signer(key, found.study.centre_key, CENTRE)
    given = _single_names(single or []) if names is None else read_names(names)
    try:
        found = found.named(given)
    except OptionError as error:
        where = "--set" if names is None else f"file {str(names)!r}"
        raise OptionError(f"{where}: {error}") from None
    # It is this one, with other names.
    if isinstance(found, Federation):
        found.save(model, replace=True, key=secret)
    else:
        (found if secret is None else found.signed(secret)).save(model, replace=True)
    anew = sum(bool(name.strip()) for name in given.values())
    have = sum(map(bool, found.names))
    screen.print(
        f"{count(anew, 'cluster')} named: {have} of {found.n_clusters} in {model} now have a name."
    )
    show_next(f"fedmerdel report {model} -o report.html")


def _single_names(given: list[str]) -> dict[int, str]:
    """Read names such as 3=Stroke."""
    names: dict[int, str] = {}
    for text in given:
        number, sign, name = text.partition("=")
        if not (sign and NUMBER.fullmatch(number.strip())):
            raise OptionError("--set: give a cluster's number and its name, such as 3=Stroke")
        if int(number) in names:
            raise OptionError(f"--set: cluster {int(number)} is there twice: keep one")
        names[int(number)] = name
    return names


def report(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")],
    title: Annotated[str | None, typer.Option(help="Heading; the study's name.")] = None,
    date: Annotated[str | None, typer.Option(help="Date to show; today's.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Lines x columns, such as 16x16, if variables are pixels.")
    ] = None,
) -> None:
    """Write a page of pictures and tables: one HTML file, for any browser, without network."""
    check_page_place(output)
    shape = None if image is None else _shape(image)
    found = _open(model)
    n_sites = len(found.sites) if isinstance(found, Federation) else found.n_sites
    with screen.status("drawing"):
        found.report(output, title=title, date=date, image_shape=shape)
    screen.print(
        f"{output} shows {count(found.n_clusters, 'cluster')} of "
        f"{count(n_sites, 'site')}. Open it in a browser; it loads nothing from anywhere."
    )


def _shape(text: str) -> tuple[int, int]:
    lines, _, columns = text.lower().partition("x")
    if not (lines.isdecimal() and columns.isdecimal() and int(lines) > 0 and int(columns) > 0):
        raise OptionError("--image: give lines x columns, such as 16x16")
    return int(lines), int(columns)
