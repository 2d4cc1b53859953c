"""Commands at the centre: it has summaries, and no row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedmerdel.centre.folder import check_model_place
from fedmerdel.centre.onto import merge_onto
from fedmerdel.commands.arguments import ModelFolder, StudyFile
from fedmerdel.commands.screen import count, screen, show_exchange, show_model, show_next
from fedmerdel.errors import DataError, OptionError
from fedmerdel.model.global_model import GlobalModel, merge_sites
from fedmerdel.model.names import inherited
from fedmerdel.model.names_file import NUMBER, read_names
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.page import check_page_place
from fedmerdel.study.study import Study
from fedmerdel.sums.search import Search


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
        model = _with_names_of(output, model)
        model.save(output)
    screen.print(
        f"{count(len(model.lineage), 'local cluster')} of {count(len(model.sites), 'site')} "
        f"became {count(model.n_clusters, 'cluster')}. The model is in {output}, with what each "
        "site sent: if all of them may see that, send it to the sites."
    )
    show_next(f"fedmerdel describe {output}")


def _with_names_of(output: Path, model: GlobalModel) -> GlobalModel:
    """Keep the names of an earlier model of the study in the same place, where they still fit."""
    if not (output / "names.csv").exists():
        return model
    before = GlobalModel.load(output)
    if before.study.hash != model.study.hash or before.record:
        return model
    return replace(model, names=inherited(before.names, before.lineage, model.lineage))


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


def describe_model(model: ModelFolder) -> None:
    """Show the common clusters: sizes, what marks them, outcomes, sites."""
    show_model(GlobalModel.load(model))


def name_clusters(
    model: ModelFolder,
    names: Annotated[
        Path | None, typer.Argument(metavar="NAMES", help="CSV with the columns cluster and name.")
    ] = None,
    single: Annotated[list[str] | None, typer.Option("--set", help="Such as 3=Stroke.")] = None,
) -> None:
    """Name clusters of a model, in place; other clusters keep their names."""
    if (names is None) == (not single):
        raise OptionError("names: give either a CSV of clusters and names, or --set 3=Stroke")
    check_model_place(model)
    found = GlobalModel.load(model)
    given = _single_names(single or []) if names is None else read_names(names)
    try:
        found = found.named(given)
    except OptionError as error:
        where = "--set" if names is None else f"file {str(names)!r}"
        raise OptionError(f"{where}: {error}") from None
    found.save(model)
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
    found = GlobalModel.load(model)
    with screen.status("drawing"):
        found.report(output, title=title, date=date, image_shape=shape)
    screen.print(
        f"{output} shows {count(found.n_clusters, 'cluster')} of "
        f"{count(len(found.sites), 'site')}. Open it in a browser; it holds shares and tables of "
        "what the sites released, and loads nothing from anywhere."
    )


def _shape(text: str) -> tuple[int, int]:
    lines, _, columns = text.lower().partition("x")
    if not (lines.isdecimal() and columns.isdecimal() and int(lines) > 0 and int(columns) > 0):
        raise OptionError("--image: give lines x columns, such as 16x16")
    return int(lines), int(columns)
