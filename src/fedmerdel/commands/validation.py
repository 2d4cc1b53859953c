"""The command for a site that took no part: how well do the common clusters fit there."""

from __future__ import annotations

from pathlib import Path

from fedmerdel.commands.arguments import (
    KeyFile,
    ModelFolder,
    Output,
    Replace,
    RowsChanged,
    SiteName,
    TableOrSite,
    Threads,
)
from fedmerdel.commands.screen import no_ledger, screen, show_next, show_validation
from fedmerdel.errors import OptionError
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.tables import Readable
from fedmerdel.release.validation import Validation
from fedmerdel.site.own_site import Site, released_by
from fedmerdel.site.validate_site import validate_site


def validate(
    model: ModelFolder,
    table: TableOrSite,
    output: Output,
    site: SiteName = None,
    key: KeyFile = None,
    threads: Threads = 1,
    replace: Replace = False,
    rows_changed: RowsChanged = False,
) -> None:
    """Say how well the common clusters fit a site that took no part: a folder to send."""
    merged = GlobalModel.load(model)
    here = _site(merged, table, site, key)
    Validation.check_place(output, replace=replace, site=here.name, model_hash=merged.hash)

    def make(rows: Readable) -> Validation:
        return validate_site(merged, rows, here.name, n_jobs=threads)

    with screen.status("fitting"):
        found = released_by(here, make, ("validation", 0, merged.hash), rows_changed)
        found.save(output, replace=replace)
    show_validation(found)
    if here.ledger is None:
        screen.print(no_ledger())
    screen.print(f"This, and nothing else, is in {output}; README.txt explains the files.")
    if here.agreed is not None and here.agreed.approve == "person":
        screen.print("A person must agree before it leaves.")
    show_next(f"fedmerdel review {output}")


def _site(model: GlobalModel, table: Path, site: str | None, key: Path | None) -> Site:
    if table.suffix.lower() == ".toml":
        if (site, key) != (None, None):
            raise OptionError(
                f"{str(table)!r} is a site's file, and says name and key: leave --site and --key "
                "out"
            )
        here = Site.load(table)
        here.check_model(model)
        return here
    if site is None:
        raise OptionError("--site: give the name of this site; or a site's file in place of TABLE")
    return Site(site, model.study, table, key=key)
