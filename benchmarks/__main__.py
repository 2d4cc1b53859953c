"""Run benchmarks and write the results page: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks import promises
from benchmarks.measure import Finding, Report

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
BENCHMARKS = {
    "passes": "One pass over the rows",
    "reading": "Reading and packing: constants against other values",
    "whole_fit": "A whole fit against StepMix",
    "paper_recipe": "The paper's recipe",
    "scaling": "Growth with the number of rows",
    "start_up": "Starting up",
    "vicatmix": "The same ELBO as VICatMix",
    "traces": "The ELBO over time",
    "federation": "One-shot federation",
    "real_tables": "One-shot federation of real tables",
    "odd_sites": "Odd sites",
    "outcome_rates": "Rates of outcomes",
    "outcome_kinds": "Outcomes of other kinds",
    "real_confusion": "Rates of outcomes where variables depend within clusters",
    "hidden": "One shot under a disclosure policy",
    "membership": "Membership: the attack against what is predicted",
    "sums": "Rounds of sums: what nobody's own counts cost",
    "patterns": "Sums of a narrow table: can people be found in them",
    "private": "Differential privacy: what a budget costs",
    "rounds": "Rounds: from one shot to pooled quality",
    "assign": "Loading a model and assigning rows",
    "learned_prior": "The learned prior against the fixed one",
    "floor": "The floor of the learned prior",
    "convergence": "Convergence",
    "room": "Ceilings and starts",
    "density": "Density sets",
    "selection": "The paper's variable selection",
    "categorical": "Variables with more levels",
    "missing": "Missing entries",
    "choices": "Choices of prior and search",
    "constants": "Numbers that steer the searches",
    "consensus": "Several starts",
    "classical": "Classical latent class analysis against StepMix",
}


def main() -> None:
    """Run what is asked for, all by default, and put it on the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], metavar="name")
    names = parser.parse_args().names or list(BENCHMARKS)
    store = RESULTS / "benchmarks.json"
    for name in names:
        print(f"{name}: running", flush=True)
        began = time.perf_counter()
        report: Report = import_module(f"benchmarks.{name}").run()
        for finding in report.findings:
            mark = "ok  " if finding.reached else "MISS"
            print(f"  {mark} {finding.name}: {finding.measured} (target {finding.target})")
        # Read as late as can be: another run may have written meanwhile.
        results = json.loads(store.read_text()) if store.exists() else {}
        results[name] = {
            **report._asdict(),
            "when": time.strftime("%Y-%m-%d"),
            "seconds": round(time.perf_counter() - began),
        }
        # After each one: a run that is cut short keeps what it has measured.
        store.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "benchmarks.md").write_text(page(results))
        promises.fill(results)


def page(results: dict[str, dict[str, object]]) -> str:
    """Return the results page as Markdown."""
    packages = ("fedmerdel", "numpy", "numba", "scikit-learn", "stepmix")
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit by hand. Ratios are measured side by side in one",
        "run, in turns and on one core unless said otherwise: machines are noisy, and a time",
        "alone says little.",
        "",
        f"Python {platform.python_version()}, "
        + ", ".join(f"{package} {version(package)}" for package in packages)
        + f", {platform.machine()}.",
        "",
    ]
    for name, title in BENCHMARKS.items():
        if name in results:
            lines += _section(title, name, results[name])
    return "\n".join(lines)


def _section(title: str, name: str, result: dict[str, object]) -> list[str]:
    report = Report(*(result[field] for field in Report._fields))  # type: ignore[arg-type]
    figures = [
        [finding.name, finding.target, finding.measured, "yes" if finding.reached else "**no**"]
        for finding in (Finding(*entry) for entry in report.findings)
    ]
    lines = [f"## {title}", ""]
    if figures:
        lines += [*_table(["figure", "target", "measured", "reached"], figures), ""]
    if report.rows:
        lines += [*_table(report.header, report.rows), ""]
    if report.note:
        lines += [report.note, ""]
    when = f"`python -m benchmarks {name}`, {result['when']}, {result['seconds']} s."
    return [*lines, when, ""]


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    main()
