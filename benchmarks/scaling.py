"""Time per row from 10,000 to 1,000,000 rows, and the memory of the largest fit."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np

from benchmarks.measure import Finding, Report, one_core, seconds
from fedmerdel import MerDel, simulate

SIZES = (10_000, 100_000, 1_000_000)
TIMES = (9, 5, 3)
GROWTH = 1.3
MEGABYTES = 200.0

# Run in a process of its own: the peak of a process only rises.
_MEMORY = """
import resource
from fedmerdel import MerDel, simulate
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
table = simulate({n}, 100, 12, random_state=0)
MerDel(random_state=0).fit(table.X[:20_000])  # compile first
resident = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
# What making the table took at its peak is given back, but stays the process's peak:
# fill up to it, so that every further megabyte counts.
import numpy as np
filler = np.ones(max(0, int((peak() - resident) * 2**20 / 8)))
before = peak()
MerDel(random_state=0).fit(table.X)
print(peak() - before)
"""


def run() -> Report:
    """Fit tables of three sizes on one core; then once more for the memory."""
    rows, per_row = [], []
    with one_core():
        for n_rows, times in zip(SIZES, TIMES, strict=True):
            X = simulate(n_rows, 100, 12, random_state=0).X
            model = MerDel(random_state=0)
            model.fit(X)
            took = float(np.median([seconds(partial(model.fit, X)) for _ in range(times)]))
            per_row.append(took / n_rows)
            rows.append(
                [
                    f"{n_rows:,}",
                    f"{took:.2f}",
                    f"{1e6 * took / n_rows:.2f}",
                    str(model.n_clusters_),
                    str(model.n_iter_),
                ]
            )
    growth = per_row[-1] / per_row[0]
    packed = SIZES[-1] * 13 / 2**20
    limit = 3 * packed + MEGABYTES
    command = [sys.executable, "-c", _MEMORY.format(n=SIZES[-1])]
    extra = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return Report(
        [
            Finding(
                "time per row at 1,000,000 rows / at 10,000",
                f"under {GROWTH}",
                f"{growth:.2f}",
                growth < GROWTH,
            ),
            Finding(
                "peak memory of a fit of 1,000,000 x 100 beyond its input",
                f"under {limit:.0f} MB (3 x packed data + 200)",
                f"{extra:.0f} MB",
                extra < limit,
            ),
        ],
        ["rows", "seconds", "microseconds per row", "clusters", "passes over all rows"],
        rows,
    )
