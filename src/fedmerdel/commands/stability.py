"""The command that asks how many clusters there are, and which come back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedmerdel.centre.federation import Federation
from fedmerdel.commands.arguments import CentreFolder, Threads
from fedmerdel.commands.screen import screen
from fedmerdel.files import check_earlier, check_place, write_text


def stability(
    centre: CentreFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV to write.")],
    draws: Annotated[int, typer.Option(min=1, help="How often the study is run again.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same gives the same.")] = 0,
    threads: Threads = 1,
) -> None:
    """Run the study again on rows made up from what sites sent: which clusters come back."""
    # scikit-learn is slow to import
    from fedmerdel.estimators.federation_stability import federation_stability
    from fedmerdel.estimators.replicates import is_draws

    check_place(output)
    check_earlier(output, "table of draws", is_draws)
    found = federation_stability(
        Federation.load(centre),
        n_bootstrap=draws,
        n_jobs=threads,
        random_state=seed,
        verbose=screen.is_terminal,
    )
    write_text(output, found.to_csv())
    screen.print(str(found), soft_wrap=True)
    screen.print(
        "likeness: rows in both over rows in either, mean over draws; found again: share of draws "
        f"with 0.75 at least. {output} has every draw. Nothing was asked of the sites."
    )
