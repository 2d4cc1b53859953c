"""Turns of rounds of sums: what has arrived is taken, what goes out next is written."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedmerdel.centre.federation import model_of_total
from fedmerdel.centre.summed import summed_up
from fedmerdel.commands.arguments import KeyFile, StudyOrSite, Threads
from fedmerdel.commands.screen import count, screen, show_next
from fedmerdel.errors import DataError, FileError, OptionError
from fedmerdel.keys import SigningKey, signer
from fedmerdel.masking.centre_part import ENDED
from fedmerdel.masking.folders import (
    site_history,
    take_centre_turn,
    take_site_turn,
)
from fedmerdel.masking.work import History, Member
from fedmerdel.site.site_file import SiteFile, is_site_file
from fedmerdel.site.turn_site import SiteSums
from fedmerdel.study.study import Study
from fedmerdel.summing.work import SumsWork, agreement_of

MODEL = "model"
"""Where the model is written at the end, in the folder that is kept."""


def turn(
    study: StudyOrSite,
    inbox: Annotated[Path, typer.Argument(metavar="INBOX", help="Folder of what has arrived.")],
    outbox: Annotated[Path, typer.Argument(metavar="OUTBOX", help="Folder of what goes out.")],
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="What is kept here; a site's is beside its file."),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="SITE", help="Centre: go on without a site, before anything is told."),
    ] = None,
    end: Annotated[
        bool, typer.Option("--end", help="Centre: end with what was told last.")
    ] = False,
    key: KeyFile = None,
    threads: Threads = 1,
) -> None:
    """Take a turn in rounds of sums, at a site or at the centre, and say whose turn is next."""
    for folder in (inbox, outbox):
        if not folder.is_dir():
            raise FileError(f"folder {str(folder)!r} is not there: make it first")
    if is_site_file(study):
        if leave_out or end or key is not None:
            raise OptionError(
                "--leave-out, --end and --key are the centre's: a site's file says all it needs"
            )
        _site_turn(study, inbox, outbox, keep, threads)
        return
    if keep is None:
        raise OptionError("--keep: name the folder in which the centre keeps this run")
    work = SumsWork(Study.load(study))
    agreement = agreement_of(work.study)
    secret = signer(key, work.study.centre_key, "the centre")
    with screen.status("taking the centre's turn"):
        taken = take_centre_turn(
            keep, inbox, outbox, agreement, work, leave_out=leave_out or (), end=end
        )
    screen.print(taken.waiting)
    history = taken.state.history
    if not _is_told(work, history) and taken.state.stage != ENDED:
        return
    state = work.state(history)
    if not state.record:
        raise DataError("the run has ended before its first round: there is no model")
    total = summed_up(work.study, state.sums, state.prior)
    n_sites = len(taken.state.sites)
    model = model_of_total(work.study, total, n_sites, len(state.record))
    target = keep / MODEL
    (model if secret is None else model.signed(secret)).save(target)
    screen.print(
        f"{count(model.n_clusters, 'cluster')}. {target} is under policy "
        f"{work.study.policy.name!r}, and may be sent to all whom the study names."
    )
    show_next(f"fedmerdel describe {target}")


def _site_turn(study: Path, inbox: Path, outbox: Path, keep: Path | None, threads: int) -> None:
    agreed = SiteFile.load(study)
    agreement = agreement_of(agreed.approved_study())
    if agreed.key is None:
        raise OptionError("key: sums are signed: name this site's secret key in its file")
    folder = keep or agreed.home / f"sums-{agreement.study[:8]}"
    confirmed = agreed.confirmed_keys(agreed.approved_study())
    member = Member(agreed.name, SigningKey.load(agreed.key), confirmed)
    with screen.status("taking this site's turn"):
        work = SiteSums(agreed, threads)
        # Later runs begin with a higher number than any that was signed before.
        number = int(datetime.now(UTC).timestamp())
        waiting = take_site_turn(folder, inbox, outbox, agreement, member, work, number)
    screen.print(waiting)
    if _is_told(work, site_history(folder)):
        screen.print("The centre sends the model.")


def _is_told(work: SumsWork, history: History) -> bool:
    """Say how far it is, and whether all is told."""
    if not history.openings:
        return False
    state = work.state(history)
    told = "All is told" if state.question is None else "So far"
    screen.print(
        f"{told}: {count(len(state.record), 'round')}, {work.total_rows(history):,.0f} rows of all "
        "sites together."
    )
    return state.question is None
