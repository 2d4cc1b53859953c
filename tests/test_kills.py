"""Commands that are killed leave the old target or the new one, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel import Federation, draft_study, fit_site, merge_sites, reply_site, simulate

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("fit", "reply", "merge", "step", "assign", "report", "validate")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what each command reads."""
    folder = tmp_path_factory.mktemp("kills")
    X = pd.DataFrame(simulate(600, 10, 3, random_state=3).X).add_prefix("v")
    study = draft_study(X, name="kills", rounds=2, trusts_centre=True)
    study.save(folder / "study.toml")
    tables = {site: X[np.arange(600) % 2 == b] for b, site in enumerate(("leeds", "york"))}
    summaries = [fit_site(study, table, site=site) for site, table in tables.items()]
    federation: Federation = merge_sites(study, summaries)
    federation.save(folder / "centre")
    for summary, (site, table) in zip(summaries, tables.items(), strict=True):
        table.to_csv(folder / f"{site}.csv", index=False)
        summary.save(folder / site)
        reply_site(study, federation.broadcast, table, site=site).save(folder / f"{site}-1")
    return folder


def killed(folder: Path, command: str, n_kills: int) -> tuple[int, int]:
    run = [sys.executable, "tests/kill_commands.py", str(folder), command, str(n_kills), "0"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    n, n_new = done.stdout.split()
    return int(n), int(n_new)


def test_a_few_kills(folder: Path) -> None:
    assert killed(folder, "merge", 4)[0] == 4


@pytest.mark.statistics
@pytest.mark.parametrize("command", COMMANDS)
def test_many_kills(command: str, folder: Path, record_property: Any) -> None:
    n, n_new = killed(folder, command, 90)
    told = f"{n}: the target was the old one {n - n_new} times, the new one {n_new} times"
    record_property(f"kills of `{command}`", f"{told}, another never")
