"""A line that moves while a fit runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedmerdel.mixture.history import History


@contextmanager
def shown(verbose: int, total_weight: float) -> Iterator[Callable[[History], None] | None]:
    """Give a watcher that shows passes, clusters and ELBO; None where all is silent."""
    if not verbose:
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("starting")

        def watch(history: History) -> None:
            rows = f"{history.n_rows:,} rows"
            elbo = f"{history.elbos[-1] / total_weight:.4f}" if history.elbos else "…"
            progress.update(
                task,
                description=(
                    f"pass {history.n_iter} over {rows}, {history.n_clusters} clusters, "
                    f"{sum(move.accepted for move in history.moves)} of {len(history.moves)} "
                    f"moves accepted, ELBO per row {elbo}"
                ),
            )

        yield watch
