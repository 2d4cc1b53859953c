"""A line that moves while a fit runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedmerdel.fitting.history import History


@contextmanager
def shown(
    verbose: int, n_rows: int, total_weight: float
) -> Iterator[Callable[[History], None] | None]:
    """Give a watcher that shows passes, clusters, moves and ELBO; None where all is silent.

    Parameters
    ----------
    verbose : int
        0 is silent.
    n_rows : int
        Rows that are fitted; a history of fewer is one of a sample.
    total_weight : float
        Their weight.
    """
    if not verbose:
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("starting")

        def watch(history: History) -> None:
            accepted = sum(move.accepted for move in history.moves)
            text = (
                f"pass {history.n_iter}, {history.n_clusters} clusters, "
                f"{accepted} of {len(history.moves)} moves accepted"
            )
            if history.n_rows < n_rows:
                text = f"{history.n_rows:,} rows: {text}"
            elif history.elbos:
                text = f"{text}, ELBO per row {history.elbos[-1] / total_weight:.4f}"
            progress.update(task, description=text)

        yield watch


@contextmanager
def shown_rounds(verbose: int, n_rounds: int | None) -> Iterator[Callable[[Any], None] | None]:
    """Give a watcher that shows rounds, clusters and ELBO; None where all is silent.

    Parameters
    ----------
    verbose : int
        0 is silent.
    n_rounds : int or None
        How many there will be, if that is known.
    """
    if not verbose:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("rounds", total=n_rounds)

        def watch(brought: Any) -> None:
            text = f"round {brought.number}: {brought.n_clusters} clusters"
            reached = getattr(brought, "elbo", None)
            if reached is not None:
                text += f", ELBO {reached:,.1f}"
            progress.update(task, advance=1, description=text)

        yield watch


@contextmanager
def shown_draws(verbose: int, n_draws: int) -> Iterator[Callable[[int], None]]:
    """Give a watcher that is called with the clusters of each draw, and shows how many are done."""
    if not verbose:
        yield lambda n_clusters: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), "{task.description}", TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("draws", total=n_draws)

        def watch(n_clusters: int) -> None:
            progress.update(task, advance=1, description=f"the last had {n_clusters} clusters")

        yield watch
