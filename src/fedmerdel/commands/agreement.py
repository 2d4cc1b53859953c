"""Commands about what a site has agreed to, and what has left it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedmerdel.commands.arguments import KeyFile, StudyFile, TableFile
from fedmerdel.commands.screen import count, screen, show_next
from fedmerdel.keys import signer
from fedmerdel.site.ledger import Ledger, releases_known
from fedmerdel.site.site_file import Approval, SiteFile
from fedmerdel.study.policy import policy_named
from fedmerdel.study.study import Study

SiteFilePath = Annotated[Path, typer.Argument(metavar="SITEFILE", help="The site's TOML file.")]


def draft_site(
    study: StudyFile,
    table: TableFile,
    site: Annotated[str, typer.Option(help="Name of this site.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The TOML file to write.")],
    weakest_policy: Annotated[
        str | None, typer.Option(help="Weakest policy that is accepted; the study's.")
    ] = None,
    most_rounds: Annotated[
        int | None, typer.Option(min=0, help="Most rounds about this table; the study's.")
    ] = None,
    approve: Annotated[Approval, typer.Option(help="Who must agree before it leaves.")] = "person",
    key: KeyFile = None,
) -> None:
    """Approve a study at a site: show what it asks for, and write the site's own file."""
    asked, home = Study.load(study), output.parent
    signer(key, asked.key_of(site), f"site {site!r}")
    agreed = SiteFile(
        site,
        _seen_from(home, table),
        _seen_from(home, study),
        asked.hash,
        asked.policy if weakest_policy is None else policy_named(weakest_policy),
        asked.rounds if most_rounds is None else most_rounds,
        approve,
        None if key is None else _seen_from(home, key),
    )
    agreed.check_limits(asked)
    names = asked.codebook.names
    screen.print(
        f"Study {asked.name!r} asks for counts of {count(len(names), 'variable')} in clusters, "
        f"of {count(len(asked.outcomes), 'outcome')} ({', '.join(asked.measures) or 'none'}), "
        f"under policy {asked.policy}, once and in {count(asked.rounds, 'round')} more."
    )
    if asked.promise.trusts_centre:
        screen.print(
            "The study trusts the centre: in a round it chooses the clusters, and so it could "
            "count small groups here in spite of the policy. Agree only if this site trusts it too."
        )
    agreed.save(output)
    screen.print(
        f"{output} approves this, and nothing else: hash {asked.hash}. Compare the hash with the "
        "centre's by telephone; delete the file if you do not agree."
    )
    beside = table.parent
    if beside.resolve() != home.resolve() and releases_known(beside, table):
        screen.print(
            f"Warning: this table has releases in the ledger of {beside}, which the new file's own "
            "ledger does not count: use the site file there, or be sure that this is meant."
        )
    if asked.promise.adds_up:
        screen.print(
            f"Under promise {asked.promise.kind!r} only totals over all sites can be read. Ring up "
            f"other sites, and write the digits of their keys into {output} (confirmed): only "
            f"these sites count towards the least number, {asked.promise.least_sites}."
        )
        show_next(f"fedmerdel turn {output} INBOX OUTBOX")
        return
    show_next(f"fedmerdel fit {output} -o FOLDER")


def ledger(site_file: SiteFilePath) -> None:
    """Show what has left this site."""
    agreed = SiteFile.load(site_file)
    found = Ledger(agreed.home).entries()
    if not found:
        screen.print("Nothing has left yet.")
        return
    shown = Table("at (UTC)", "what", "round", "study", "policy", "rows", "table", "SHA-256")
    for each in found:
        shown.add_row(
            each.at[:19],
            each.what,
            str(each.round) if each.round else "",
            each.study,
            each.policy,
            f"{each.rows:,}" + (" (changed)" if each.rows_changed else ""),
            each.table,
            each.release[:12],
        )
    screen.print(shown)
    replies = sum(each.what == "reply" for each in found)
    screen.print(
        f"{count(len(found), 'release')}, of these {count(replies, 'reply', 'replies')}; this site "
        f"agrees to {agreed.most_rounds} at most. This list stays here."
    )


def _seen_from(home: Path, path: Path) -> Path:
    try:
        return Path(os.path.relpath(path, home))
    except ValueError:  # another drive
        return path.resolve()
