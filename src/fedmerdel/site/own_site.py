"""A site at work: its study, its table and, with a site file, its limits and its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from fedmerdel.errors import DataError, OptionError
from fedmerdel.keys import SigningKey, signer
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.tables import Readable
from fedmerdel.release.risk import check_risk
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.assign import Assignment, assign
from fedmerdel.site.check import Check, check_site
from fedmerdel.site.fit_site import prepare_release
from fedmerdel.site.ledger import Entry, Ledger, What, check_release, table_digest
from fedmerdel.site.release import Release
from fedmerdel.site.reply_site import prepare_reply
from fedmerdel.site.site_file import SiteFile, is_site_file
from fedmerdel.site.site_table import open_site_table
from fedmerdel.study.study import Study


class Signable(Protocol):
    """What leaves a site, signed or not."""

    def signed(self, key: SigningKey) -> Self:
        """Return the same, signed."""

    def to_bytes(self) -> bytes:
        """Return the bytes that leave."""


Leaving = TypeVar("Leaving", bound=Signable)


@dataclass(frozen=True)
class Site:
    """A site whose own file decides.

    Made by `Site.load`. What `fit` and `reply` return is written down in the site's ledger before
    they return it, and refused if the site has not agreed to it.

    Attributes
    ----------
    name : str
        Name of the site.
    study : Study
        The study that it has approved.
    table : Path
        Its table of rows.
    agreed : SiteFile or None
        What it has agreed to; None for a site without such a file, which has no ledger.
    key : Path or None
        The file of its secret key, which signs what leaves; needed if the study lists keys.
    """

    name: str
    study: Study
    table: Path
    agreed: SiteFile | None = field(default=None, repr=False)
    key: Path | None = None

    @classmethod
    def load(cls, path: str | Path) -> Site:
        """Read a site's file, and the study that it has approved.

        Raises
        ------
        FileError
            If one of them can't be read.
        DataError
            If the study is not the one that was approved, or asks for more than is agreed to.
        """
        agreed = SiteFile.load(path)
        return cls(agreed.name, agreed.approved_study(), agreed.table, agreed, agreed.key)

    @property
    def ledger(self) -> Ledger | None:
        """What has left; None without a site's file."""
        return None if self.agreed is None else Ledger(self.agreed.home)

    def check(self) -> Check:
        """Rehearse a fit: what fits the study, and how small the counts would be."""
        return check_site(self.study, self.table)

    def fit(
        self, *, rows_changed: bool = False, n_jobs: int | None = None, verbose: int = 0
    ) -> SiteSummary:
        """Fit the site's rows and return what may leave it; see `fit_site`.

        Parameters
        ----------
        rows_changed : bool
            Release although rows were added or withdrawn since the last release.
        n_jobs : int or None
            Threads; the result does not depend on it.
        verbose : int
            1 shows a line that moves.
        """
        return prepare_fit_of(self, rows_changed, n_jobs=n_jobs, verbose=verbose).summary

    def reply(
        self, broadcast: Broadcast, *, rows_changed: bool = False, n_jobs: int | None = None
    ) -> SiteSummary:
        """Count the site's rows in the clusters of a broadcast; see `reply_site`.

        Parameters
        ----------
        broadcast : Broadcast
            What the centre sent.
        rows_changed : bool
            Release although rows were added or withdrawn since the last release.
        n_jobs : int or None
            Threads; the result does not depend on it.
        """
        return prepare_reply_of(self, broadcast, rows_changed, n_jobs=n_jobs).summary

    def assign(self, model: GlobalModel, *, n_jobs: int | None = None) -> Assignment:
        """Give the site's rows to the clusters of a model of its study; see `assign`."""
        self.check_model(model)
        return assign(model, self.table, n_jobs=n_jobs)

    def check_model(self, model: GlobalModel) -> None:
        """Refuse a model of another study than the site's own."""
        if model.study.hash != self.study.hash:
            raise DataError(
                f"the model is of another study than {self.study.name!r}, or of another version "
                "of it: ask the centre which study it is for"
            )


def prepare_fit_of(site: Site, rows_changed: bool = False, **options: Any) -> Release:
    """Fit as `Site.fit` does; return the summary, and the exact account that stays."""

    def make(table: Readable) -> Release:
        return _checked(site, prepare_release(site.study, table, site.name, **options))

    return released_by(site, make, ("summary", 0, ""), rows_changed)


def prepare_reply_of(
    site: Site, broadcast: Broadcast, rows_changed: bool = False, **options: Any
) -> Release:
    """Reply as `Site.reply` does; return the reply, and the exact account that stays."""
    broadcast.check_study(site.study)

    def make(table: Readable) -> Release:
        return _checked(site, prepare_reply(site.study, broadcast, table, site.name, **options))

    return released_by(site, make, ("reply", broadcast.number, broadcast.hash), rows_changed)


def _checked(site: Site, release: Release) -> Release:
    """Refuse what has a greater risk than the site agrees to, before it is written down."""
    if site.agreed is not None and site.agreed.most_risk is not None:
        check_risk(release.summary, site.agreed.most_risk)
    return release


def released_by(
    site: Site,
    make: Callable[[Readable], Leaving],
    asked: tuple[What, int, str],
    rows_changed: bool,
) -> Leaving:
    """Make something that leaves, sign it and write it down.

    Parameters
    ----------
    site : Site
        Whose it is.
    make : callable
        Makes it of the table.
    asked : (str, int, str)
        What it is, in which round, and the hash of what it is an answer to.
    rows_changed : bool
        Whether someone agreed to release although the table had changed.
    """
    # Before the work, not after.
    key = signer(site.key, site.study.key_of(site.name), f"site {site.name!r}")

    def made(table: Readable) -> Leaving:
        return make(table) if key is None else make(table).signed(key)

    if site.agreed is None or site.ledger is None:
        return made(open_site_table(site.table))
    digest = table_digest(site.table)
    opened = open_site_table(site.table)
    what, number, hashed = asked

    def entry(content: bytes) -> Entry:
        return Entry(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            what=what,
            study=site.study.name,
            study_hash=site.study.hash,
            round=number,
            broadcast=hashed,
            policy=site.study.policy.name,
            table=site.table.name,
            table_digest=digest,
            rows=opened.table.n_rows,
            release=hashlib.sha256(content).hexdigest() if content else "",
            rows_changed=rows_changed,
        )

    limits = site.study.rounds, site.agreed.most_rounds
    # Before the work, and once more when it is written down: another process may be at work.
    check_release(site.ledger.entries(), entry(b""), *limits)
    released = made(opened)
    # Rows that changed meanwhile are not those that are written down.
    if table_digest(site.table) != digest:
        raise DataError(
            f"table {site.table.name!r} changed while it was read: nothing leaves; try again "
            "once nobody writes to it"
        )
    site.ledger.add(entry(released.to_bytes()), *limits)
    return released


def open_site(study: Path, table: Path | None, name: str | None, key: Path | None = None) -> Site:
    """Open a site by its own file, or by single arguments, without limits and ledger."""
    if is_site_file(study):
        if (table, name, key) != (None, None, None):
            raise OptionError(
                f"{str(study)!r} is a site's file, and says table, name and key: leave TABLE, "
                "--site and --key out"
            )
        return Site.load(study)
    if table is None:
        raise OptionError("TABLE: give the table of rows; or a site's file in place of STUDY")
    if name is None:
        raise OptionError("--site: give the name of this site; or a site's file in place of STUDY")
    return Site(name, Study.load(study), table, key=key)
