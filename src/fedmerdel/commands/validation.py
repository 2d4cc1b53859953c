"""The command for a site that took no part: how well do the common clusters fit there."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

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
from fedmerdel.commands.screen import count, no_ledger, screen, show_next
from fedmerdel.errors import OptionError
from fedmerdel.inference.transport import Measured
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.release.validation import Validation
from fedmerdel.site.own_site import Site

WORDS = {
    "site_weights": "the model's clusters, this site's shares",
    "model_weights": "the model's clusters, the model's shares",
    "independence": "no clusters",
    "own_clusters": "clusters found here",
}


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
    with screen.status("fitting"):
        found = here.validate(merged, rows_changed=rows_changed, n_jobs=threads)
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
        return Site.load(table)
    if site is None:
        raise OptionError("--site: give the name of this site; or a site's file in place of TABLE")
    return Site(site, model.study, table, key=key)


def show_validation(found: Validation) -> None:
    """Show what a validation says, in tables and sentences."""
    screen.print(
        f"Site {found.site}: {count(round(found.n_rows), 'row')}, in "
        f"{count(len(found.rows), 'cluster')} of the model"
    )
    scores = Table("log-score a row", "nats", "gain over no clusters", title_justify="left")
    gains = {"site_weights": found.gain, "own_clusters": found.own_gain}
    for name, score in found.scores.items():
        gain = gains.get(name)
        scores.add_row(WORDS[name], _text(score), "" if gain is None else _text(gain))
    shares = Table("cluster", "share here", "share in the model", title_justify="left")
    for k, (here, there) in enumerate(zip(found.shares, found.model_shares, strict=True)):
        shares.add_row(str(k), f"{here:.1%}", f"{there:.1%}")
    screen.print(scores, shares)
    carried = found.carried
    screen.print(
        "Clusters found here gain nothing to speak of, so there is nothing to carry over."
        if carried is None
        else f"Of what clusters found here gain, the model's gain {carried.value:.0%} (standard "
        f"error {carried.standard_error:.0%})."
    )
    screen.print(
        f"Agreement with {count(len(found.labels), 'cluster')} found here: adjusted Rand index "
        f"{found.adjusted_rand:.2f}."
    )
    if found.shift.df:
        statistic, df, p_value = found.shift
        screen.print(
            f"Shares other than the model's: chi-squared {statistic:.1f} on {df} df, p "
            + (f"= {p_value:.2g}." if p_value >= 1e-4 else "< 0.0001.")
        )


def _text(measured: Measured) -> str:
    return f"{measured.value:.3f} ± {measured.standard_error:.3f}"
