"""Tasks done one by one or side by side, their rows kept as they come, so that a run can stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from threadpoolctl import threadpool_limits

from experiments.experiment import Experiment, Row, Scale, Task


def run_experiment(experiment: Experiment, scale: Scale, folder: Path, jobs: int) -> pd.DataFrame:
    """Do the tasks that are not done yet, and return all rows.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    scale : {"smoke", "small", "paper"}
        How much of it.
    folder : Path
        Where its CSV is, and stays.
    jobs : int
        Processes; each keeps to one thread, so that seconds are core-seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"{experiment.name}.csv"
    tasks = experiment.tasks(scale)
    rows = _kept(store, tasks)
    left = [task for task in tasks if _key(task) not in {_key(_part(row, task)) for row in rows}]
    columns = (
        TextColumn(experiment.name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task(experiment.name, total=len(tasks), completed=len(tasks) - len(left))
        for done in _results(experiment, left, jobs):
            rows = _in_order(rows + done, tasks)
            _write(store, rows)
            progress.advance(bar)
    return pd.DataFrame(rows)


def _results(experiment: Experiment, tasks: list[Task], jobs: int) -> Iterator[list[Row]]:
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield _do(experiment.name, task)
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(_do, experiment.name, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()


def _do(name: str, task: Task) -> list[Row]:
    """Do one task, in whatever process; experiments are looked up by name."""
    experiment: Experiment = import_module("experiments.catalogue").EXPERIMENTS[name]
    began = time.process_time()
    # Libraries are loaded by now, so variables of the environment would come too late.
    with threadpool_limits(1):
        rows = experiment.run(task)
    told: Row = {
        "task_seconds": time.process_time() - began,
        "fedmerdel": version("fedmerdel"),
        "numpy": version("numpy"),
    }
    return [{**task, **row, **told} for row in rows]


def _kept(store: Path, tasks: list[Task]) -> list[Row]:
    """Return the rows of earlier runs that belong to these tasks."""
    if not store.exists() or not tasks:
        return []
    wanted = {_key(task): task for task in tasks}
    found: list[Row] = pd.read_csv(store, keep_default_na=False).to_dict("records")
    keyed = [(_key(_part(row, tasks[0])), row) for row in found]
    # What a file tells of a task may be of another type: "1.1" is a number there.
    return [{**row, **wanted[key]} for key, row in keyed if key in wanted]


def _in_order(rows: list[Row], tasks: list[Task]) -> list[Row]:
    """Return the rows in the order of their tasks, whichever was ready first."""
    place = {_key(task): at for at, task in enumerate(tasks)}
    return sorted(rows, key=lambda row: place[_key(_part(row, tasks[0]))])


def _write(store: Path, rows: list[Row]) -> None:
    """Write all rows; an earlier file stays until the new one is complete."""
    part = store.with_suffix(".part")
    pd.DataFrame(rows).to_csv(part, index=False, float_format="%.6g")
    part.replace(store)


def _part(row: Row, task: Task) -> Task:
    return {name: row.get(name, "") for name in task}


def _key(task: Task) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in task.items()))
