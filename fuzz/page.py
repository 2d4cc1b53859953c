"""What a run has found: counted, printed, and written to a page."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

LIMIT_SECONDS = 10.0
"""A case that takes longer is a hang."""

LIMIT_MEGABYTES = 500
"""A process that has had more is wrong."""

STATUSES = ("refused", "accepted", "internal", "hang")


@dataclass
class Tally:
    """What became of cases."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: dict[int, str] = field(default_factory=dict)
    peak: int = 0
    slowest: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0

    @property
    def n_cases(self) -> int:
        """Cases so far."""
        return self.counts.total()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def add(
        self, seed: int, number: int, *, kind: str, status: str, detail: str, seconds: float,
        peak: int,
    ) -> None:  # fmt: skip
        """Count one case."""
        if seconds > LIMIT_SECONDS:
            status = "hang"
        self.counts[kind, status] += 1
        self.seconds += seconds
        self.slowest = max(self.slowest, (seconds, number))
        self.peak = max(self.peak, peak)
        if status in ("internal", "hang"):
            self.wrong[number] = f"{kind}: {status} after {seconds:.1f} s, {detail}"
        elif peak > LIMIT_MEGABYTES:
            self.wrong[number] = f"{kind}: {peak} MB of memory"

    def rows(self) -> list[list[str]]:
        """Return the table: a row a kind, and one for all."""
        kinds = list(dict.fromkeys(kind for kind, _ in sorted(self.counts)))
        rows = [
            [kind, *(f"{self.counts[kind, status]:,}" for status in STATUSES)] for kind in kinds
        ]
        total = [sum(self.counts[kind, status] for kind in kinds) for status in STATUSES]
        return [*rows, ["all", *(f"{n:,}" for n in total)]]

    def text(self) -> str:
        """Return what to print."""
        rows = [["kind", *STATUSES], *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:>{w}}" if j else f"{cell:<{w}}" for j, (cell, w) in
                      enumerate(zip(row, widths, strict=True)))
            for row in rows
        ]  # fmt: skip
        lines.append(
            f"{self.n_cases:,} cases, {self.seconds:,.0f} s; the longest {self.slowest[0]:.1f} s "
            f"(case {self.slowest[1]}); peak memory {self.peak} MB"
        )
        for number, why in sorted(self.wrong.items())[:50]:
            lines.append(f"case {number}: {why}")
        return "\n".join(lines)


def write_page(path: Path, tally: Tally, seed: int) -> None:
    """Write the results page."""
    header = ["kind of file", *STATUSES]
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * 5, *tally.rows())]
    wrong = [f"- case {number}: {why}" for number, why in sorted(tally.wrong.items())]
    text = HEAD.format(
        commit=_commit(path.parent),
        cases=f"{tally.n_cases:,}",
        seed=seed,
        seconds=f"{LIMIT_SECONDS:.0f}",
        table="\n".join(lines),
        slowest=f"{tally.slowest[0]:.1f}",
        peak=tally.peak,
        limit=LIMIT_MEGABYTES,
        wrong="\n".join(["", "Wrong:", "", *wrong, ""]) if wrong else "",
        python=platform.python_version(),
        pyarrow=version("pyarrow"),
        numpy=version("numpy"),
    )
    path.write_text(text, encoding="utf-8")


HEAD = """\
# Hostile files

Real files of every kind that the program reads, each broken in one or a few ways and then used as
a user would: `make fuzz`, which wrote this page. Edits are of the structure (values, keys and
depth of JSON and TOML; cells, rows and columns of CSV; arrays; entries of zips; types and sizes of
Parquet), of folders (links, pipes, missing and huge files) and of bytes.

A case must be *refused* with an error of our own in one line, or *accepted*, with all that follows
from it. *Internal* is any other error, a numerical warning, or a process that dies; a *hang* takes
over {seconds} s.

{cases} cases of seed {seed}, commit {commit}; Python {python}, numpy {numpy}, pyarrow {pyarrow}.

{table}

The slowest case took {slowest} s. Peak memory of a process that has all of the program loaded was
{peak} MB; the limit is {limit} MB.
{wrong}
`python -m fuzz --seed {seed} --only NUMBER` runs one case alone, and tells what it is.
"""


def _commit(folder: Path) -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ":/src", ":/fuzz")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
