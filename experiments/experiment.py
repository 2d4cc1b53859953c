"""What an experiment is: tasks that give rows of a tidy table, and a page made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")

Value = str | int | float
Task = dict[str, Value]
Row = dict[str, Value]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name : str
        For the command line, and of the files.
    line : str
        What it is, in one line, with its place in the paper.
    tasks : callable
        Returns the tasks of a scale. A task names all that its result depends on, seeds too.
    run : callable
        Does a task and returns rows; the task's own entries are added to each.
    page : callable
        Makes Markdown from all rows, and draws figures into a folder.
    slow : bool
        Whether it is left out where all are run: a method that is compared takes hours.
    """

    name: str
    line: str
    tasks: Callable[[Scale], list[Task]]
    run: Callable[[Task], list[Row]]
    page: Callable[[pd.DataFrame, Path], str]
    slow: bool = False


def counts(scale: Scale, smoke: int, small: int, paper: int) -> range:
    """Return numbers 0, 1, ... of data sets or shuffles at a scale."""
    return range({"smoke": smoke, "small": small, "paper": paper}[scale])
