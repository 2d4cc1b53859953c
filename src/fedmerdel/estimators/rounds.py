"""Exchanges between sites in one process: as across real sites, with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from fedmerdel.centre.lineage import Exchange
from fedmerdel.centre.onto import merge_onto
from fedmerdel.fitting.passes import Workers
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.update import exact_reply

QUIET = 1e-5
"""Nats a row that an exchange must gain, or it is a quiet one."""

QUIET_EXCHANGES = 6
"""Quiet exchanges in a row after which more don't pay: a cut may still need a few."""

MOST_EXCHANGES = 1000
"""Exchanges after which "auto" gives up."""

Rounds = int | Literal["auto"]


def run_rounds(
    model: GlobalModel,
    parts: dict[str, PackedRows],
    rounds: Rounds,
    workers: Workers,
    watch: Callable[[Exchange], None] | None = None,
) -> GlobalModel:
    """Let the sites reply to the model, and so on, so many times or until it stops paying.

    Parameters
    ----------
    model : GlobalModel
        The model after one shot.
    parts : dict of str to PackedRows
        The rows of each site.
    rounds : int or "auto"
        Exchanges.
    workers : Workers
        Threads: sites reply side by side.
    watch : callable, optional
        Called with each exchange.
    """
    names = list(parts)
    rows = [repack(collapse(part)[0]) for part in parts.values()]
    total = sum(float(part.weights.sum()) for part in rows)
    for _ in range(MOST_EXCHANGES if rounds == "auto" else rounds):
        sent = model.broadcast

        def reply(b: int, own: Workers, sent: Broadcast = sent) -> SiteSummary:
            return exact_reply(sent, rows[b], names[b], own)

        replies = workers.side_by_side(len(names), reply)
        model = merge_onto(model, replies)
        if watch is not None:
            watch(model.record[-1])
        if rounds == "auto" and has_settled(model.record, total):
            break
    return model


def has_settled(record: tuple[Exchange, ...], total: float) -> bool:
    """Whether the last exchanges were all quiet: no move, and next to nothing gained."""
    last = record[-QUIET_EXCHANGES:]
    return len(last) == QUIET_EXCHANGES and all(
        step.move == "taken back"
        or (step.move == "" and step.gain is not None and step.gain < QUIET * total)
        for step in last
    )


@contextmanager
def shown_exchanges(verbose: int, rounds: Rounds) -> Iterator[Callable[[Exchange], None] | None]:
    """Give a watcher that shows exchanges, clusters and ELBO; None where all is silent."""
    if not verbose:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("exchanges", total=None if rounds == "auto" else rounds)

        def watch(step: Exchange) -> None:
            text = f"exchange {step.number}: {step.n_clusters} clusters, ELBO {step.elbo:,.1f}"
            progress.update(task, advance=1, description=text)

        yield watch
