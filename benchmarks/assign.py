"""Seconds of loading a model and of assigning a site's rows, once the software is imported."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hidden import N_SITES, POLICY, merged
from benchmarks.measure import Finding, Report, one_core, seconds
from fedmerdel import GlobalModel, assign, simulate

N_ROWS, N_VARIABLES, N_CLUSTERS = 1000, 100, 12
TIMES = 5
MOST = 0.3

# What the first use in a process takes; kernels are compiled, and read from the disk.
_FIRST = """
import sys, time
import numpy as np
X = np.load(sys.argv[2])
began = time.perf_counter()
from fedmerdel import GlobalModel, assign
imported = time.perf_counter()
model = GlobalModel.load(sys.argv[1])
loaded = time.perf_counter()
assign(model, X)
print(imported - began, loaded - imported, time.perf_counter() - loaded)
"""


def run() -> Report:
    """Time both in this process, where all is warm, and once in a new one."""
    table = simulate(N_SITES * N_ROWS, N_VARIABLES, N_CLUSTERS, random_state=0)
    site = np.arange(N_SITES * N_ROWS) % N_SITES
    federation = merged(table.X, {f"site {b:02d}": site == b for b in range(N_SITES)}, POLICY)
    X = table.X[site == 0]
    with tempfile.TemporaryDirectory() as scratch, one_core():
        folder, rows = Path(scratch) / "model", Path(scratch) / "rows.npy"
        federation.model.save(folder)
        np.save(rows, X)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1000
        model = GlobalModel.load(folder)
        load = _median(lambda: GlobalModel.load(folder))
        # A model that was just read has nothing computed yet, as at a site.
        fresh = iter([GlobalModel.load(folder) for _ in range(TIMES + 1)])
        one = _median(lambda: assign(next(fresh), X))
        every = _median(lambda: [assign(model, table.X[site == b]) for b in range(N_SITES)])
        command = [sys.executable, "-c", _FIRST, str(folder), str(rows)]
        first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    imported, first_load, first_assign = map(float, first.split())
    return Report(
        [
            _finding("warm, median of 5", load, one),
            _finding("first use in a process", first_load, first_assign),
        ],
        ["milliseconds", "import", "load", "assign one site", "assign all sites"],
        [
            ["warm, median of 5", "", *(f"{1e3 * each:.1f}" for each in (load, one, every))],
            [
                "first use in a process",
                *(f"{1e3 * each:.1f}" for each in (imported, first_load, first_assign)),
                "",
            ],
        ],
        f"A model of {N_SITES} sites with {N_ROWS:,} rows of {N_VARIABLES} variables each, policy "
        f"{POLICY}, {federation.n_clusters} clusters: a folder of {size:.0f} kB. The rows are in "
        "memory, one core. In a new process kernels are compiled already, and read from the disk.",
    )


def _median(work: Callable[[], Any]) -> float:
    """Return the median seconds of a call that was made once before."""
    work()
    return float(np.median([seconds(work) for _ in range(TIMES)]))


def _finding(when: str, load: float, one: float) -> Finding:
    return Finding(
        f"load a model and assign {N_ROWS:,} rows x {N_VARIABLES}, {when}",
        f"within {MOST} s after the import",
        f"{load + one:.3f} s",
        load + one <= MOST,
    )
