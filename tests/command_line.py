"""Hospitals' tables, and what a command says, for the tests of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

NAMES = ("asthma", "diabetes", "stroke", "smoker")
SITES = {"leeds": 0.3, "york": 0.6, "hull": 0.5}


class Said(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Said]


def hospital(n_rows: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n_rows) < share
    chance = np.where(ill[:, None], [0.7, 0.8, 0.4, 0.9], [0.1, 0.1, 0.05, 0.2])
    frame = pd.DataFrame((rng.random((n_rows, 4)) < chance).astype(int), columns=list(NAMES))
    frame["died"] = np.where(rng.random(n_rows) < np.where(ill, 0.3, 0.05), "yes", "no")
    frame["patient"] = [f"SECRET-{seed}-{n}" for n in range(n_rows)]
    frame["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n_rows) % 300, "D")
    frame["bmi"] = rng.normal(27, 4, n_rows).round(3)
    return frame


def make_tables(folder: Path) -> None:
    for seed, (site, share) in enumerate(SITES.items()):
        table = hospital(400, share, seed)
        table.to_csv(folder / f"{site}.csv", index=False)
        table.to_parquet(folder / f"{site}.parquet")


def make_tables_that_do_not_fit(folder: Path) -> None:
    """From one that does: another level, no row, few rows, a column that is not there."""
    table = pd.read_csv(folder / "leeds.csv")
    table.assign(asthma="SECRET").to_csv(folder / "bad.csv", index=False)
    table.head(0).to_csv(folder / "empty.csv", index=False)
    table.head(6).to_csv(folder / "small.csv", index=False)
    table.drop(columns="stroke").to_csv(folder / "lacks.csv", index=False)


INIT = ("init", "leeds.csv", "-o", "study.toml", "--outcome", "died")
INIT += ("--row-id", "patient", "--rounds", "9", "--trusts-centre")
INIT += ("--exclude", "seen", "--exclude", "bmi", "--name", "lungs")


def done(said: Said) -> str:
    assert said.code == 0, said.err
    assert said.err == ""
    return said.out


def words(said: Said) -> str:
    """What a command has said, whatever the width of the screen."""
    return " ".join(done(said).split())


def refused(said: Said, *words: str) -> None:
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in words), said.err


def first_merge(run: Run, suffix: str = ".csv") -> None:
    """From the tables to the centre's folder: study, fits, merge."""
    done(run(*INIT))
    for site in SITES:
        done(run("fit", "study.toml", f"{site}{suffix}", "--site", site, "-o", f"{site}-0"))
    done(run("merge", "study.toml", *(f"{site}-0" for site in SITES), "-o", "centre-0"))


def reply(run: Run, centre: str, site: str, output: str, suffix: str = ".csv") -> Said:
    """Let a site reply to the broadcast in a centre's folder."""
    sent = f"{centre}/broadcast"
    return run("reply", "study.toml", sent, f"{site}{suffix}", "--site", site, "-o", output)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def agree(run: Run, site: str = "leeds", *more: str) -> Path:
    """A site's folder with its own file."""
    folder = Path(f"{site}-home")
    folder.mkdir()
    done(
        run("site", "study.toml", f"{site}.csv", "--site", site, "-o", f"{folder}/site.toml", *more)
    )
    return folder / "site.toml"
