"""Reproduce the paper: ``python -m experiments list``, ``python -m experiments run NAME``.

``python -m experiments findings`` sums up what was run at the paper's scale.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pandas as pd

from experiments.catalogue import EXPERIMENTS
from experiments.experiment import SCALES, Scale
from experiments.figures import figures
from experiments.headline import headline, read_results
from experiments.runner import run_experiment
from experiments.values import values

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """List experiments, or run some and write their pages."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="a line for each experiment")
    run = commands.add_parser("run", help="run experiments; goes on where it stopped")
    run.add_argument("names", nargs="+", metavar="NAME", choices=[*EXPERIMENTS, "all"])
    run.add_argument("--scale", choices=SCALES, default="small")
    run.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    commands.add_parser("findings", help="sum up the paper scale's results in one page")
    arguments = parser.parse_args()
    if arguments.command == "list":
        for experiment in EXPERIMENTS.values():
            print(f"{experiment.name:15} {experiment.line}{' (slow)' if experiment.slow else ''}")
        return
    if arguments.command == "findings":
        data, pages = places("paper")
        write_findings(data, pages)
        return
    names = arguments.names
    if "all" in names:
        names = [name for name, experiment in EXPERIMENTS.items() if not experiment.slow]
    for name in names:
        data, pages = places(arguments.scale)
        rows = run_experiment(EXPERIMENTS[name], arguments.scale, data, arguments.jobs)
        write_page(name, rows, pages)


def places(scale: Scale) -> tuple[Path, Path]:
    """Return where CSV files and pages of a scale go: only the paper's are part of the docs."""
    results = ROOT / "docs" / "results" if scale == "paper" else ROOT / "build" / "paper" / scale
    return results / "data", results


def write_page(name: str, rows: pd.DataFrame, folder: Path) -> None:
    """Write the Markdown page of an experiment and its figures."""
    experiment = EXPERIMENTS[name]
    folder.mkdir(parents=True, exist_ok=True)
    text = experiment.page(rows, folder)
    head = f"# {experiment.line}\n\nWritten by `python -m experiments run {name}`.\n\n"
    (folder / f"{name}.md").write_text(head + text.rstrip() + "\n", encoding="utf-8")


def write_findings(data: Path, folder: Path) -> None:
    """Write ``README.md``: our words of ``findings.md``, with what they name.

    ``<!-- name -->`` stands for a table, ``[[name]]`` for a number.
    """
    text = (ROOT / "experiments" / "findings.md").read_text(encoding="utf-8")
    results = read_results(data)
    several = list(figures(results))
    for name, table in headline(results, several).items():
        place = f"<!-- {name} -->\n"
        if text.count(place) != 1:
            raise SystemExit(f"error: experiments/findings.md must name {place.strip()} once")
        text = text.replace(place, table)
    for name, value in values(results, several).items():
        text = text.replace(f"[[{name}]]", value)
    (folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
